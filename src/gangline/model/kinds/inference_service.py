"""An InferenceService of KServe: the document as its user wrote it. Its status is that of the services it is."""

from dataclasses import dataclass

from gangline.errors import InvalidInputError
from gangline.model.identity import DEFAULT_TENANT, Tenant, check_name
from gangline.model.kinds.service import ServiceStatus
from gangline.model.record import Record

_LONGEST_NAME = 40
FIRST_OF_TRANSFORMER = 1_000_000
"""The replicas of a transformer have the numbers above it: those of the predictor never come so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceServiceSpec:
    """An InferenceService of ``serving.kserve.io/v1beta1``; ``gangline.dialects.kserve`` reads what its fields mean."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    manifest_json: str
    generation: int = 1
    """How often its spec was written."""

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")
        if len(self.name) > _LONGEST_NAME:
            raise InvalidInputError(f"'{self.name}' is too long", field="metadata.name", expected="40 letters at most")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerStatus(ServiceStatus):
    """How far the transformer has come."""

    last_replica: int = FIRST_OF_TRANSFORMER


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceServiceStatus(ServiceStatus):
    """How far its predictor has come, and its transformer, if it has or had one."""

    transformer: TransformerStatus | None = None

    @property
    def state(self) -> str:
        """Where it is, in one word: what the predictor is and, once that can answer, what the transformer is."""
        own = ServiceStatus.state.fget(self)  # type: ignore[attr-defined]  # a property; slots know no super()
        if own not in ("ready", "asleep") or self.transformer is None or not self.transformer.last_number:
            return own  # type: ignore[no-any-return]
        return self.transformer.state


InferenceService = Record[InferenceServiceSpec, InferenceServiceStatus]
