"""Trials of Katib on one machine: the address that they push metrics to, opened when the first one needs it."""

import json
import logging
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import gangline
from gangline.dialects import Translation
from gangline.dialects.katib.trial import NAME_VARIABLE
from gangline.errors import GanglineError
from gangline.model import Clock, JobSpec, RoleSpec
from gangline.model.kinds.experiment import COLLECTOR_VARIABLE
from gangline.runtime.pushed_metrics import PORT
from gangline.storage.interface import Store

_HOST = "127.0.0.1"
_HOOK = Path(gangline.__file__).with_name("runtime") / "katib_trial"
_log = logging.getLogger(__name__)


class KatibTrials:
    """Fits jobs that records create to this machine; what trials push is answered by a server of their own."""

    def __init__(self, store: Store, clock: Clock, file: Path) -> None:
        self._store = store
        self._clock = clock
        self._file = file
        self._server: object | None = None
        self._port: int | None = None

    async def resume(self) -> None:
        """Listen again where trials that still run were told to push to."""
        if self._file.exists():
            await self._listen()

    async def place(self, spec: JobSpec) -> JobSpec:
        """Return a job as it runs here: without what speaks of a cluster's nodes, and able to push its metrics."""
        spec = Translation(spec=spec).on_one_machine()
        pushing = {role.name for role in spec.roles if _pushes(role)}
        if not pushing:
            return spec
        await self._listen()
        own = {
            "GANGLINE_DB_MANAGER": f"{_HOST}:{self._port}",
            "GANGLINE_NAMESPACE": spec.tenant,
            "PYTHONPATH": str(_HOOK),
        }
        roles = tuple(replace(role, env={**own, **role.env}) if role.name in pushing else role for role in spec.roles)
        return replace(spec, roles=roles)

    async def close(self) -> None:
        """Stop listening; trials go on."""
        if self._server is not None:
            await self._server.stop(0)  # type: ignore[attr-defined]  # a server of grpc, which may not be installed

    async def _listen(self) -> None:
        if self._server is not None or find_spec("grpc") is None:
            return
        from gangline.api.kubernetes.observation_log import ObservationLog, serve_observation_log

        kept = _kept_port(self._file)
        log = ObservationLog(self._store, self._clock)
        try:
            self._server, self._port = await serve_observation_log(log, _HOST, [*filter(None, (kept, PORT)), 0])
        except GanglineError as error:
            _log.error("trials cannot push metrics: %s", error)
            return
        self._file.write_text(json.dumps({"port": self._port}), encoding="utf-8")
        _log.info("trials push metrics to port %d", self._port)


def _pushes(role: RoleSpec) -> bool:
    return NAME_VARIABLE in role.env and COLLECTOR_VARIABLE not in role.env


def _kept_port(file: Path) -> int | None:
    try:
        return int(json.loads(file.read_text(encoding="utf-8"))["port"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
