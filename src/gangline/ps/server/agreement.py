"""How one server trains: by its own settings or, when it was given none, by those of the first worker that joins.

The store applies pushes by it and the coordinator gates by it; both look at one object, so that they cannot differ. A
worker that brings other settings than those in force is refused: its user would be training something else than they
think.
"""

from __future__ import annotations

import msgspec

from gangline.ps.consistency import parse_consistency
from gangline.ps.errors import SettingsError
from gangline.ps.optimizers import BUILT_IN, find_optimizer
from gangline.ps.settings import NonFinitePolicy, Settings, Training


class Agreement:
    """The training in force; until it is settled, the defaults."""

    def __init__(self, settings: Settings) -> None:
        self.settled = not settings.from_workers
        self._adopt(settings.training)

    def settle(self, brought: Training) -> None:
        """Take what a worker brings, or check it against what is in force."""
        if self.settled:
            self._compare(brought)
            return
        if brought.optimizer not in BUILT_IN:
            # What a server imports is for whoever starts it to say, not for whoever can reach its port.
            raise SettingsError(
                f"optimizer {brought.optimizer!r} is a function of your own: name it in the settings of the servers too"
            )
        self._adopt(brought)
        self.settled = True

    def _compare(self, brought: Training) -> None:
        for name in msgspec.structs.asdict(brought):
            here, there = getattr(self.training, name), getattr(brought, name)
            if here != there:
                raise SettingsError(f"{name} is {there!r} in this worker's settings and {here!r} on the servers")

    def _adopt(self, training: Training) -> None:
        self.training = training
        self.rule = parse_consistency(training.consistency)
        self.optimizer = find_optimizer(training.optimizer)
        self.policy = NonFinitePolicy(training.non_finite)
