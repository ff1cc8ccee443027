"""An object in a request into a job, by the rules of the dialect and of a machine that runs no images."""

from dataclasses import replace

from gangline.api.kubernetes.plain import Plain
from gangline.dialects import Translation, read_plain
from gangline.dialects.kubeflow import GROUP, Kind
from gangline.errors import InvalidInputError

_SERVER_FIELDS = (
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
"""What a server adds to ``metadata`` and a client may send back: never part of what a user wrote."""


def translate(document: Plain, kind: Kind, version: str) -> Translation:
    """Read the one job in a document; it must be of the kind and version of the path it was sent to."""
    expected = {"kind": kind.name, "apiVersion": f"{GROUP}/{version}"}
    for field, value in expected.items():
        if document.get(field, value) != value:
            raise InvalidInputError(f"'{document[field]}' does not belong here", field=field, expected=value)
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        metadata = {name: value for name, value in metadata.items() if name not in _SERVER_FIELDS}
    written = {name: value for name, value in document.items() if name != "status"}
    (translation,) = read_plain({**written, **expected, "metadata": metadata or {}})
    if translation.managed_by is not None:
        raise InvalidInputError(
            f"the job belongs to the controller '{translation.managed_by}'",
            field="spec.runPolicy.managedBy",
            expected="a job without it",
        )
    return replace(translation, spec=translation.on_one_machine())
