"""Asks a model for one or several requests at once, never longer than the batch is expected to be worth.

A request that finds the model idle is run at once. Those that arrive while it works become the next batch, so batches
grow by themselves with the load. Their size is bounded by the settings and by what was measured: a batch is not made
larger than the model is expected to answer within the latency bound.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from gangline.serve.errors import BadRequestError, ModelFailedError, OverloadedError, ServeError, TooLateError
from gangline.serve.handlers import Arrays, LoadedModel
from gangline.serve.tensors import Array

Ran = Callable[[int, float], None]
"""Told the rows and seconds of every call of the model."""
_RECENT = 0.2
"""Weight of the newest measurement of a model's speed."""
_INLINE_SECONDS = 0.001
"""A model of a library that answers faster is asked on the spot: handing it to a thread would take as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """How a model is asked."""

    max_rows: int = 1
    """Largest batch; 1 asks for each request by itself."""
    latency_seconds: float = 0.05
    """A batch is not made larger than the model is expected to answer within this."""
    timeout_seconds: float = 60.0
    """When a request is given up."""
    max_waiting: int = 1000
    """More waiting requests are refused."""


@dataclass(slots=True, eq=False)
class _Waiting:
    inputs: Arrays
    rows: int
    shape: tuple[object, ...]
    answer: "asyncio.Future[dict[str, Array]]" = field(repr=False)


class Batcher:
    """Runs one model in its own threads. To be used from one event loop."""

    def __init__(self, model: LoadedModel, settings: BatchSettings, ran: Ran = lambda _rows, _seconds: None) -> None:
        self._model = model
        self._settings = settings
        self._ran = ran
        self._batched = model.batched and settings.max_rows > 1
        self._waiting: deque[_Waiting] = deque()
        self._threads = ThreadPoolExecutor(model.threads, thread_name_prefix="model")
        self._running = 0
        self._row_seconds = 0.0
        self._call_seconds = 0.0
        self.stuck = False
        """Whether a call has not come back in time: the process should be replaced."""

    @property
    def load(self) -> int:
        """How many requests wait or are answered."""
        return len(self._waiting) + self._running

    async def ask(self, inputs: Arrays) -> dict[str, Array]:
        """Answer one request."""
        if not self._waiting and self._is_quick and self._running < self._model.threads:
            return self._run_inline(inputs)
        if len(self._waiting) >= self._settings.max_waiting:
            raise OverloadedError(f"{len(self._waiting)} requests are waiting already")
        loop = asyncio.get_running_loop()
        waiting = _Waiting(inputs, *_shape_of(inputs, batched=self._batched), loop.create_future())
        self._waiting.append(waiting)
        self._start()
        try:
            async with asyncio.timeout(self._settings.timeout_seconds):
                return await waiting.answer
        except TimeoutError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            else:
                self.stuck = True
            raise TooLateError(f"no answer within {self._settings.timeout_seconds:g} s") from None

    @property
    def _is_quick(self) -> bool:
        return self._model.quick and 0 < self._call_seconds < _INLINE_SECONDS

    def _run_inline(self, inputs: Arrays) -> dict[str, Array]:
        began = time.perf_counter()
        answer = _checked(self._model, inputs)
        self._learn(1, time.perf_counter() - began)
        if isinstance(answer, ServeError):
            raise answer
        return answer

    def _start(self) -> None:
        while self._waiting and self._running < self._model.threads:
            batch = self._next_batch()
            self._running += 1
            if self._is_quick:
                self._finish(batch, _run(self._model, batch))
                continue
            task = asyncio.get_running_loop().run_in_executor(self._threads, _run, self._model, batch)
            task.add_done_callback(lambda done, batch=batch: self._done(batch, done.result()))  # type: ignore[misc]

    def _next_batch(self) -> Sequence[_Waiting]:
        batch = [self._waiting.popleft()]
        if not self._batched:
            return batch
        rows, limit = batch[0].rows, self._rows_in_time()
        while self._waiting and self._waiting[0].shape == batch[0].shape and rows + self._waiting[0].rows <= limit:
            batch.append(self._waiting.popleft())
            rows += batch[-1].rows
        return batch

    def _rows_in_time(self) -> int:
        if not self._row_seconds:
            return self._settings.max_rows
        return max(1, min(self._settings.max_rows, int(self._settings.latency_seconds / self._row_seconds)))

    def _done(self, batch: Sequence[_Waiting], result: "tuple[Sequence[dict[str, Array] | ServeError], float]") -> None:
        self._finish(batch, result)
        self._start()

    def _finish(
        self, batch: Sequence[_Waiting], result: "tuple[Sequence[dict[str, Array] | ServeError], float]"
    ) -> None:
        self._running -= 1
        answers, seconds = result
        self._learn(sum(waiting.rows for waiting in batch), seconds)
        for waiting, answer in zip(batch, answers, strict=True):
            if waiting.answer.done():
                continue  # its sender has given up
            if isinstance(answer, ServeError):
                waiting.answer.set_exception(answer)
            else:
                waiting.answer.set_result(answer)

    def _learn(self, rows: int, seconds: float) -> None:
        self._ran(rows, seconds)
        recent = _RECENT if self._call_seconds else 1.0
        self._call_seconds += recent * (seconds - self._call_seconds)
        self._row_seconds += recent * (seconds / max(1, rows) - self._row_seconds)

    def close(self) -> None:
        """Take no more; what runs is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _shape_of(inputs: Arrays, *, batched: bool) -> tuple[int, tuple[object, ...]]:
    """Rows of a request, and what must be equal for two requests to be joined."""
    if not batched:
        return 1, ()
    rows = {array.shape[0] if array.ndim else -1 for array in inputs.values()}
    if len(rows) != 1 or rows <= {-1, 0}:
        raise BadRequestError("inputs must have the same first dimension, of 1 or more")
    return rows.pop(), tuple((name, array.dtype.str, array.shape[1:]) for name, array in sorted(inputs.items()))


def _run(model: LoadedModel, batch: Sequence[_Waiting]) -> tuple[Sequence[dict[str, Array] | ServeError], float]:
    began = time.perf_counter()
    answers = _answers(model, batch)
    return answers, time.perf_counter() - began


def _answers(model: LoadedModel, batch: Sequence[_Waiting]) -> Sequence[dict[str, Array] | ServeError]:
    if len(batch) == 1:
        return [_checked(model, batch[0].inputs)]
    names = batch[0].inputs
    together = _checked(model, {name: np.concatenate([one.inputs[name] for one in batch]) for name in names})
    rows = sum(one.rows for one in batch)
    if isinstance(together, ServeError) or any(array.shape[:1] != (rows,) for array in together.values()):
        # One bad request must not spoil the others; a model whose answer cannot be divided is asked one by one.
        return [_checked(model, one.inputs) for one in batch]
    ends = np.cumsum([one.rows for one in batch])
    return [
        {name: array[end - one.rows : end] for name, array in together.items()}
        for one, end in zip(batch, ends, strict=True)
    ]


def _checked(model: LoadedModel, inputs: Arrays) -> dict[str, Array] | ServeError:
    process = os.getpid()
    try:
        return model.answer(inputs)
    except ServeError as error:
        return error
    except BaseException as error:  # noqa: BLE001  # whatever the model's own code raises; sys.exit ends no server
        return ModelFailedError(f"{type(error).__name__}: {error}")
    finally:
        if os.getpid() != process:
            os._exit(0)  # the model forked: the copy of this server must not answer a second time
