"""Writes models of one library, and what it answers itself: python served_models.py torch|tensorflow FOLDER."""

import sys
from pathlib import Path

import numpy as np

LIBRARY, FOLDER = sys.argv[1], Path(sys.argv[2])  # one at a time: both in one process do not always get along
ROWS, OTHERS = np.random.default_rng(1).normal(size=(2, 5, 8)).astype(np.float32)


def folder(name):
    (FOLDER / name).mkdir(parents=True)
    return FOLDER / name


def write_torch():
    import torch

    class Both(torch.nn.Module):
        """Inputs that differ, and an answer of a type that NumPy does not have."""

        def forward(self, left, right):
            return {"difference": left - right, "short": (left + right).to(torch.bfloat16)}

    rows, others = torch.from_numpy(ROWS), torch.from_numpy(OTHERS)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).eval()
    torch.jit.script(net).save(str(folder("torchscript") / "model.pt"))
    torch.jit.trace(Both(), (rows, others), strict=False).save(str(folder("traced") / "model.pt"))
    batch = {0: torch.export.Dim("batch")}
    programs = {
        "exported": torch.export.export(net, (rows,), dynamic_shapes=(batch,)),
        "fixed": torch.export.export(net, (rows,)),
        "both": torch.export.export(Both(), (rows, others), dynamic_shapes={"left": batch, "right": batch}),
    }
    for name, program in programs.items():
        torch.export.save(program, folder(name) / "model.pt2")
    return net(rows).detach().numpy()


def write_tensorflow():
    import tensorflow as tf

    class Text(tf.Module):
        """A tensor of any number of dimensions beside one of text."""

        @tf.function(
            input_signature=[
                tf.TensorSpec(None, tf.float32, name="some"),
                tf.TensorSpec([None], tf.string, name="words"),
            ]
        )
        def answer(self, some, words):
            return {"twice": 2 * some, "loud": tf.strings.upper(words)}

    layers = [tf.keras.layers.Input((8,), name="pixels"), tf.keras.layers.Dense(3, activation="relu")]
    model = tf.keras.Sequential(layers)
    model.export(str(folder("keras") / "1"), verbose=False)
    text = Text()
    tf.saved_model.save(text, str(folder("text") / "1"), signatures={"serving_default": text.answer})
    return model(ROWS).numpy()


answers = write_torch() if LIBRARY == "torch" else write_tensorflow()
np.savez(FOLDER / "answers.npz", rows=ROWS, others=OTHERS, answers=answers)
