"""Carries instructions out: one lane per job, so that the orders of one job keep their sequence and those of
different jobs do not wait for each other.

An order that fails is given again after a pause, until it succeeds or a newer one replaces it: orders are
idempotent, and the newest says all that should be.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gangline.lifecycle import Instruction
from gangline.model import Backoff, JobId

_log = logging.getLogger(__name__)
_BACKOFF = Backoff(first_seconds=0.2, longest_seconds=10.0)


class InstructionQueues:
    """Ordered, retried execution of instructions per job."""

    def __init__(self, carry_out: Callable[[Instruction], Awaitable[None]]) -> None:
        self._carry_out = carry_out
        self._wanted: dict[JobId, tuple[Instruction, ...]] = {}
        self._tasks: dict[JobId, asyncio.Task[None]] = {}

    def submit(self, job_id: JobId, instructions: tuple[Instruction, ...]) -> None:
        """Carry these out, in place of whatever of this job has not been begun."""
        if not instructions:
            return
        self._wanted[job_id] = instructions
        if job_id not in self._tasks:
            self._tasks[job_id] = asyncio.create_task(self._drive(job_id), name=f"lane {job_id}")

    async def drain(self) -> None:
        """Wait until every lane is empty."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values())

    async def close(self) -> None:
        """Abandon what is under way; it is given again after the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _drive(self, job_id: JobId) -> None:
        failures = 0
        try:
            while job_id in self._wanted:
                instructions = self._wanted.pop(job_id)
                try:
                    for instruction in instructions:
                        await self._carry_out(instruction)
                    failures = 0
                except Exception:  # noqa: BLE001  # the top of a loop that logs and carries on
                    failures += 1
                    pause = _BACKOFF.pause(failures)
                    _log.exception("job %s: an order failed; again in %.1f s", job_id, pause)
                    await asyncio.sleep(pause)
                    self._wanted.setdefault(job_id, instructions)
        finally:
            del self._tasks[job_id]
