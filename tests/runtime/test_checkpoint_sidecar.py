"""Checkpoints that a process beside the program writes: the program itself has neither address nor keys to use."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangline.data.credentials import StoreCredentials
from gangline.data.shelves import shelf_at
from gangline.data.trees import follow_links_only_below
from gangline.runtime import Checkpoints, MirrorError, checkpoint_sidecar
from gangline.runtime.checkpoint_address import RankPart
from gangline.runtime.checkpoint_sidecar import SidecarPlace, SidecarRequests, serve
from tests.data.servers import Server, s3_server


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


class Pod:
    """A directory for checkpoints, and somebody who listens beside it."""

    def __init__(self, root: Path, to: str, credentials: StoreCredentials) -> None:
        self.home, self.socket = root / "checkpoints", root / "socket"
        self.home.mkdir(parents=True)
        self._requests = SidecarRequests(to, credentials, self.home)
        self.start()

    def start(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=serve, args=(self.socket, self._requests, self._stop))
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def tell(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CHECKPOINT_DIR", str(self.home))
        monkeypatch.setenv("GANGLINE_CHECKPOINT_TO", self._requests.to)
        monkeypatch.setenv("GANGLINE_CHECKPOINT_SOCKET", str(self.socket))


@pytest.fixture
def pods(tmp_path: Path, s3: Server) -> Iterator[list[Pod]]:
    made = [Pod(tmp_path / name, f"s3://bucket/{tmp_path.name}", s3.credentials) for name in ("a", "b")]
    yield made
    for pod in made:
        pod.stop()


def save(checkpoints: Checkpoints, step: int, text: str) -> None:
    checkpoints.save(step, lambda path: (path / "model").write_text(text) and None)


def test_another_pod_finds_what_was_written_beside_the_first(pods: list[Pod], monkeypatch: pytest.MonkeyPatch) -> None:
    pods[0].tell(monkeypatch)
    first = Checkpoints(pods[0].home / "net", keep=1)
    assert first.latest() is None
    for step in (1, 2):
        save(first, step, f"state {step}")
        assert first.wait(30)
    pods[1].tell(monkeypatch)
    found = Checkpoints(pods[1].home / "net").latest()
    assert found is not None
    assert (found.step, (found.path / "model").read_text()) == (2, "state 2")


def test_ranks_in_pods_of_their_own_make_one_checkpoint(pods: list[Pod], monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = []
    for rank, pod in enumerate(pods):
        pod.tell(monkeypatch)
        ranks.append(Checkpoints(pod.home / f"rank-{rank}", rank=rank, world=2))
    save(ranks[0], 5, "zero")
    assert not ranks[0].wait(1), "rank 1 has not stored its part"
    save(ranks[1], 5, "one")
    assert ranks[0].wait(30)
    pods[0].tell(monkeypatch)
    found = Checkpoints(pods[0].home / "fresh", rank=1, world=2).latest()
    assert found is not None
    assert (found.path / "model").read_text() == "one"


def test_one_that_was_stopped_is_asked_again_when_it_is_back(pods: list[Pod], monkeypatch: pytest.MonkeyPatch) -> None:
    pods[0].tell(monkeypatch)
    checkpoints = Checkpoints(pods[0].home)
    pods[0].stop()
    save(checkpoints, 1, "one")
    assert not checkpoints.wait(0.5)
    pods[0].start()
    assert checkpoints.wait(30)


def test_nobody_beside_the_program_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_sidecar, "_PATIENCE_SECONDS", 0.3)
    place = SidecarPlace("s3://runs", tmp_path / "socket", "", RankPart())
    with pytest.raises(MirrorError, match="the container that writes them does not answer"):
        place.newest()


def test_the_program_reaches_nothing_outside_its_directory(pods: list[Pod], tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "secret").write_text("key")
    (pods[0].home / "way").symlink_to(tmp_path / "keys")
    for path in (tmp_path / "keys", pods[0].home / "way", pods[0].home / "way" / "secret", pods[0].home / ".." / "x"):
        place = SidecarPlace("s3://runs", pods[0].socket, "", RankPart())
        with pytest.raises(MirrorError, match="is not in"):
            place.write(1, path, lambda: False)
    with pytest.raises(MirrorError, match="is not a folder of it"):
        SidecarPlace("s3://runs", pods[0].socket, "../other", RankPart()).newest()


def test_a_link_in_a_checkpoint_does_not_lead_to_the_keys(pods: list[Pod], tmp_path: Path, s3: Server) -> None:
    (tmp_path / "secret").write_text("key")
    step = pods[0].home / "step-000000000001"
    step.mkdir()
    (step / "model").write_text("state")
    (step / "stolen").symlink_to(tmp_path / "secret")
    follow_links_only_below([str(pods[0].home)])
    try:
        SidecarPlace("s3://runs", pods[0].socket, "", RankPart()).write(1, step, lambda: False)
    finally:
        follow_links_only_below([])
    stored = shelf_at(f"s3://bucket/{tmp_path.name}", s3.credentials).names()
    assert "step-000000000001.1/rank-0/model" in stored
    assert "step-000000000001.1/rank-0/stolen" not in stored
