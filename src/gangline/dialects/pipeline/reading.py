"""Which form a pipeline is written in: compiled by the kfp package, a component, or our own steps."""

from collections.abc import Sequence

from gangline.dialects.kfp import read_pipeline
from gangline.dialects.pipeline.steps import is_native, read_steps
from gangline.dialects.value import Value
from gangline.pipelines import Graph


def read_graph(documents: Sequence[Value]) -> Graph:
    """Read the documents of a pipeline; refuses what cannot run."""
    if is_native(documents[0]):
        return read_steps(documents[0])
    return read_pipeline(documents)
