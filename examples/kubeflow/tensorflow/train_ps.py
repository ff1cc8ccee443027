"""MNIST with TensorFlow's ParameterServerStrategy. Every replica of the TFJob runs this file.

TF_CONFIG says which one it is. Workers and parameter servers serve; the chief hands out training steps, evaluates, and
ends the job.
"""

import gzip
import os
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

BATCH, EPOCHS, TARGET = 200, 2, 0.95


def load(kind):
    """Images as rows between 0 and 1, and their labels."""
    folder = Path(os.environ["DATA_DIR"])
    with gzip.open(folder / f"{kind}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255
    with gzip.open(folder / f"{kind}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8).astype(np.int32)
    return images, labels


class Network(tf.Module):
    """One hidden layer and plain momentum. Its variables live on the parameter servers."""

    def __init__(self):
        super().__init__()
        shapes = [(784, 128), (128,), (128, 10), (10,)]
        self.weights = [tf.Variable(tf.random.stateless_normal(shape, (1, 2)) * 0.05) for shape in shapes]
        self.velocity = [tf.Variable(tf.zeros(shape), trainable=False) for shape in shapes]

    def scores(self, images):
        first, first_bias, second, second_bias = self.weights
        return tf.nn.relu(images @ first + first_bias) @ second + second_bias

    def learn(self, images, labels):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self.scores(images))
            loss = tf.reduce_mean(losses)
        for weight, velocity, slope in zip(self.weights, self.velocity, tape.gradient(loss, self.weights), strict=True):
            velocity.assign(0.9 * velocity + slope)
            weight.assign_sub(0.1 * velocity)
        return loss


def main():
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        server.join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        network = Network()

    def batches():
        images, labels = load("train")
        return tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(60_000).batch(BATCH).repeat()

    @tf.function
    def step(iterator):
        images, labels = next(iterator)
        return strategy.run(network.learn, args=(images, labels))

    iterator = iter(coordinator.create_per_worker_dataset(batches))
    test_images, test_labels = load("t10k")
    for epoch in range(EPOCHS):
        losses = [coordinator.schedule(step, args=(iterator,)) for _ in range(60_000 // BATCH)]
        coordinator.join()
        accuracy = float(np.mean(np.argmax(network.scores(test_images), axis=1) == test_labels))
        print(f"epoch {epoch + 1}: loss {losses[-1].fetch():.4f}, accuracy {accuracy:.4f}", flush=True)
    sys.exit(accuracy < TARGET)


if __name__ == "__main__":
    main()
