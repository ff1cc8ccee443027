"""A session as training code uses it, against servers in threads of this process."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gangline import ps
from gangline.ps.worker.session import Session
from tests.ps.gang import (
    JOB,
    dial,
    flaky_session,
    free_address,
    make_replica,
    running_server_threads,
    running_servers,
    wait_until,
)


def make_model(value: float = 0.0) -> dict[str, np.ndarray]:
    return {"w": np.full((3, 4), value, np.float32), "b": np.full(5, value, np.float64)}


def make_gradients(value: float = 1.0) -> dict[str, np.ndarray]:
    return make_model(value)


def together(*actions: Callable[[], object]) -> None:
    """Run actions at the same time; an error in one is an error of the test."""
    errors: list[BaseException] = []

    def guarded(action: Callable[[], object]) -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001  # raised again below
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("shared_memory", [True, False], ids=["shared memory", "tcp"])
@pytest.mark.parametrize("servers", [1, 3])
def test_a_push_changes_what_a_pull_brings(servers: int, shared_memory: bool) -> None:
    with (
        running_servers(servers, learning_rate=0.5) as addresses,
        ps.connect(make_model(2.0), replica=make_replica(addresses), shared_memory=shared_memory) as session,
    ):
        session.push_pull(make_gradients(1.0), scale=0.5)

        np.testing.assert_array_equal(session.parameters["w"], np.full((3, 4), 1.75))
        np.testing.assert_array_equal(session.parameters["b"], np.full(5, 1.75))


@pytest.mark.parametrize("shared_memory", [True, False], ids=["shared memory", "tcp"])
def test_a_model_of_many_blocks_comes_through(shared_memory: bool) -> None:
    random = np.random.default_rng(0)
    model = {"large": random.normal(size=3_000_000).astype(np.float32), "small": np.zeros(3, np.float32)}
    gradients = {name: random.normal(size=value.shape).astype(np.float32) for name, value in model.items()}
    with (
        running_servers(2, learning_rate=1.0) as addresses,
        ps.connect(model, replica=make_replica(addresses), shared_memory=shared_memory) as session,
    ):
        session.push_pull(gradients)

        for name, value in model.items():
            np.testing.assert_array_equal(session.parameters[name], value - gradients[name])


def test_the_first_workers_values_are_everybodys() -> None:
    with (
        running_servers() as addresses,
        ps.connect(make_model(1.0), replica=make_replica(addresses)),
        ps.connect(make_model(2.0), replica=make_replica(addresses, 1)) as second,
    ):
        np.testing.assert_array_equal(second.parameters["w"], np.full((3, 4), 1.0))


def test_without_servers_a_session_runs_alone() -> None:
    settings = ps.Settings(optimizer="sgd", learning_rate=1.0)
    with ps.connect(make_model(), settings=settings) as session:
        seen = []
        for shard in session.shards(examples=10, size=4, epochs=2):
            for batch in shard.batches(3):
                seen += list(batch)
                session.push_pull(make_gradients())

        assert sorted(seen) == sorted([*range(10)] * 2)
        assert session.progress().finished
        assert session.parameters["w"][0, 0] == -session.step


class ForeignArray:
    """An array of another framework: all that is known of it is DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_arrays_of_other_frameworks_are_taken_through_dlpack() -> None:
    model = {name: ForeignArray(value) for name, value in make_model(2.0).items()}
    with ps.connect(model, settings=ps.Settings(learning_rate=1.0)) as session:
        session.push_pull({name: ForeignArray(value) for name, value in make_gradients(0.5).items()})

        np.testing.assert_array_equal(session.parameters["b"], np.full(5, 1.5))


class UnseenArray:
    """What NumPy has no word for, such as bfloat16."""

    def __dlpack__(self, **options: object) -> object:
        raise BufferError("Unsupported dtype")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_an_array_that_numpy_cannot_see_is_refused_by_name() -> None:
    with pytest.raises(ps.ShapeMismatchError, match=r"'w' \(UnseenArray\).*Unsupported dtype"):
        ps.connect({"b": np.zeros(3), "w": UnseenArray()})


def bsp_run(addresses: tuple[str, ...], steps: int) -> bytes:
    """Two workers under bsp; the final values to the bit."""
    sessions = [ps.connect(make_model(), replica=make_replica(addresses, index)) for index in range(2)]

    def work(index: int) -> None:
        random = np.random.default_rng(index)
        for _ in range(steps):
            gradients = {name: random.normal(size=v.shape).astype(v.dtype) for name, v in make_model().items()}
            sessions[index].push_pull(gradients)

    together(partial(work, 0), partial(work, 1))
    values = sessions[0].parameters["w"].tobytes() + sessions[0].parameters["b"].tobytes()
    for session in sessions:
        session.abandon()
    return values


def test_repeats_after_cut_lines_apply_every_push_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangline.ps.worker.server_group.RETRY_SECONDS", 0.0)
    steps, workers = 100, 3
    with running_servers(learning_rate=1.0) as (address,), ExitStack() as open_sessions:
        sessions = [flaky_session(make_model(), address, index=index, chance=0.1) for index in range(workers)]
        for session in sessions:
            open_sessions.callback(session.abandon)

        def work(session: Session) -> None:
            for _ in range(steps):
                session.push_pull(make_gradients(1.0))
            session._servers.wait_for_servers()

        together(*(partial(work, session) for session in sessions))

        assert all(session._servers.outages > 5 for session in sessions), "the lines were hardly ever cut"
        with ps.connect(make_model(), replica=make_replica([address], 9)) as fresh:
            np.testing.assert_array_equal(fresh.parameters["w"], np.full((3, 4), -float(steps * workers)))
            np.testing.assert_array_equal(fresh.parameters["b"], np.full(5, -float(steps * workers)))


def test_bsp_gives_the_same_bits_every_time() -> None:
    results = []
    for _ in range(2):
        with running_servers(consistency="bsp", learning_rate=0.1) as addresses:
            results.append(bsp_run(addresses, steps=20))

    assert results[0] == results[1]


def test_ssp_does_not_wait_for_a_worker_that_died() -> None:
    with running_servers(consistency="ssp:1", lease_seconds=30.0) as addresses:
        alive = ps.connect(make_model(), replica=make_replica(addresses, 0))
        dead = ps.connect(make_model(), replica=make_replica(addresses, 1))
        dead.push_pull(make_gradients())
        dead.abandon()

        for _ in range(5):
            alive.push_pull(make_gradients())

        assert alive.step == 5
        alive.close()


def test_ssp_holds_a_fast_worker_until_the_slow_one_moves() -> None:
    with running_servers(consistency="ssp:0") as addresses:
        fast = ps.connect(make_model(), replica=make_replica(addresses, 0))
        slow = ps.connect(make_model(), replica=make_replica(addresses, 1))
        passed = threading.Event()

        def run_ahead() -> None:
            fast.push_pull(make_gradients())
            passed.set()

        thread = threading.Thread(target=run_ahead)
        thread.start()
        wait_until(lambda: fast._servers.peers[0].confirmed == 1, "the fast worker pushed")
        assert not passed.is_set()
        slow.push_pull(make_gradients())
        thread.join(10)

        assert passed.is_set()
        fast.close()
        slow.close()


@pytest.mark.parametrize("consistency", ["bsp", "ssp:1"])
def test_workers_that_wait_for_one_another_share_shards_that_do_not_come_out_even(consistency: str) -> None:
    with running_servers(consistency=consistency, learning_rate=1.0) as addresses:
        sessions = [ps.connect({"w": np.zeros(3)}, replica=make_replica(addresses, index)) for index in range(2)]

        def work(session: Session) -> None:
            with session:
                for shard in session.shards(examples=30, size=10, epochs=1):
                    for _ in shard.batches(2):
                        session.push_pull({"w": np.ones(3)})

        together(*(partial(work, session) for session in sessions))
        assert sum(session.statistics.steps for session in sessions) == 15


def test_shards_of_a_worker_that_died_go_to_another() -> None:
    plan = {"examples": 40, "size": 10, "epochs": 1}
    with running_servers() as addresses:
        dead = ps.connect(make_model(), replica=make_replica(addresses, 0))
        next(dead.shards(**plan))
        dead.abandon()
        seen: list[int] = []
        with ps.connect(make_model(), replica=make_replica(addresses, 1)) as alive:
            for shard in alive.shards(**plan):
                seen += list(shard.indices)

        assert sorted(seen) == list(range(40))


def test_the_stop_notice_ends_the_batches_and_returns_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = {"examples": 10, "size": 10, "epochs": 1}
    stop = {"now": False}
    monkeypatch.setattr("gangline.runtime.stopping", lambda: stop["now"])
    seen: list[int] = []
    with running_servers() as addresses:
        with ps.connect(make_model(), replica=make_replica(addresses, 0)) as leaving:
            for shard in leaving.shards(**plan):
                for batch in shard.batches(4):
                    seen += list(batch)
                    leaving.push_pull(make_gradients())
                    stop["now"] = True
        assert len(seen) == 4
        stop["now"] = False
        with ps.connect(make_model(), replica=make_replica(addresses, 1)) as staying:
            for shard in staying.shards(**plan):
                seen += list(shard.indices)

    assert sorted(seen) == list(range(10))


def test_a_second_process_of_the_same_name_replaces_the_first() -> None:
    with running_servers(lease_seconds=0.3) as addresses:
        old = ps.connect(make_model(), replica=make_replica(addresses))
        with ps.connect(make_model(), replica=make_replica(addresses)) as new:
            new.push_pull(make_gradients())

            with pytest.raises(ps.ReplacedError):
                old.push_pull(make_gradients())
        old.abandon()


BAD_GRADIENTS = {
    "unknown name": ({"w": np.zeros((3, 4), np.float32), "x": np.zeros(1)}, ps.UnknownNameError, "'x'"),
    "missing name": ({"w": np.zeros((3, 4), np.float32)}, ps.ShapeMismatchError, "'b'"),
    "other shape": (make_model() | {"b": np.zeros(6)}, ps.ShapeMismatchError, r"\(6,\)"),
    "other type": (make_model() | {"b": np.zeros(5, np.float32)}, ps.ShapeMismatchError, "float32"),
    "NaN": (make_model() | {"b": np.full(5, np.nan)}, ps.NonFiniteGradientError, "step 1"),
}


@pytest.mark.parametrize("case", BAD_GRADIENTS)
def test_bad_gradients_are_refused_and_training_goes_on(case: str) -> None:
    gradients, want_error, want_words = BAD_GRADIENTS[case]
    with (
        running_servers(learning_rate=1.0) as addresses,
        ps.connect(make_model(), replica=make_replica(addresses)) as session,
    ):
        with pytest.raises(want_error, match=want_words):
            session.push_pull(gradients)
        session.push_pull(make_gradients())

        np.testing.assert_array_equal(session.parameters["w"], np.full((3, 4), -1.0))


def test_under_skip_a_nan_costs_one_step_and_nothing_else() -> None:
    with (
        running_servers(non_finite="skip", learning_rate=1.0) as addresses,
        ps.connect(make_model(), replica=make_replica(addresses)) as session,
    ):
        session.push_pull(make_model() | {"b": np.full(5, np.nan)})
        session.push_pull(make_gradients())

        assert session.statistics.dropped_pushes == 1
        assert session.parameters["w"][0, 0] == -1


def test_under_stop_a_nan_stops_every_worker() -> None:
    with running_servers(non_finite="stop") as addresses:
        sessions = [ps.connect(make_model(), replica=make_replica(addresses, index)) for index in range(2)]
        with pytest.raises(ps.NonFiniteGradientError):
            sessions[0].push_pull(make_model() | {"b": np.full(5, np.nan)})

        with pytest.raises(ps.NonFiniteGradientError, match="training stopped"):
            sessions[1].push_pull(make_gradients())
        for session in sessions:
            session.abandon()


def test_a_worker_with_another_model_is_refused() -> None:
    with (
        running_servers() as addresses,
        ps.connect(make_model(), replica=make_replica(addresses)),
        pytest.raises(ps.ShapeMismatchError, match="'w'"),
    ):
        ps.connect({"w": np.zeros(7), "b": np.zeros(5)}, replica=make_replica(addresses, 1))


def test_a_worker_of_another_job_is_refused() -> None:
    with running_servers() as (address,), pytest.raises(ps.ParameterServerError, match="work for job 'other'") as error:
        dial(address, job="other")

    assert JOB not in str(error.value)


def test_no_server_at_all_is_an_error_in_time() -> None:
    with pytest.raises(ps.ServerLostError, match="no parameter server at"):
        ps.connect(make_model(), replica=make_replica([free_address()]), limits=ps.Limits(server_timeout=0.1))


@pytest.mark.parametrize("consistency", ["async", "bsp"])
def test_servers_come_and_go_while_training(consistency: str, tmp_path: Path) -> None:
    lead, second, third = (free_address() for _ in range(3))
    settings = ps.Settings(learning_rate=1.0, optimizer="sgd", consistency=consistency)
    model = {f"t{number}": np.zeros(1000, np.float32) for number in range(9)}
    gradients = {name: np.ones_like(value) for name, value in model.items()}
    with (
        running_server_threads([lead], (lead,), settings),
        running_server_threads([second, third], (lead,), settings),
        ps.connect(model, replica=make_replica([lead])) as session,
    ):
        steps = 0
        for servers in ([lead], [lead, second], [lead, second, third], [lead, third], [lead]):
            if len(servers) > 1 or steps:
                ps.resize(servers, job=JOB)
            for _ in range(3):
                session.push_pull(gradients)
                steps += 1
            assert {peer.address for peer in session._servers.peers} == set(servers)
            for value in session.parameters.values():
                np.testing.assert_array_equal(value, np.full(1000, -float(steps), np.float32))


@pytest.mark.parametrize(
    ("retained_bytes", "disk"),
    [pytest.param(0, True, id="nothing is to be kept"), pytest.param(1, False, id="the disk takes no snapshot")],
)
def test_a_worker_that_cannot_keep_its_pushes_goes_on_and_counts_them(
    tmp_path: Path, retained_bytes: int, disk: bool
) -> None:
    if not disk:
        (tmp_path / "snapshots").write_text("a file where a directory should be")
    address = free_address()
    settings = ps.Settings(learning_rate=1.0, snapshot_seconds=0.05)
    limits = ps.Limits(retained_bytes=retained_bytes)
    with (
        running_server_threads([address], (address,), settings, tmp_path / "snapshots"),
        ps.connect({"w": np.zeros(4)}, replica=make_replica([address]), limits=limits) as session,
    ):
        for _ in range(10):
            session.push_pull({"w": np.ones(4)})
        assert session._servers.log.dropped > 0
        np.testing.assert_array_equal(session.parameters["w"], np.full(4, -10.0))


def test_a_server_without_blocks_has_no_worker_wait_for_its_snapshots(tmp_path: Path) -> None:
    addresses = tuple(free_address() for _ in range(2))
    settings = ps.Settings(learning_rate=1.0, snapshot_seconds=0.05)
    with (
        running_server_threads(addresses, addresses, settings, tmp_path),
        ps.connect({"w": np.zeros(4)}, replica=make_replica(addresses), limits=ps.Limits(retained_bytes=1)) as session,
    ):
        for _ in range(10):
            session.push_pull({"w": np.ones(4)})
        np.testing.assert_array_equal(session.parameters["w"], np.full(4, -10.0))
        assert session._servers.log.dropped == 0


def test_moving_blocks_carries_the_optimizers_state() -> None:
    lead, second = free_address(), free_address()
    settings = ps.Settings(optimizer="momentum", learning_rate=1.0)
    model = {"a": np.zeros(10), "b": np.zeros(10)}
    ones = {"a": np.ones(10), "b": np.ones(10)}
    with (
        running_server_threads([lead], (lead,), settings),
        running_server_threads([second], (lead,), settings),
        ps.connect(model, replica=make_replica([lead])) as session,
    ):
        session.push_pull(ones)
        ps.resize([lead, second], job=JOB)
        session.push_pull(ones)

        for value in session.parameters.values():
            np.testing.assert_allclose(value, np.full(10, -2.9))


def test_a_lead_that_forgot_everything_after_a_resize_learns_it_from_a_worker() -> None:
    lead, second = free_address(), free_address()
    settings = ps.Settings(learning_rate=1.0)
    model = {"a": np.zeros(10), "b": np.zeros(10)}
    ones = {"a": np.ones(10), "b": np.ones(10)}
    with running_server_threads([second], (lead,), settings):
        with running_server_threads([lead], (lead,), settings):
            session = ps.connect(model, replica=make_replica([lead]))
            session.push_pull(ones)
            ps.resize([lead, second], job=JOB)
            session.push_pull(ones)
        session.push_pull(ones)
        with running_server_threads([lead], (lead,), settings), session:
            session._servers.wait_for_servers()
            session.push_pull(ones)

            assert len(session._servers.peers) == 2
            for value in session.parameters.values():
                np.testing.assert_array_equal(value, np.full(10, -4.0))


def test_a_resize_towards_a_server_that_is_not_there_changes_nothing() -> None:
    with (
        running_servers(learning_rate=1.0) as (lead,),
        ps.connect(make_model(), replica=make_replica([lead])) as session,
    ):
        with pytest.raises(OSError, match="refused"):
            ps.resize([lead, free_address()], job=JOB)
        session.push_pull(make_gradients())

        assert session.parameters["w"][0, 0] == -1


def test_an_observer_sees_the_training_and_holds_up_nobody() -> None:
    with running_servers(consistency="bsp", learning_rate=1.0) as addresses:
        observers: list[Session] = []
        watching = threading.Thread(
            target=lambda: observers.append(
                ps.connect(make_model(), replica=make_replica(addresses, 0, "chief"), observer=True)
            )
        )
        watching.start()
        with ps.connect(make_model(), replica=make_replica(addresses)) as worker:
            for shard in worker.shards(examples=4, size=2, epochs=1):
                for _ in shard.batches(1):
                    worker.push_pull(make_gradients())
            watching.join(10)
            (observer,) = observers
            *_, progress = observer.follow(every_seconds=0.01)

            assert (progress.examples_done, progress.finished, progress.workers) == (4, True, ("worker-0",))
            assert observer.parameters["w"][0, 0] == -4
            observer.close()
