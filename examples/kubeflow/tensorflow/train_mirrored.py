"""MNIST with TensorFlow's MultiWorkerMirroredStrategy: every worker of the TFJob holds the model."""

import gzip
import os
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

BATCH, EPOCHS, TARGET = 100, 2, 0.95  # examples per worker and step


def load(kind):
    """Images as rows between 0 and 1, and their labels."""
    folder = Path(os.environ["DATA_DIR"])
    with gzip.open(folder / f"{kind}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255
    with gzip.open(folder / f"{kind}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8).astype(np.int32)
    return images, labels


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # first of all: it reads TF_CONFIG and meets the others
    workers, number = strategy.num_replicas_in_sync, strategy.cluster_resolver.task_id
    images, labels = load("train")
    batches = tf.data.Dataset.from_tensor_slices((images[number::workers], labels[number::workers]))
    batches = batches.shuffle(60_000, seed=number).batch(BATCH, drop_remainder=True)
    batches = strategy.distribute_datasets_from_function(lambda _: batches)
    with strategy.scope():
        network = tf.keras.Sequential(
            [
                tf.keras.layers.Input((784,)),
                tf.keras.layers.Dense(128, activation="relu"),
                tf.keras.layers.Dense(10),
            ]
        )
        optimizer = tf.keras.optimizers.Adam(0.001 * workers)
        optimizer.build(network.trainable_variables)

    def learn(images, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, network(images, training=True))
            loss = tf.reduce_sum(losses) / (BATCH * workers)
        slopes = tape.gradient(loss, network.trainable_variables)
        slopes = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, slopes)
        optimizer.apply(slopes, network.trainable_variables)
        return loss

    @tf.function
    def step(images, labels):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(learn, args=(images, labels)), axis=None)

    test_images, test_labels = load("t10k")
    for epoch in range(EPOCHS):
        for batch in batches:
            loss = step(*batch)
        accuracy = float(np.mean(np.argmax(network(test_images), axis=1) == test_labels))
        print(f"worker {number}, epoch {epoch + 1}: loss {loss:.4f}, accuracy {accuracy:.4f}", flush=True)
    sys.exit(accuracy < TARGET)


if __name__ == "__main__":
    main()
