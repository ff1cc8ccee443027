"""What a worker does for a server that is away: apply its own gradients to its own copy of the blocks.

The optimizer is the server's, with state that begins when the outage does: a stand-in until the true values are back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gangline.ps.optimizers import State, find_optimizer
from gangline.ps.protocol.shared_image import SharedImage
from gangline.ps.settings import Training
from gangline.ps.worker.peer import Peer
from gangline.ps.worker.push_log import LoggedPush


class LocalUpdate:
    """Stands in for absent servers."""

    def __init__(self, training: Training, image: SharedImage) -> None:
        self._optimizer = find_optimizer(training.optimizer)
        self._learning_rate = training.learning_rate
        self._image = image
        self._states: dict[int, State] = {}

    def apply(self, absent: Sequence[Peer], push: LoggedPush) -> None:
        """Train the blocks of absent servers; forget the state of those that are back."""
        numbers = {number for peer in absent for number in peer.numbers}
        self._states = {number: state for number, state in self._states.items() if number in numbers}
        for peer in absent:
            for number, block in zip(peer.numbers, peer.blocks, strict=True):
                value = np.frombuffer(self._image.values, block.dtype, block.stop - block.start, block.offset)
                gradient = push.gradients[block.tensor][block.start : block.stop]
                state = self._states.setdefault(number, {})
                self._optimizer(value, gradient, state, self._learning_rate * push.scale)
