"""The verbs of models: versions registered, promoted, downloaded and deleted."""

from pathlib import Path

from gangline.model.kinds.registered_model import Model, ModelSpec, ModelVersion
from gangline.sdk.exchange import query_of
from gangline.sdk.files import fetch_files, send_files
from gangline.sdk.verbs.records import Records


class Models(Records[ModelSpec, Model]):
    """Asks one service about the models of one tenant; made by ``Client``."""

    def register(self, name: str, source: Path, *, framework: str = "") -> ModelVersion:
        """Register a file or a directory as the next version; the same content again is the same version."""
        path, query = self._path(name, "files"), query_of(framework=framework or None)
        return send_files(self._exchange, ModelVersion, path, query, source)

    def download(self, name: str, target: Path, *, version: int | None = None, alias: str = "") -> Path:
        """Bring a version's files into a directory; the newest version unless one is named."""
        query = query_of(version=version, alias=alias or None)
        return fetch_files(self._exchange, self._path(name, "files"), query, target, into=True)

    def promote(self, name: str, version: int, alias: str = "production") -> Model:
        """Let an alias lead to a version."""
        return self._exchange.ask(Model, "PUT", self._path(name, "aliases", alias), query_of(version=version))

    def demote(self, name: str, alias: str) -> Model:
        """Take an alias away; what it led to stays."""
        return self._exchange.ask(Model, "DELETE", self._path(name, "aliases", alias))

    def delete_version(self, name: str, version: int) -> Model:
        """Delete a version that neither an alias nor an unfinished job uses."""
        return self._exchange.ask(Model, "DELETE", self._path(name, "versions", str(version)))
