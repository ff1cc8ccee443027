"""How a gradient changes a block of parameters, on the server. The store calls `apply`; nothing here knows the network.

Each optimizer works in place and in pieces that fit the processor's cache: a large block is read from memory once,
not once per operation. Users bring their own as `module:function`, called as
`function(value, gradient, state, learning_rate)`; it changes `value` in place and may keep arrays in `state`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from gangline.ps.blocks import Array
from gangline.ps.errors import SettingsError

PIECE = 1 << 15

State = dict[str, Array]
UserFunction = Callable[[Array, Array, State, float], None]


class Optimizer(Protocol):
    """What the store calls."""

    def apply(self, value: Array, gradient: Array, state: State, learning_rate: float) -> None:
        """Change `value` and `state` in place. The arrays are flat and of one type; `gradient` is only read."""


@dataclass(frozen=True, slots=True)
class GradientDescent:
    """value -= rate * gradient."""

    def apply(self, value: Array, gradient: Array, state: State, learning_rate: float) -> None:
        """See Optimizer."""
        rate = value.dtype.type(learning_rate)
        for piece in _pieces(value.size):
            value[piece] -= gradient[piece] * rate


@dataclass(frozen=True, slots=True)
class Momentum:
    """velocity = factor * velocity + gradient; value -= rate * velocity."""

    factor: float = 0.9

    def apply(self, value: Array, gradient: Array, state: State, learning_rate: float) -> None:
        """See Optimizer."""
        velocity = _array(state, "velocity", value)
        rate, factor = value.dtype.type(learning_rate), value.dtype.type(self.factor)
        for piece in _pieces(value.size):
            part = velocity[piece]
            part *= factor
            part += gradient[piece]
            value[piece] -= part * rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam:
    """Kingma and Ba's rule with bias correction."""

    first: float = 0.9
    second: float = 0.999
    epsilon: float = 1e-8

    def apply(self, value: Array, gradient: Array, state: State, learning_rate: float) -> None:
        """See Optimizer."""
        mean, square = _array(state, "mean", value), _array(state, "square", value)
        count = state.setdefault("count", np.zeros(1))
        count += 1
        number = float(count[0])
        root = (1 - self.second**number) ** 0.5
        kind = value.dtype.type
        rate, epsilon = kind(learning_rate * root / (1 - self.first**number)), kind(self.epsilon * root)
        for piece in _pieces(value.size):
            slope, m, v = gradient[piece], mean[piece], square[piece]
            m += (slope - m) * kind(1 - self.first)
            v += (slope * slope - v) * kind(1 - self.second)
            value[piece] -= rate * m / (np.sqrt(v) + epsilon)


@dataclass(frozen=True, slots=True)
class UserOptimizer:
    """A function of the user's own."""

    function: UserFunction

    def apply(self, value: Array, gradient: Array, state: State, learning_rate: float) -> None:
        """See Optimizer."""
        self.function(value, gradient, state, learning_rate)


BUILT_IN: Mapping[str, Callable[[], Optimizer]] = {"sgd": GradientDescent, "momentum": Momentum, "adam": Adam}


def find_optimizer(name: str) -> Optimizer:
    """The optimizer called `name`, or the user's `module:function`."""
    if name in BUILT_IN:
        return BUILT_IN[name]()
    module, _, function = name.partition(":")
    if not function:
        raise SettingsError(f"optimizer {name!r}: expected one of {sorted(BUILT_IN)} or module:function")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"optimizer {name!r} cannot be imported: {error}") from error
    if not callable(found):
        raise SettingsError(f"optimizer {name!r} is not a function")
    return UserOptimizer(cast(UserFunction, found))


def _pieces(size: int) -> Iterator[slice]:
    for start in range(0, size, PIECE):
        yield slice(start, start + PIECE)


def _array(state: State, name: str, like: Array) -> Array:
    if name not in state:
        state[name] = np.zeros_like(like)
    return state[name]
