"""How a gradient changes a block of parameters, on the server. The store calls it; nothing here knows the network.

Each optimizer works in place and in pieces that fit the processor's cache: a large block is read from memory once,
not once per operation. Users bring their own function of the same form, as `module:function`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import numpy as np

from gangline.ps.blocks import Array
from gangline.ps.errors import SettingsError

PIECE = 1 << 15
MOMENTUM = 0.9
ADAM_MEAN, ADAM_SQUARE, ADAM_EPSILON = 0.9, 0.999, 1e-8

State = dict[str, Array]
# Called with value, gradient, state and learning rate: changes `value` and `state` in place and only reads `gradient`.
# The arrays are flat and of one type.
Optimizer = Callable[[Array, Array, State, float], None]


def gradient_descent(value: Array, gradient: Array, state: State, learning_rate: float) -> None:
    """value -= rate * gradient."""
    rate = value.dtype.type(learning_rate)
    for piece in _pieces(value.size):
        value[piece] -= gradient[piece] * rate


def momentum(value: Array, gradient: Array, state: State, learning_rate: float) -> None:
    """velocity = factor * velocity + gradient; value -= rate * velocity."""
    velocity = _array(state, "velocity", value)
    rate, factor = value.dtype.type(learning_rate), value.dtype.type(MOMENTUM)
    for piece in _pieces(value.size):
        part = velocity[piece]
        part *= factor
        part += gradient[piece]
        value[piece] -= part * rate


def adam(value: Array, gradient: Array, state: State, learning_rate: float) -> None:
    """Kingma and Ba's rule with bias correction."""
    mean, square = _array(state, "mean", value), _array(state, "square", value)
    count = state.setdefault("count", np.zeros(1))
    count += 1
    number = float(count[0])
    root = (1 - ADAM_SQUARE**number) ** 0.5
    kind = value.dtype.type
    rate, epsilon = kind(learning_rate * root / (1 - ADAM_MEAN**number)), kind(ADAM_EPSILON * root)
    for piece in _pieces(value.size):
        slope, m, v = gradient[piece], mean[piece], square[piece]
        m += (slope - m) * kind(1 - ADAM_MEAN)
        v += (slope * slope - v) * kind(1 - ADAM_SQUARE)
        value[piece] -= rate * m / (np.sqrt(v) + epsilon)


BUILT_IN: Mapping[str, Optimizer] = {"sgd": gradient_descent, "momentum": momentum, "adam": adam}


def find_optimizer(name: str) -> Optimizer:
    """The optimizer called `name`, or the user's `module:function`."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    module, _, function = name.partition(":")
    if not function:
        raise SettingsError(f"optimizer {name!r}: expected one of {sorted(BUILT_IN)} or module:function")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"optimizer {name!r} cannot be imported: {error}") from error
    if not callable(found):
        raise SettingsError(f"optimizer {name!r} is not a function")
    return cast(Optimizer, found)


def state_arrays(state: Mapping[Any, object]) -> State:
    """What a user's optimizer keeps, as arrays for snapshots and other servers; TypeError for what they cannot hold."""
    kept: State = {}
    for name, value in state.items():
        array = np.asarray(value)
        if not isinstance(name, str) or name == "value":
            raise TypeError(f"state {name!r}: names are strings, and 'value' is taken")
        if array.ndim > 1 or array.dtype.kind not in "biuf":
            raise TypeError(
                f"state {name!r} is {array.dtype} {array.shape}; kept are numbers and flat arrays of numbers"
            )
        kept[name] = array
    return kept


def _pieces(size: int) -> Iterator[slice]:
    for start in range(0, size, PIECE):
        yield slice(start, start + PIECE)


def _array(state: State, name: str, like: Array) -> Array:
    if name not in state:
        state[name] = np.zeros_like(like)
    return state[name]
