"""A process that hosts the engine and can be killed: runs a number of one-replica gangs to their end, then exits.

Run as ``python -m tests.engines.local.host ROOT GANGS``. A next life repeats every order, as a controller does.
"""

import asyncio
import sys
from pathlib import Path

from gangline.engines.interface import Engine
from gangline.engines.local.engine import LocalEngine
from gangline.lifecycle.events import GangStopped, ReplicaExited, ReplicaLost
from gangline.model import Gang, NodeName, Resources
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import place
from tests.engines.local.machinery import WallClock


async def main(root: Path, count: int) -> None:
    engine = LocalEngine(root, clock=WallClock())
    node = (await engine.nodes())[0].name
    gangs = {f"job-{number}": short_gang(f"job-{number}", node) for number in range(count)}
    for gang in gangs.values():
        await engine.run(gang)
    await settle(engine, gangs)
    await engine.close()


async def settle(engine: Engine, gangs: dict[str, Gang]) -> None:
    """Stop every gang whose replica has ended; return when all are stopped."""
    async for event in engine.events():
        # News may be repeated, also of a gang that is stopped already.
        if isinstance(event, ReplicaExited | ReplicaLost) and event.job_id in gangs:
            await engine.stop(gangs[event.job_id].id, 5.0)
        if isinstance(event, GangStopped):
            gangs.pop(event.job_id, None)
            if not gangs:
                return


def short_gang(job_id: str, node: NodeName) -> Gang:
    """A gang whose replica leaves one line each time it is run."""
    command = ("sh", "-c", 'echo ran >> "$RESULT_DIR/runs"; sleep 0.05')
    role = make_role(command=command, resources=Resources(cpu_millis=10))
    return place(make_spec(roles=(role,)), node, job_id=job_id)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
