"""Pipelines in whichever form they are written, into the graph that ``gangline.pipelines`` runs."""

from gangline.dialects.pipeline.reading import read_graph
from gangline.dialects.pipeline.steps import each_job, is_native, remarks_of, with_files

__all__ = ["each_job", "is_native", "read_graph", "remarks_of", "with_files"]
