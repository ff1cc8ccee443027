"""Each optimizer against its formula."""

import numpy as np
import pytest

from gangline.ps.errors import SettingsError
from gangline.ps.optimizers import PIECE, State, find_optimizer

SIZE = PIECE + 7  # more than one piece


def halve(value: np.ndarray, gradient: np.ndarray, state: State, learning_rate: float) -> None:
    """A user's own rule."""
    value *= 0.5
    state["calls"] = state.get("calls", np.zeros(1)) + 1


def run(name: str, steps: int) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    random = np.random.default_rng(0)
    start = random.normal(size=SIZE)
    gradients = [random.normal(size=SIZE) for _ in range(steps)]
    value, state = start.copy(), {}
    optimizer = find_optimizer(name)
    for gradient in gradients:
        kept = gradient.copy()
        optimizer(value, gradient, state, 0.1)
        np.testing.assert_array_equal(gradient, kept)
    return start, gradients, value


def test_sgd_follows_its_formula() -> None:
    start, gradients, value = run("sgd", 3)

    np.testing.assert_allclose(value, start - 0.1 * sum(gradients))


def test_momentum_follows_its_formula() -> None:
    start, gradients, value = run("momentum", 3)

    velocity = np.zeros(SIZE)
    for gradient in gradients:
        velocity = 0.9 * velocity + gradient
        start = start - 0.1 * velocity
    np.testing.assert_allclose(value, start)


def test_adam_follows_its_formula() -> None:
    start, gradients, value = run("adam", 3)

    mean, square = np.zeros(SIZE), np.zeros(SIZE)
    for number, gradient in enumerate(gradients, 1):
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        start = start - 0.1 * (mean / (1 - 0.9**number)) / (np.sqrt(square / (1 - 0.999**number)) + 1e-8)
    np.testing.assert_allclose(value, start, rtol=1e-5)


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam"])
def test_the_type_of_the_parameters_is_kept(name: str) -> None:
    value, state = np.ones(4, np.float32), {}

    find_optimizer(name)(value, np.ones(4, np.float32), state, 0.1)

    assert value.dtype == np.float32
    assert all(array.dtype == np.float32 for key, array in state.items() if key != "count")


def test_a_users_own_function_is_found_and_called() -> None:
    start, _, value = run(f"{__name__}:halve", 2)

    np.testing.assert_allclose(value, start / 4)


@pytest.mark.parametrize("name", ["adagrad", "nowhere:rule", "math:nothing", "math:pi"])
def test_what_cannot_be_found_is_refused_by_name(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        find_optimizer(name)
