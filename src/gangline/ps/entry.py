"""How a server process begins: `serve` from training code, `python -m gangline.ps` from a job file."""

from __future__ import annotations

import logging
import sys
import threading
import time
from functools import partial
from pathlib import Path

from gangline import runtime
from gangline.ps.errors import SettingsError
from gangline.ps.protocol.authentication import Credentials
from gangline.ps.protocol.link import RemoteLink
from gangline.ps.server.loop import Server
from gangline.ps.server.resizing import Departure, announce
from gangline.ps.settings import Settings

LINGER_SECONDS = 5.0
# A server that starts as the lead answers nobody before the others have said who leads, but does not wait longer.
SILENT_SECONDS = 5.0
logger = logging.getLogger(__name__)


def serve(settings: Settings | None = None, *, replica: runtime.Replica | None = None) -> None:
    """Be this replica's parameter server until the stop notice comes; without settings, by those of its workers."""
    here = replica or runtime.current()
    servers = here.peers("ps")
    address = here.address or (servers[here.index] if here.index < len(servers) else "")
    if not address:
        raise SettingsError("no address to serve at: GANGLINE_ADDRESS is not set")
    runtime.stopping()  # installs the handler before the first request
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    credentials = Credentials.of(here)
    server = Server(
        address,
        servers=servers or (address,),
        settings=settings or Settings(from_workers=True),
        job=here.job_id,
        directory=snapshot_directory(here),
        credentials=credentials,
    )
    logger.info("parameter server %d of job %s at %s", here.index, here.job, server.address)
    dial = partial(RemoteLink, job=here.job_id, sender=server.address, credentials=credentials)
    if servers and servers != (server.address,):
        server.service.coordinator.keep_silent(time.monotonic() + SILENT_SECONDS)
        joining = partial(announce, server.address, servers, dial, stopping=runtime.stopping)
        threading.Thread(target=joining, name="announce", daemon=True).start()
    server.run(
        runtime.stopping,
        linger_seconds=min(LINGER_SECONDS, here.grace_seconds / 2),
        departure=Departure(server.address, dial, seconds=here.grace_seconds / 2),
    )


def snapshot_directory(replica: runtime.Replica) -> Path:
    """Where a server keeps its snapshots: a directory of its own below the job's checkpoints."""
    return replica.checkpoint_directory / f"ps-{replica.index}"
