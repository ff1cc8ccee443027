"""ConfigMaps and Secrets of one tenant, as the service keeps them: one JSON file each. They are only read here."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gangline.errors import EngineError

_KINDS = {
    "configMapRef": "configmaps",
    "configMapKeyRef": "configmaps",
    "configMap": "configmaps",
    "secretRef": "secrets",
    "secretKeyRef": "secrets",
    "secret": "secrets",
}
_WORDS = {"configmaps": "ConfigMap", "secrets": "Secret"}


@dataclass(frozen=True, slots=True)
class Objects:
    """Looks up what pod templates refer to. A missing object or key is an error unless the reference is optional."""

    directory: Path

    def all_of(self, source: Mapping[str, object]) -> dict[str, str]:
        """The variables of an ``envFrom`` source; what is not text cannot be one, and is left out."""
        texts = {name: _text(value) for name, value in (self._referred(source) or {}).items()}
        return {name: text for name, text in texts.items() if text is not None}

    def one_of(self, source: Mapping[str, object]) -> str | None:
        """The value of a ``valueFrom`` source; None for one that may be missing, and for sources not known here."""
        data = self._referred(source)
        reference = _reference(source)
        if data is None or reference is None:
            return None
        name, wanted = str(reference[1].get("name")), str(reference[1].get("key"))
        if wanted not in data:
            if reference[1].get("optional") is True:
                return None
            raise EngineError(f"{_WORDS[reference[0]]} '{name}' has no key '{wanted}'")
        text = _text(data[wanted])
        if text is None:
            raise EngineError(
                f"key '{wanted}' of {_WORDS[reference[0]]} '{name}' is not text, and cannot be a variable"
            )
        return text

    def files_of(self, source: Mapping[str, object]) -> dict[str, bytes]:
        """The files of a volume source: every key, or those that ``items`` names, by path."""
        data = self._referred(source)
        reference = _reference(source)
        items = reference[1].get("items") if reference else None
        if data is None or not isinstance(items, list):
            return data or {}
        chosen = [item for item in items if isinstance(item, Mapping)]
        return {str(item.get("path")): data[str(item.get("key"))] for item in chosen if str(item.get("key")) in data}

    def _referred(self, source: Mapping[str, object]) -> dict[str, bytes] | None:
        reference = _reference(source)
        if reference is None:
            return None
        folder, fields = reference
        name = str(fields.get("name") or fields.get("secretName") or "")
        file = self.directory / folder / f"{name}.json"
        if "/" in name or not file.is_file():
            if fields.get("optional") is True:
                return None
            raise EngineError(f"there is no {_WORDS[folder]} '{name}' here; create it (docs/kubeflow.md)")
        return _data(json.loads(file.read_bytes()))


def _reference(source: Mapping[str, object]) -> tuple[str, Mapping[str, object]] | None:
    for field, folder in _KINDS.items():
        fields = source.get(field)
        if isinstance(fields, Mapping):
            return folder, fields
    return None


def _data(kept: Mapping[str, object]) -> dict[str, bytes]:
    """Every key of an object, whichever of its fields it stands in."""
    found: dict[str, bytes] = {}
    secret = kept.get("kind") == "Secret"
    for field in ("data", "binaryData", "stringData"):
        values = kept.get(field)
        for name, value in values.items() if isinstance(values, Mapping) else ():
            encoded = field == "binaryData" or (secret and field == "data")
            found[str(name)] = _decoded(str(value), str(name)) if encoded else str(value).encode()
    return found


def _text(value: bytes) -> str | None:
    """A value as a variable of a process, which holds no NUL; None if it is something else."""
    try:
        return None if b"\0" in value else value.decode()
    except UnicodeDecodeError:
        return None


def _decoded(text: str, key: str) -> bytes:
    try:
        # Many programs that write base64 break its lines, and a cluster does not mind.
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise EngineError(f"the value of key '{key}' is not base64: {error}") from error
