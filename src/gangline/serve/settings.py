"""What a model server is told when it starts."""

from pathlib import Path

import msgspec

from gangline.serve.batching import BatchSettings
from gangline.serve.request_log import LogSettings


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a worker process needs to know."""

    models: dict[str, Path]
    repository: Path | None = None
    """Where models may be added while it runs."""
    batch: BatchSettings = BatchSettings()
    max_body_bytes: int = 256 << 20
    """Larger requests are refused."""
    drain_seconds: float = 20.0
    """How long requests under way may take when the server is told to stop."""
    grpc_host: str = "127.0.0.1"
    grpc_port: int | None = None
    log: LogSettings | None = None
    """What is kept of requests and answers."""
    workers_folder: Path
    """Where the workers of one server keep what they count and what they were asked to load."""


def to_text(settings: ServerSettings) -> str:
    """Write settings for another process."""
    return msgspec.json.encode(settings, enc_hook=str).decode()


def from_text(text: str) -> ServerSettings:
    """Read what another process wrote."""
    return msgspec.json.decode(text, type=ServerSettings, dec_hook=lambda want, value: want(value))
