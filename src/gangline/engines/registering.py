"""Registers what jobs leave as versions of models, for every engine."""

import asyncio
import logging
from typing import Protocol

from gangline.data.model_files import KeptModel
from gangline.errors import GanglineError, NotFoundError
from gangline.model import Backoff
from gangline.model.kinds.registered_model import ModelVersion

_BACKOFF = Backoff(first_seconds=0.2, longest_seconds=10.0)
_TRIES = 10

_log = logging.getLogger(__name__)


class Registry(Protocol):
    """Where versions are recorded."""

    async def register_output(self, job_id: str, output: int, name: str, kept: KeptModel, at: str = "") -> ModelVersion:
        """Register what a job left, with its files at an address; doing so again makes no second version."""
        ...


async def insist(registry: Registry, job_id: str, output: int, name: str, kept: KeptModel, *, at: str = "") -> None:
    """Register one output; a store that does not answer is asked again for about a minute."""
    for failures in range(1, _TRIES + 1):
        try:
            await registry.register_output(job_id, output, name, kept, at)
        except NotFoundError:
            raise
        except GanglineError as error:
            if failures == _TRIES:
                raise
            _log.warning("model %s of job %s is not registered yet: %s", name, job_id, error)
            await asyncio.sleep(_BACKOFF.pause(failures))
        else:
            return
