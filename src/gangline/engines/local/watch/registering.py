"""Between a gang that has stored its outputs and the news of it: the models among them are registered first."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from gangline.data.model_files import KeptModel
from gangline.engines.interface import EngineEvent
from gangline.engines.local.keeper.orders import REGISTRATIONS_FILE
from gangline.engines.local.layout import Layout
from gangline.engines.local.orders.data_moves import ModelRegistry
from gangline.engines.local.system_users import file_rights, open_file
from gangline.engines.local.wire import read_order
from gangline.engines.registering import insist
from gangline.errors import GanglineError
from gangline.lifecycle.events import GangFailed, OutputsStored
from gangline.model import GangId


class Registrar:
    """Passes news on. Whoever hears that outputs are stored finds the versions that they have become.

    Told twice, after a crash say, it registers once: the file that asks for it is renamed when it is done, and a
    version knows which output of which job it is.
    """

    def __init__(self, layout: Layout, models: ModelRegistry | None, publish: Callable[[EngineEvent], None]) -> None:
        self._layout = layout
        self._models = models
        self._publish = publish
        self.tasks: set[asyncio.Task[None]] = set()

    def publish(self, event: EngineEvent) -> None:
        """Pass an event on, now or when there is nothing left to register."""
        if isinstance(event, OutputsStored) and self._models is not None:
            gang_id = GangId(event.job_id, event.attempt)
            file = self._layout.moves(gang_id) / REGISTRATIONS_FILE
            order = read_order(self._layout.attempt(gang_id))
            user = order.user if order is not None else None
            if _exists(file, user):
                task = asyncio.create_task(self._register(event, file, user, self._models))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
                return
        self._publish(event)

    async def _register(self, event: OutputsStored, file: Path, user: int | None, models: ModelRegistry) -> None:
        try:
            # Two links may follow one attempt for a moment: what the other has renamed is registered.
            with suppress(FileNotFoundError):
                for output, (name, kept) in _read(file, user).items():
                    await insist(models, event.job_id, output, name, KeptModel(*kept))
                _conclude(file, user)
        except (GanglineError, msgspec.MsgspecError) as error:
            self._publish(
                GangFailed(
                    job_id=event.job_id, at=event.at, attempt=event.attempt, reason="OutputsFailed", message=str(error)
                )
            )
            return
        self._publish(event)


def _exists(file: Path, user: int | None) -> bool:
    with file_rights(user):
        return file.exists()


def _read(file: Path, user: int | None) -> dict[int, tuple[str, tuple[str, int, int, str, str]]]:
    """Read what the movers left; they are the tenant's, and may have been told to write anything."""
    with file_rights(user), open_file(file) as opened:
        text = opened.read()
    return msgspec.json.decode(text, type=dict[int, tuple[str, tuple[str, int, int, str, str]]])


def _conclude(file: Path, user: int | None) -> None:
    with file_rights(user):
        file.rename(file.with_suffix(".done"))
