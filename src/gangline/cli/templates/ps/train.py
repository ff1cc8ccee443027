"""Fit a line with workers that come and go: the server holds the model, each worker has its share of the data."""

import numpy as np

from gangline import ps, runtime

inputs = np.linspace(-1, 1, 6_000)
outputs = 3 * inputs + 1
model = {"slope": np.zeros(1), "offset": np.zeros(1)}

with ps.connect(model, settings=ps.Settings(learning_rate=0.1)) as session:
    for shard in session.shards(examples=6_000, size=1_000, epochs=5):
        for batch in shard.batches(100):
            now = session.parameters
            wrong = now["slope"] * inputs[batch] + now["offset"] - outputs[batch]
            gradients = {"slope": np.array([(wrong * inputs[batch]).mean()]), "offset": np.array([wrong.mean()])}
            loss = float((wrong**2).mean())
            session.push_pull(gradients, loss=loss)
        runtime.report(loss=loss)
        print(f"epoch {shard.epoch} loss {loss:.4f}", flush=True)
