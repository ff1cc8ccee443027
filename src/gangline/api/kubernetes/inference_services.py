"""KServe's InferenceServices."""

from gangline.api.kubernetes.foreign_kinds import ForeignKind
from gangline.api.kubernetes.plain import Plain, part
from gangline.dialects import document
from gangline.dialects.kserve import read_inference_service
from gangline.dialects.kserve.inference_service import notes_of
from gangline.dialects.kserve.status import inference_service_to_object
from gangline.kinds.inference_service import INFERENCE_SERVICE, observed
from gangline.model.kinds.inference_service import InferenceService, InferenceServiceSpec


def _read(sent: Plain, generation: int = 1) -> InferenceServiceSpec:
    metadata = {**part(sent, "metadata"), "generation": generation}
    return read_inference_service(document.plain({"metadata": metadata, "spec": sent.get("spec")}))


def _changed(known: InferenceService, before: Plain, wanted: Plain) -> InferenceServiceSpec:
    return _read(wanted, known.spec.generation + (wanted.get("spec") != before["spec"]))


INFERENCE_SERVICES = ForeignKind(
    kind=INFERENCE_SERVICE,
    show=lambda record: inference_service_to_object(record, observed=observed(record)),
    read=_read,
    changed=_changed,
    drafted=lambda record: record,
    notes=notes_of,
)
