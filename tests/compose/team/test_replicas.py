"""Two services on one PostgreSQL: one is killed, the database restarted, and no submission is lost or doubled."""

import asyncio
import random
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from gangline.compose.local import Service
from gangline.compose.team.listening import Listening
from gangline.errors import InvalidInputError
from gangline.settings import Settings
from tests.compose.team.serving import ServiceProcess, ask, wait_for
from tools.postgres import PostgresServer, own_server

SUBMISSIONS = 100
KILL_AFTER, RESTART_AFTER = 30, 60
JOBS = "/api/v1/tenants/default/jobs"


class Pair:
    """Two replicas with one home, each at an address that it keeps."""

    def __init__(self, folder: Path, sockets: Path, server: PostgresServer) -> None:
        self.server = server
        self.database = server.create_database()
        more = {"GANGLINE_DATABASE": self.database, "GANGLINE_HOME": str(folder / "home")}
        self.replicas = [ServiceProcess(folder / str(number), sockets / str(number), more) for number in range(2)]
        for each in self.replicas:
            each.start("127.0.0.1:0", "--replica")
        self.token = self.replicas[0].type("token", "create", "chief", "--operator").strip()

    def kill_and_start_again(self, number: int) -> None:
        replica = self.replicas[number]
        replica.kill()
        replica.start(replica.address.removeprefix("http://"), "--replica")

    def leaders(self) -> int:
        locks = "SELECT count(*) FROM pg_locks JOIN pg_database ON oid = database"
        with psycopg.connect(self.database) as connection:
            found = connection.execute(
                f"{locks} WHERE locktype = 'advisory' AND granted AND datname = current_database()"
            )
            return int(found.fetchall()[0][0])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with own_server() as server, tempfile.TemporaryDirectory(prefix="re") as sockets:  # paths of sockets are short
        found = Pair(tmp_path_factory.mktemp("replicas"), Path(sockets), server)
        try:
            yield found
        finally:
            for each in found.replicas:
                each.stop()


def test_no_submission_is_lost_or_done_twice(pair: Pair) -> None:
    chance, done, statuses = random.Random(17), threading.Semaphore(0), list[int]()
    first = [chance.randrange(2) for _ in range(SUBMISSIONS)]
    doomed = chance.randrange(2)

    def submit(number: int) -> str:
        """Send one submission until it is answered, each time to the other replica."""
        body = {"metadata": {"name": f"job-{number}"}, "spec": {"command": ["true"]}}
        turn = first[number]
        while True:
            address = f"{pair.replicas[turn % 2].address}{JOBS}?halted=true"
            status, made, _ = ask("POST", address, pair.token, body, {"Idempotency-Key": f"submission-{number}"})
            statuses.append(status)
            if status == 201:
                done.release()
                return str(made["status"]["id"])
            assert status in (0, 409, 503), made
            turn += 1
            threading.Event().wait(0.1)

    def wait_until_done(count: int) -> None:
        for _ in range(count):
            assert done.acquire(timeout=240)

    with ThreadPoolExecutor(4) as clients:
        asked = [clients.submit(submit, number) for number in range(SUBMISSIONS)]
        wait_until_done(KILL_AFTER)
        pair.kill_and_start_again(doomed)
        wait_until_done(RESTART_AFTER - KILL_AFTER)
        pair.server.restart()
        ids = [each.result(timeout=300) for each in asked]
    assert len(set(ids)) == SUBMISSIONS

    page = wait_for(lambda: ask("GET", f"{pair.replicas[1].address}{JOBS}?limit=1000", pair.token)[1].get("jobs"))
    assert sorted(job["status"]["id"] for job in page) == sorted(ids)
    assert {job["metadata"]["name"] for job in page} == {f"job-{number}" for number in range(SUBMISSIONS)}


def test_a_database_that_does_not_answer_is_told_as_503_and_then_all_goes_on(pair: Pair) -> None:
    """Whichever replica takes it, whoever leads runs it; and a watch at the other one hears of it."""
    pair.server.restart()
    body = {
        "metadata": {"name": "goes-on"},
        "spec": {"command": ["true"], "resources": {"cpu": "100m", "memory": "64Mi"}},
    }
    for number, replica in enumerate(pair.replicas):
        seen = set[int]()

        def submitted(number: int = number, replica: ServiceProcess = replica, seen: set[int] = seen) -> bool:
            sent = {**body, "metadata": {"name": f"goes-on-{number}"}}
            key = {"Idempotency-Key": f"goes-on-{number}"}
            status, answer, headers = ask("POST", f"{replica.address}{JOBS}", pair.token, sent, key)
            seen.add(status)
            if status == 503:
                assert answer["title"] == "Service Unavailable"
                assert headers["Retry-After"] == "1"
            return status == 201

        wait_for(submitted)
        assert seen <= {201, 409, 503}
        other = pair.replicas[1 - number]

        def completed(number: int = number, other: ServiceProcess = other) -> bool:
            status, job, _ = ask("GET", f"{other.address}{JOBS}/goes-on-{number}", pair.token)
            return status == 200 and job["status"]["phase"] == "COMPLETED"

        wait_for(completed)


def test_one_of_them_leads(pair: Pair) -> None:
    assert wait_for(lambda: pair.leaders() == 1)


def test_replicas_need_a_database_of_their_own_kind(tmp_path: Path) -> None:
    settings = Settings.load({"GANGLINE_HOME": str(tmp_path / "h"), "GANGLINE_RUNTIME_DIRECTORY": str(tmp_path / "r")})
    with pytest.raises(InvalidInputError, match="PostgreSQL"):
        asyncio.run(Service(settings, Listening(host="127.0.0.1", port=0, replica=True)).run())
