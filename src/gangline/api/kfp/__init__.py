"""The REST interface of Kubeflow Pipelines (v2beta1), so that ``kfp.Client`` drives Gangline as it is.

Wire to operations and back, like ``rest`` and ``kubernetes``. Runs, pipelines, versions,
experiments and recurring runs are records of kinds of our own; the id that a client sees is the record's name.
docs/pipelines.md is the manual.
"""

from gangline.api.kfp.application import PREFIX, make_kfp_server, mount, presents, refuse_without_token

__all__ = ["PREFIX", "make_kfp_server", "mount", "presents", "refuse_without_token"]
