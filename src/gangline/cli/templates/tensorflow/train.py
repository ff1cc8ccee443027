"""Fit a line with MultiWorkerMirroredStrategy. TF_CONFIG comes from Gangline; alone it trains alone."""

import numpy as np
import tensorflow as tf

from gangline import runtime

EPOCHS = 10
strategy = tf.distribute.MultiWorkerMirroredStrategy()
inputs = np.linspace(-1, 1, 1024, dtype=np.float32).reshape(-1, 1)
data = tf.data.Dataset.from_tensor_slices((inputs, 3 * inputs + 1)).shuffle(1024, seed=0).batch(64).repeat()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss="mse")


class Report(tf.keras.callbacks.Callback):
    """Tells Gangline how far it is."""

    def on_epoch_end(self, epoch, logs=None):
        """Report the loss of an epoch."""
        runtime.report(step=epoch, total_steps=EPOCHS, loss=logs["loss"])
        print(f"epoch {epoch} loss {logs['loss']:.4f}", flush=True)


model.fit(data, epochs=EPOCHS, steps_per_epoch=16, verbose=0, callbacks=[Report()])
