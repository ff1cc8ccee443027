"""Requests are joined while the model is busy, divided again, and never spoil each other."""

import asyncio
import threading
from collections.abc import Callable

import numpy as np
import pytest

from gangline.serve.batching import Batcher, BatchSettings
from gangline.serve.errors import BadRequestError, ModelFailedError, OverloadedError, TooLateError
from gangline.serve.handlers import Arrays, LoadedModel
from gangline.serve.tensors import Array


class Doubling:
    """Answers twice what it got, when it is let."""

    batched = True

    def __init__(self, predict: Callable[[Array], Array] = lambda x: 2 * x) -> None:
        self.go = threading.Event()
        self.go.set()
        self.seen: list[int] = []
        self._predict = predict

    def load(self, folder: object) -> None:
        pass

    def predict(self, inputs: Arrays) -> Array:
        assert self.go.wait(10)
        self.seen.append(len(inputs["x"]))
        return self._predict(inputs["x"])


def row(*values: float) -> dict[str, Array]:
    return {"x": np.array([values], np.float32)}


def batcher(handler: Doubling, **settings: float) -> Batcher:
    given = {"max_rows": 8, "latency_seconds": 1.0} | settings
    return Batcher(LoadedModel(handler, "test"), BatchSettings(**given))  # type: ignore[arg-type]


async def test_what_arrives_while_the_model_works_is_asked_at_once_and_divided_again() -> None:
    handler = Doubling()
    handler.go.clear()
    under_test = batcher(handler)
    asked = [asyncio.create_task(under_test.ask(row(index))) for index in range(6)]
    await asyncio.sleep(0)
    assert under_test.load == 6
    handler.go.set()
    answers = [(await one)["output"].tolist() for one in asked]
    assert answers == [[[2.0 * index]] for index in range(6)]
    assert handler.seen == [1, 5]


async def test_a_batch_has_no_more_rows_than_it_may() -> None:
    handler = Doubling()
    handler.go.clear()
    under_test = batcher(handler, max_rows=4)
    sizes = [1, 3, 2, 2, 1]
    asked = [asyncio.create_task(under_test.ask({"x": np.ones((size, 1), np.float32)})) for size in sizes]
    await asyncio.sleep(0)
    handler.go.set()
    assert [len((await one)["output"]) for one in asked] == sizes
    assert handler.seen == [1, 3, 4, 1]


async def test_a_slow_model_is_given_smaller_batches() -> None:
    handler = Doubling()
    under_test = batcher(handler, max_rows=64, latency_seconds=0.1)
    under_test._learn(1, 0.05)
    handler.go.clear()
    asked = [asyncio.create_task(under_test.ask(row(index))) for index in range(5)]
    await asyncio.sleep(0)
    handler.go.set()
    await asyncio.gather(*asked)
    assert max(handler.seen) <= 2 or handler.seen[1] == 2


async def test_requests_of_different_shapes_are_not_joined() -> None:
    handler = Doubling()
    handler.go.clear()
    under_test = batcher(handler)
    asked = [asyncio.create_task(under_test.ask(row(*[1.0] * width))) for width in (1, 2, 2, 3)]
    await asyncio.sleep(0)
    handler.go.set()
    await asyncio.gather(*asked)
    assert handler.seen == [1, 2, 1]


async def test_one_bad_request_does_not_spoil_the_others_of_its_batch() -> None:
    def predict(x: Array) -> Array:
        if (x < 0).any():
            raise ValueError("negative")
        return x

    handler = Doubling(predict)
    handler.go.clear()
    under_test = batcher(handler)
    asked = [asyncio.create_task(under_test.ask(row(value))) for value in (0, 1, -1, 2)]
    await asyncio.sleep(0)
    handler.go.set()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(answer).__name__ for answer in answers] == ["dict", "dict", "ModelFailedError", "dict"]
    assert str(answers[2]) == "ValueError: negative"


async def test_an_answer_that_cannot_be_divided_is_asked_for_one_by_one() -> None:
    handler = Doubling(lambda x: np.array([x.sum()]))
    handler.go.clear()
    under_test = batcher(handler)
    asked = [asyncio.create_task(under_test.ask(row(value))) for value in (1, 2, 3)]
    await asyncio.sleep(0)
    handler.go.set()
    assert [(await one)["output"].tolist() for one in asked] == [[1.0], [2.0], [3.0]]


async def test_a_call_that_does_not_come_back_is_given_up_and_told() -> None:
    handler = Doubling()
    handler.go.clear()
    under_test = batcher(handler, timeout_seconds=0.05)
    with pytest.raises(TooLateError, match=r"no answer within 0\.05 s"):
        await under_test.ask(row(1))
    assert under_test.stuck
    handler.go.set()


async def test_a_request_that_waits_behind_another_does_not_make_the_model_stuck() -> None:
    handler = Doubling()
    handler.go.clear()
    under_test = batcher(handler, max_rows=1, timeout_seconds=60)
    first = asyncio.create_task(under_test.ask(row(1)))
    await asyncio.sleep(0)
    second = asyncio.create_task(under_test.ask(row(2)))
    await asyncio.sleep(0)
    handler.go.set()
    await first
    await second
    assert not under_test.stuck


async def test_more_than_the_server_keeps_is_refused() -> None:
    handler = Doubling()
    handler.go.clear()
    under_test = batcher(handler, max_waiting=2)
    asked = [asyncio.create_task(under_test.ask(row(1))) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError, match="2 requests are waiting already"):
        await under_test.ask(row(1))
    handler.go.set()
    await asyncio.gather(*asked)


async def test_inputs_without_common_rows_are_refused() -> None:
    with pytest.raises(BadRequestError, match="same first dimension"):
        await batcher(Doubling()).ask({"x": np.ones((2, 1)), "y": np.ones((3, 1))})


async def test_what_a_model_raises_is_told() -> None:
    def predict(x: Array) -> Array:
        raise RuntimeError("no")

    with pytest.raises(ModelFailedError, match="RuntimeError: no"):
        await batcher(Doubling(predict)).ask(row(1))
