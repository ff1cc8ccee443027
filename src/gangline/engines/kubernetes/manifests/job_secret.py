"""The Secret of a job: a token that its replicas have and nobody else, and files that need to be as safe as that.

Parameter servers and their workers prove by it that they are of one job (``gangline.ps``), MPI's remote shell that a
command comes from the launcher. Pure, but for the token, which is drawn.
"""

import base64
import secrets
from collections.abc import Mapping

from gangline.engines.kubernetes.manifests.pod import HOME, Plain, Staging

TOKEN = "token"  # noqa: S105  # the name of a file
FOLDER = f"{HOME}/secret"
_VOLUME = "gangline-secret"


def secret_name(shared: str) -> str:
    """Name the Secret of a job with parameter servers; ``shared`` is the name of what its replicas share."""
    return f"{shared}-secret"


def new_secret(metadata: Plain, files: Mapping[str, bytes] | None = None) -> Plain:
    """Write a Secret with a new token and these files. Creating it a second time must change nothing."""
    content = {**(files or {}), TOKEN: secrets.token_hex(32).encode()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "immutable": True,
        "data": {name: base64.b64encode(value).decode() for name, value in content.items()},
    }


def secret_staging(name: str, *, volume: str = _VOLUME, folder: str = FOLDER, mode: int = 0o444) -> Staging:
    """Write what every replica of the job mounts. Whoever is in the pod may read it, and nobody else is."""
    return Staging(
        volumes=({"name": volume, "secret": {"secretName": name, "defaultMode": mode}},),
        mounts=({"name": volume, "mountPath": folder, "readOnly": True},),
    )
