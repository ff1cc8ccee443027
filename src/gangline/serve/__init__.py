"""The model server: answers over HTTP and gRPC, in the protocols that clients already speak."""

from gangline.serve.handlers import Handler
from gangline.serve.tensors import TensorSpec

__all__ = ["Handler", "TensorSpec"]
