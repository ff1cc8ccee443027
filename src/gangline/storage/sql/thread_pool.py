"""A pool of threads that works to the very end of a program, for the store and for the service around it.

Python's own pool takes no more work once the main thread has ended, and since 3.12 no thread can be started then. A
service inside somebody's program has to stop its jobs at just that time.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class ThreadPool(ThreadPoolExecutor):
    """All threads are there from the start. asyncio accepts no other base class; nothing of it is used."""

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads)
        self._tasks: SimpleQueue[tuple[Future[object], Callable[[], object]] | None] = SimpleQueue()
        self._workers = [Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(threads)]
        for worker in self._workers:
            worker.start()

    def submit(
        self, function: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """Have a thread call the function."""
        if not self._workers:
            raise RuntimeError("the threads have been told to end")
        future: Future[Result] = Future()
        self._tasks.put((future, partial(function, *args, **kwargs)))  # type: ignore[arg-type]  # a result is an object
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001  # theirs
        """End the threads when they have done what was asked for; ``cancel_futures`` is not needed here."""
        workers, self._workers = self._workers, []
        for _ in workers:
            self._tasks.put(None)
        for worker in workers if wait else ():
            worker.join()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, call = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001  # the caller's to answer
                future.set_exception(error)
            del task, future, call  # or an idle thread would hold what it worked on
