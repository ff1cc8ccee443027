"""FfDL's ``manifest.yml`` into the model; the manifest knows learners, data stores and one command.

A manifest has neither ``apiVersion`` nor ``kind``; ``looks_like_manifest`` tells it by its shape.
"""

from gangline.dialects.ffdl.manifest import job_from_value, looks_like_manifest

__all__ = ["job_from_value", "looks_like_manifest"]
