"""Pipelines as the ``kfp`` package compiles them, into the graph that ``gangline.pipelines`` runs."""

from gangline.dialects.kfp.component import simple_name
from gangline.dialects.kfp.component_graph import with_references
from gangline.dialects.kfp.pipeline import is_pipeline, read_pipeline

__all__ = ["is_pipeline", "read_pipeline", "simple_name", "with_references"]
