"""A worker as a process of its own, for tests that kill it: notes every batch it has trained on, then pushes ones."""

import sys

import numpy as np

from gangline import ps

notes, examples, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ones = {"w": np.ones(50, np.float32)}
with ps.connect({"w": np.zeros(50, np.float32)}) as session:
    for shard in session.shards(examples=examples, size=20, epochs=epochs):
        for batch in shard.batches(5):
            session.push_pull(ones)
            with open(notes, "a") as file:  # noqa: PTH123 - one short append for each batch
                file.write(" ".join(f"{shard.epoch}:{index}" for index in batch) + "\n")
