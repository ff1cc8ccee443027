"""Foreign and own formats into the model, and status back out. Pure translations: text or data in, values out.

``read`` takes any file a user has and answers with one ``Translation`` per job. The dialects: ``native`` (our job
file), ``kubeflow`` (TFJob and its kin), ``ffdl`` (manifests), ``arena`` (flags of a command line). ``frameworks``
says what replicas must be told so that each framework finds its peers.
"""

from gangline.dialects.recognition import read, read_plain
from gangline.dialects.translation import CleanPods, Translation

__all__ = ["CleanPods", "Translation", "read", "read_plain"]
