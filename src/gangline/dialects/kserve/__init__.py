"""KServe's InferenceServices (``serving.kserve.io/v1beta1``): read as services, their status told in its words."""

from gangline.dialects.kserve.inference_service import (
    API_VERSION,
    KIND,
    read_inference_service,
    service_of,
    transformer_of,
)

__all__ = ["API_VERSION", "KIND", "read_inference_service", "service_of", "transformer_of"]
