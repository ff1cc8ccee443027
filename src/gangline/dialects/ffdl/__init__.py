"""FfDL's ``manifest.yml`` into the model; the manifest knows learners, data stores and one command.

A manifest has neither ``apiVersion`` nor ``kind``; ``looks_like_manifest`` tells it by its shape.
"""

from gangline.dialects.ffdl.manifest import FRAMEWORKS, job_from_value, looks_like_manifest
from gangline.dialects.ffdl.status import (
    NAME_LABEL,
    line_to_plain,
    metric_to_plain,
    model_to_plain,
)

__all__ = [
    "FRAMEWORKS",
    "NAME_LABEL",
    "job_from_value",
    "line_to_plain",
    "looks_like_manifest",
    "metric_to_plain",
    "model_to_plain",
]
