"""Writes one model of each kind, and what the libraries themselves answer: python models.py FOLDER."""

import sys
from pathlib import Path

import joblib
import numpy as np
import onnx
import onnxruntime
import xgboost
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

FOLDER = Path(sys.argv[1])


def folder(name):
    (FOLDER / name).mkdir(parents=True)
    return FOLDER / name


def layers():
    random = np.random.default_rng(1)
    sizes = [(8, 16), (16, 3)]
    return [
        (random.normal(size=size).astype(np.float32), random.normal(size=size[1]).astype(np.float32)) for size in sizes
    ]


def write_onnx(rows):
    (w0, b0), (w1, b1) = layers()
    constants = {"w0": w0, "b0": b0, "w1": w1, "b1": b1}
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["sums"]),
        helper.make_node("Relu", ["sums"], ["hidden"]),
        helper.make_node("Gemm", ["hidden", "w1", "b1"], ["y"]),
    ]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name, width in (("x", 8), ("y", 3))
    ]
    inside = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "layers", values[:1], values[1:], inside)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    file = folder("onnx") / "model.onnx"
    onnx.save(model, file)
    return onnxruntime.InferenceSession(file).run(["y"], {"x": rows})[0]


def write_numpy(rows):
    (w0, b0), (w1, b1) = layers()
    np.savez(
        folder("numpy") / "model.npz",
        weight0=w0,
        bias0=b0,
        weight1=w1,
        bias1=b1,
        mean=np.float32(0),
        deviation=np.float32(1),
    )
    return np.maximum(rows @ w0 + b0, 0) @ w1 + b1


def main():
    rows = np.random.default_rng(2).normal(size=(5, 8)).astype(np.float32)
    flowers, kinds = load_iris(return_X_y=True)
    classifier = LogisticRegression(max_iter=500).fit(flowers, kinds)
    joblib.dump(classifier, folder("sklearn") / "model.joblib")
    booster = xgboost.train({"objective": "reg:squarederror"}, xgboost.DMatrix(flowers, kinds), 5)
    booster.save_model(folder("xgboost") / "model.ubj")
    np.savez(
        FOLDER / "answers.npz",
        rows=rows,
        flowers=flowers[:5],
        onnx=write_onnx(rows),
        numpy=write_numpy(rows),
        sklearn=classifier.predict(flowers[:5]),
        chances=classifier.predict_proba(flowers[:5]),
        xgboost=booster.inplace_predict(flowers[:5].astype(np.float32)),
    )


main()
