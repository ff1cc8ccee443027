"""Iris with pandas and scikit-learn, written with the kfp package.

python pipeline.py iris.yaml
gangline pipeline run -f iris.yaml -p neighbours=5 --follow
"""

import sys

from kfp import compiler, dsl
from kfp.dsl import Dataset, Input, Metrics, Model, Output

PACKAGES = ["pandas==2.2.3", "scikit-learn==1.5.2"]
component = dsl.component(base_image="python:3.11", packages_to_install=PACKAGES)


@component
def prepare(table: Output[Dataset]):
    """Write the measurements and species as a table."""
    from sklearn.datasets import load_iris

    frame = load_iris(as_frame=True).frame
    frame.to_csv(table.path, index=False)
    table.metadata["rows"] = len(frame)


@component
def split(table: Input[Dataset], part: float, train: Output[Dataset], test: Output[Dataset]):
    """Keep a part of every species for the test."""
    import pandas as pd
    from sklearn.model_selection import train_test_split

    frame = pd.read_csv(table.path)
    parts = train_test_split(frame, test_size=part, stratify=frame["target"], random_state=1)
    for rows, out in zip(parts, (train, test), strict=True):
        rows.to_csv(out.path, index=False)


@component
def fit(train: Input[Dataset], neighbours: int, model: Output[Model]):
    """Train a classifier."""
    import pickle
    from pathlib import Path

    import pandas as pd
    from sklearn.neighbors import KNeighborsClassifier

    frame = pd.read_csv(train.path)
    fitted = KNeighborsClassifier(neighbours).fit(frame.drop(columns="target").to_numpy(), frame["target"])
    Path(model.path).write_bytes(pickle.dumps(fitted))


@component
def evaluate(model: Input[Model], test: Input[Dataset], metrics: Output[Metrics]) -> float:
    """Count how many species are right."""
    import pickle
    from pathlib import Path

    import pandas as pd

    frame = pd.read_csv(test.path)
    fitted = pickle.loads(Path(model.path).read_bytes())
    accuracy = float(fitted.score(frame.drop(columns="target").to_numpy(), frame["target"]))
    metrics.log_metric("accuracy", accuracy)
    return accuracy


@dsl.pipeline(name="iris")
def iris(neighbours: int = 5, part: float = 0.3) -> float:
    parts = split(table=prepare().outputs["table"], part=part)
    model = fit(train=parts.outputs["train"], neighbours=neighbours).outputs["model"]
    return evaluate(model=model, test=parts.outputs["test"]).outputs["Output"]


if __name__ == "__main__":
    compiler.Compiler().compile(iris, sys.argv[1])
