"""Servers and workers train by the same settings, or not at all."""

from pathlib import Path

import numpy as np
import pytest

from gangline import ps
from gangline.ps.blocks import describe
from gangline.ps.protocol.messages import Join
from gangline.ps.server.agreement import Agreement
from gangline.ps.server.coordinator import Coordinator
from tests.ps.gang import (
    JOB,
    ServerProcess,
    free_address,
    make_replica,
    running_server_threads,
    running_servers,
)

ZEROS = {"a": np.zeros(4, np.float32), "b": np.zeros(4, np.float32)}
ONES = {name: np.ones(4, np.float32) for name in ZEROS}
MOMENTUM = ps.Settings(optimizer="momentum", learning_rate=1.0)


def test_servers_without_settings_take_the_first_workers() -> None:
    with (
        running_servers(2, from_workers=True) as addresses,
        ps.connect(ZEROS, replica=make_replica(addresses), settings=MOMENTUM) as session,
    ):
        session.push_pull(ONES)
        session.push_pull(ONES)
        for value in session.parameters.values():
            np.testing.assert_allclose(value, np.full(4, -2.9), rtol=1e-6)

        with ps.connect(ZEROS, replica=make_replica(addresses, 1)) as silent:
            np.testing.assert_allclose(silent.parameters["a"], np.full(4, -2.9), rtol=1e-6)


@pytest.mark.parametrize(
    ("brought", "want"),
    [
        pytest.param({"optimizer": "adam"}, r"optimizer is 'adam'.*'momentum' on the servers", id="optimizer"),
        pytest.param({"learning_rate": 0.5}, r"learning_rate is 0\.5.*1\.0 on the servers", id="learning rate"),
        pytest.param({"consistency": "ssp:2"}, r"consistency is 'ssp:2'.*'async' on the servers", id="consistency"),
        pytest.param({"non_finite": "skip"}, r"non_finite is 'skip'.*'reject' on the servers", id="policy"),
    ],
)
@pytest.mark.parametrize("from_workers", [pytest.param(True, id="taken"), pytest.param(False, id="given")])
def test_a_worker_with_other_settings_is_refused(brought: dict[str, object], want: str, from_workers: bool) -> None:
    given = {} if from_workers else {"optimizer": "momentum", "learning_rate": 1.0}
    fields = {"optimizer": "momentum", "learning_rate": 1.0} | brought
    with (
        running_servers(1, from_workers=from_workers, **given) as addresses,
        ps.connect(ZEROS, replica=make_replica(addresses), settings=MOMENTUM) as session,
    ):
        with pytest.raises(ps.SettingsError, match=want):
            ps.connect(ZEROS, replica=make_replica(addresses, 1), settings=ps.Settings(**fields))

        session.push_pull(ONES)
        assert session.progress().workers == ("worker-0",)


def test_times_are_the_servers_own_affair() -> None:
    settings = ps.Settings(lease_seconds=77.0, snapshot_seconds=88.0)
    with (
        running_servers() as addresses,
        ps.connect(ZEROS, replica=make_replica(addresses), settings=settings) as session,
    ):
        session.push_pull(ONES)


def test_when_nobody_says_anything_the_defaults_hold() -> None:
    with (
        running_servers(1, from_workers=True) as addresses,
        ps.connect(ZEROS, replica=make_replica(addresses)) as session,
    ):
        session.push_pull(ONES)
        np.testing.assert_allclose(session.parameters["a"], np.full(4, -0.01), rtol=1e-6)
        with pytest.raises(ps.SettingsError, match="on the servers"):
            ps.connect(ZEROS, replica=make_replica(addresses, 1), settings=MOMENTUM)


def test_a_silent_observer_that_comes_first_leaves_the_choice_to_the_workers() -> None:
    coordinator = Coordinator("a:1", ("a:1",), Agreement(ps.Settings(from_workers=True)), lease_seconds=10.0)
    tensors = describe(ZEROS)
    coordinator.join(Join("chief-0", tensors, proposed=1, observer=True), 0.0)

    joined = coordinator.join(Join("worker-0", tensors, proposed=1, training=MOMENTUM.training), 0.0)

    assert joined.training == MOMENTUM.training


def test_a_worker_cannot_have_a_server_import_code() -> None:
    own = ps.Settings(optimizer="os.path:join")
    with (
        running_servers(1, from_workers=True) as addresses,
        pytest.raises(ps.SettingsError, match="name it in the settings of the servers"),
    ):
        ps.connect(ZEROS, replica=make_replica(addresses), settings=own)


def test_a_second_server_with_other_settings_is_refused_by_name() -> None:
    lead, second = free_address(), free_address()
    cluster = (lead, second)
    with (
        running_server_threads([lead], cluster, ps.Settings(learning_rate=1.0)),
        running_server_threads([second], cluster, ps.Settings(learning_rate=0.5)),
        pytest.raises(ps.SettingsError, match="learning_rate"),
    ):
        ps.connect(ZEROS, replica=make_replica(cluster))


def test_a_server_that_is_added_takes_the_settings_in_force() -> None:
    lead, second = free_address(), free_address()
    with (
        running_server_threads([lead], (lead,), MOMENTUM),
        running_server_threads([second], (lead,), ps.Settings(from_workers=True)),
        ps.connect(ZEROS, replica=make_replica([lead])) as session,
    ):
        session.push_pull(ONES)
        ps.resize([lead, second], job=JOB)
        session.push_pull(ONES)
        for value in session.parameters.values():
            np.testing.assert_allclose(value, np.full(4, -2.9), rtol=1e-6)


def test_a_killed_server_remembers_the_settings_it_was_brought(tmp_path: Path) -> None:
    with ServerProcess(free_address(), tmp_path, "--snapshot-seconds", "0.1") as server:
        with ps.connect(ZEROS, replica=make_replica([server.address]), settings=MOMENTUM) as session:
            session.push_pull(ONES)
            server.wait_for_snapshot()
        server.kill()
        server.start()
        with pytest.raises(ps.SettingsError, match="learning_rate"):
            ps.connect(ZEROS, replica=make_replica([server.address], 1), settings=ps.Settings(optimizer="momentum"))
