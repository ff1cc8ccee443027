"""The kind InferenceService: one service or two, predictor and transformer, that KServe's clients wrote."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gangline.dialects.kserve import API_VERSION, KIND, read_inference_service, service_of, transformer_of
from gangline.dialects.kserve.status import inference_service_to_status, refused_status
from gangline.dialects.value import Value
from gangline.kinds.kind import Column, FileFormat, Kind, Owned, Plan, Published
from gangline.kinds.service import SERVICE, ended_replica, plan_service
from gangline.model import Resources, Timestamp
from gangline.model.kinds.inference_service import (
    FIRST_OF_TRANSFORMER,
    InferenceService,
    InferenceServiceSpec,
    InferenceServiceStatus,
    TransformerStatus,
)
from gangline.model.kinds.service import Service
from gangline.model.record import Record
from gangline.serving import is_wanted, number_of

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "description": "An InferenceService of KServe.",
}


_LOOK_SECONDS = 1.0


def parts_of(record: Record[Any, Any]) -> tuple[Service, ...]:
    """Return the services that a record is, the predictor first; of any other kind it is one itself.

    A transformer begins when it is known where its predictor answers, which it is told in its arguments.
    """
    spec = record.spec
    if not isinstance(spec, InferenceServiceSpec):
        return (record,)
    predictor: Service = replace(record, spec=service_of(spec))
    transformer = transformer_of(spec, record.status.address) if record.status.address else None
    if transformer is None:
        return (predictor,)
    return predictor, replace(record, spec=transformer, status=record.status.transformer or TransformerStatus())


def leaving_part(record: Record[Any, Any]) -> Service | None:
    """Return the transformer that a record has no longer, while it is still there."""
    spec, status = record.spec, record.status
    if not isinstance(spec, InferenceServiceSpec) or status.transformer is None or not status.transformer.last_number:
        return None
    if transformer_of(spec, "") is not None or status.transformer == _ended(status.transformer):
        return None
    name = f"{spec.name}-transformer"
    return replace(record, spec=replace(service_of(spec), name=name), status=status.transformer)


def owned_by(part: Service, owned: Owned) -> Owned:
    """Return what belongs to one of the services that a record is; ``sight`` then has them by their names."""
    if not isinstance(part.status, InferenceServiceStatus | TransformerStatus):
        return owned
    last = isinstance(part.status, TransformerStatus)
    return replace(
        owned,
        jobs=tuple(each for each in owned.jobs if (number_of(each) > FIRST_OF_TRANSFORMER) == last),
        ended=tuple(each for each in owned.ended if (each.number > FIRST_OF_TRANSFORMER) == last),
        sight=owned.sight.get(part.name) if owned.sight is not None else None,
    )


def observed(record: InferenceService) -> bool:
    """Whether the status speaks of the newest spec."""
    parts = parts_of(record)
    whole = 1 if transformer_of(record.spec, "") is None else 2
    return len(parts) == whole and all(is_wanted(part.spec, part.status) for part in parts)


def _plan(record: InferenceService, owned: Owned, now: Timestamp) -> Plan[InferenceServiceStatus]:
    predictor = parts_of(record)[0]
    first: Plan[Any] = plan_service(predictor, owned_by(predictor, owned), now)
    soon = replace(first, again_at=_sooner(first.again_at, Timestamp(now + _LOOK_SECONDS)))
    if transformer_of(record.spec, "") is None:
        leaving = leaving_part(record)
        drains = leaving is not None and owned_by(leaving, owned).sight is not None
        return soon if drains else _without_transformer(first, owned)
    for transformer in parts_of(replace(record, status=first.status))[1:]:
        mine = owned_by(transformer, owned)
        if mine.sight is not None:
            return _joined(first, plan_service(transformer, mine, now))
    return soon  # where its predictor answers was not known when it was looked at


def _joined(first: Plan[Any], second: Plan[Any]) -> Plan[InferenceServiceStatus]:
    return Plan(
        status=replace(first.status, transformer=second.status),
        create=first.create + second.create,
        cancel=first.cancel + second.cancel,
        again_at=_sooner(first.again_at, second.again_at),
    )


def _without_transformer(first: Plan[Any], owned: Owned) -> Plan[InferenceServiceStatus]:
    """End the replicas of a transformer that was taken from the file and has answered what it was asked."""
    past = first.status.transformer
    left = tuple(job.id for job in owned.jobs if number_of(job) > FIRST_OF_TRANSFORMER)
    status = replace(first.status, transformer=_ended(past)) if past is not None else first.status
    return replace(first, status=status, cancel=first.cancel + left)


def _ended(status: TransformerStatus) -> TransformerStatus:
    """Keep the numbers alone, so that a later transformer begins with new ones."""
    return TransformerStatus(last_number=status.last_number, last_replica=status.last_replica)


def _sooner(*times: Timestamp | None) -> Timestamp | None:
    return min((each for each in times if each is not None), default=None)


def _read(value: Value, sizes: Mapping[str, Resources]) -> InferenceServiceSpec:
    del sizes  # KServe has none
    return read_inference_service(value)


def _write(spec: InferenceServiceSpec) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(spec.manifest_json)
    return {**body, "metadata": {**body["metadata"], "namespace": spec.tenant, "generation": spec.generation}}


def _published(record: InferenceService, owned: Owned) -> Published:
    del owned
    return Published(status=inference_service_to_status(record, observed=observed(record)))


def _ready(record: InferenceService) -> str:
    parts = [part.status for part in parts_of(record)]
    return f"{sum(each.ready for each in parts)}/{sum(each.scale for each in parts)}"


_OWN_COLUMNS = {
    each.heading: each
    for each in (Column("READY", _ready), Column("ADDRESS", lambda record: parts_of(record)[-1].status.address or None))
}

INFERENCE_SERVICE: Kind[InferenceServiceSpec, InferenceServiceStatus, InferenceService] = Kind(
    name="inferenceservice",
    plural="inferenceservices",
    kind_word=KIND,
    api_version=API_VERSION,
    summary="Serve KServe's InferenceServices.",
    description="InferenceService: a predictor of KServe's, served by Gangline; each replica is a job of its own.",
    spec=InferenceServiceSpec,
    status=InferenceServiceStatus,
    answer=InferenceService,
    editable=True,
    format=FileFormat(read=_read, write=_write, schema=_SCHEMA),
    # Those of a service look at the status alone, but for the model.
    columns=tuple(_OWN_COLUMNS.get(each.heading, each) for each in SERVICE.columns),  # type: ignore[arg-type]
    plan=_plan,
    digest=ended_replica,  # type: ignore[arg-type]  # it looks at the job alone
    related=lambda spec: SERVICE.related(service_of(spec)),
    published=_published,
    refused=refused_status,
)
