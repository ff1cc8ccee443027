"""Which dialect a document is written in, by its apiVersion and kind or, for FfDL, by its shape."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from gangline.dialects import document, ffdl, kubeflow, native
from gangline.dialects.native.job import NO_SIZES
from gangline.dialects.translation import Translation
from gangline.dialects.value import Value, nearest
from gangline.errors import InvalidInputError
from gangline.model import Resources

_KEPT = ("ConfigMap", "Secret")
"""What jobs of the same file may refer to, wherever they run."""
_NAMESPACE = "Namespace"
_CLUSTERS_OWN = (_NAMESPACE, "ServiceAccount", "PersistentVolumeClaim", "Service")
"""What else may stand beside a job, in the order in which a cluster needs it."""
CommandOf = Callable[[str, str], str | None]
"""Returns the command that makes a record, by the group and the kind of its file; None if it is not a record."""


def read(
    text: str,
    *,
    file: str | None = None,
    sizes: Mapping[str, Resources] = NO_SIZES,
    strict: bool = False,
    command_of: CommandOf = lambda group, kind: None,
) -> tuple[Translation, ...]:
    """Read every job of a file, each in its own dialect.

    ``sizes`` adds the user's own T-shirt sizes; ``strict`` keeps upstream's behaviour of Kubeflow jobs; ``command_of``
    tells what to do with a record.
    """
    values = [item for value in document.parse(text, file=file) for item in _items(value)]
    objects = [value for value in values if _is_object(value)]
    found = [
        translation
        for value in values
        if not _is_object(value)
        for translation in _translations(value, sizes, strict=strict, command_of=command_of)
    ]
    if not found:
        raise InvalidInputError("the file holds no job", file=file, expected="at least one job")
    return tuple(_with_objects(found, objects))


def read_plain(
    data: object,
    *,
    file: str | None = None,
    sizes: Mapping[str, Resources] = NO_SIZES,
    strict: bool = False,
) -> tuple[Translation, ...]:
    """Read already decoded JSON: one job, or a Kubernetes ``List`` of them."""
    return tuple(
        translation
        for value in _items(document.plain(data, file=file))
        for translation in _translations(value, sizes, strict=strict)
    )


def _items(value: Value) -> Sequence[Value]:
    """The documents of a Kubernetes ``List``, or the document itself."""
    if isinstance(value.data, Mapping) and value.data.get("kind") == "List" and "items" in value.data:
        return value.fields()["items"].items()
    return (value,)


def _with_objects(jobs: Sequence[Translation], objects: Sequence[Value]) -> Iterator[Translation]:
    """Give every job the objects that it may refer to: those of its own namespace, and those that name none."""
    tenants = {job.spec.tenant for job in jobs}
    lost = tuple(
        f"a {_kind(value)} is for namespace '{place}', where no job of this file is: it is not sent"
        for value in objects
        if (place := _namespace(value)) is not None and place not in tenants
    )
    for number, job in enumerate(jobs):
        mine = [value for value in objects if _namespace(value) in (None, job.spec.tenant)]
        others = sorted((value for value in mine if _kind(value) in _CLUSTERS_OWN), key=_order)
        yield replace(
            job,
            objects_json=(
                *job.objects_json,
                *(document.compact_json(value.data) for value in mine if _kind(value) in _KEPT),
            ),
            cluster_objects_json=tuple(document.compact_json(value.data) for value in others),
            notes=(*job.notes, *(lost if number == 0 else ())),
            local_notes=(*job.local_notes, *map(_local_note, others)),
        )


def _local_note(value: Value) -> str:
    what = f"{_kind(value)} '{_name(value)}'"
    if _kind(value) == "PersistentVolumeClaim":
        return f"the {what} is a directory of Gangline's home here, whatever size and class it asks for"
    return f"the {what} is left out: only a cluster has a use for it"


def _kind(value: Value) -> str:
    return value.fields()["kind"].text()


def _order(value: Value) -> int:
    return _CLUSTERS_OWN.index(_kind(value))


def _metadata(value: Value) -> Mapping[str, Value]:
    given = value.fields()
    return given["metadata"].fields() if "metadata" in given else {}


def _name(value: Value) -> str:
    metadata = _metadata(value)
    if "name" not in metadata:
        raise value.wrong("the field is missing", expected=f"the name of the {_kind(value)}", below=".metadata.name")
    return metadata["name"].text()


def _namespace(value: Value) -> str | None:
    """The namespace an object is for; one that is a namespace is for itself."""
    if _kind(value) == _NAMESPACE:
        return _name(value)
    metadata = _metadata(value)
    return metadata["namespace"].text() if "namespace" in metadata else None


def _is_object(value: Value) -> bool:
    known = (*_KEPT, *_CLUSTERS_OWN)
    return isinstance(value.data, Mapping) and value.data.get("apiVersion") == "v1" and value.data.get("kind") in known


def _translations(
    value: Value,
    sizes: Mapping[str, Resources],
    *,
    strict: bool,
    command_of: CommandOf = lambda group, kind: None,
) -> tuple[Translation, ...]:
    if ffdl.looks_like_manifest(value):
        return (ffdl.job_from_value(value),)
    top = value.fields()
    kind = top["kind"].text() if "kind" in top else native.KIND
    group = top["apiVersion"].text().partition("/")[0] if "apiVersion" in top else native.API_VERSION.partition("/")[0]
    if kind == native.KIND and group == native.API_VERSION.partition("/")[0]:
        return (Translation(spec=native.job_from_value(value, sizes=sizes)),)
    if kind in kubeflow.KINDS:
        return (kubeflow.job_from_value(value, strict=strict),)
    known = (native.KIND, *kubeflow.KINDS)
    if (command := command_of(group, kind)) is not None:
        raise top["kind"].wrong(f"a {kind} is not a job", expected=f"a job here; '{command}' takes a {kind}")
    if kind in known:
        raise top["apiVersion"].wrong(
            f"'{top['apiVersion'].data}' is not known for kind {kind}", expected=native.API_VERSION
        )
    beside = (*_KEPT, *_CLUSTERS_OWN)
    raise top["kind"].wrong(
        f"unknown kind '{kind}'",
        expected=f"one of {', '.join(known)}, or beside a job {', '.join(beside)}",
        suggestion=nearest(kind, (*known, *beside)),
    )
