"""Who does not know the job's secret learns nothing, changes nothing and keeps nobody out."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from gangline import ps, runtime
from gangline.ps.protocol import messages as m
from gangline.ps.protocol.authentication import CLIENT, MAGIC, NONCE_BYTES, PROOF_BYTES, REFUSAL, SERVER, Credentials
from gangline.ps.protocol.frames import frame
from gangline.ps.protocol.link import RemoteLink, ask_map
from gangline.ps.protocol.shared_image import unix_name
from gangline.ps.server import acceptor
from gangline.ps.server.loop import Server
from gangline.runtime.peers import split_address
from tests.ps.gang import (
    CREDENTIALS,
    DEADLINE_SECONDS,
    JOB,
    SECRET_FILE,
    dial,
    free_address,
    make_environment,
    make_replica,
    wait_until,
)

MODEL = {"w": np.zeros(300_000, np.float32)}
ONES = {"w": np.ones(300_000, np.float32)}
ENCRYPTED = Credentials(CREDENTIALS.secret, encrypt=True)


@contextmanager
def running(credentials: Credentials = CREDENTIALS, address: str = "") -> Iterator[Server]:
    address, stop = address or free_address(), threading.Event()
    server = Server(
        address, servers=(address,), settings=ps.Settings(), job=JOB, directory=None, credentials=credentials
    )
    thread = threading.Thread(target=server.run, args=(stop.is_set,))
    thread.start()
    try:
        yield server
    finally:
        stop.set()
        thread.join()


def pending(address: str) -> socket.socket:
    return socket.create_connection(split_address(address), timeout=DEADLINE_SECONDS)


def everything_said_to(client: socket.socket) -> bytes:
    said = b""
    try:
        while data := client.recv(4096):
            said += data
    except ConnectionResetError:
        pass
    return said


def replica(address: str, **environment: str) -> runtime.Replica:
    return runtime.current(make_environment("worker", 0, [address]) | environment)


def trains(address: str, *, shared_memory: bool = False, **environment: str) -> bool:
    with ps.connect(MODEL, replica=replica(address, **environment), shared_memory=shared_memory) as session:
        before = session.parameters["w"].copy()
        session.push_pull(ONES)
        return not np.array_equal(before, session.parameters["w"])


def test_a_stranger_who_knows_the_job_reads_nothing() -> None:
    """The job's id is not a secret: `ps`, pod names and logs tell it."""
    with running() as server, pending(server.address) as client:
        assert trains(server.address)
        client.sendall(frame(m.encode(m.Hello(job=JOB, sender="worker-9"))) + frame(m.encode(m.AskMap())) * 4)
        said = everything_said_to(client)

    assert len(said) <= len(MAGIC) + NONCE_BYTES + PROOF_BYTES
    assert said.endswith(REFUSAL)
    assert JOB.encode() not in said


def test_a_stranger_changes_nothing() -> None:
    with running() as server, ps.connect(MODEL, replica=replica(server.address)) as session:
        push = m.Push("worker-0", 1 << 40, 1, 1, 1, (0,), (0,))
        with pending(server.address) as client:
            client.sendall(frame(m.encode(m.Hello(JOB, "worker-0"))))
            client.sendall(frame(m.encode(push), MODEL["w"].nbytes) + ONES["w"].tobytes()[:10_000])
            everything_said_to(client)
        session.pull()

        assert not session.parameters["w"].any()


def test_what_was_overheard_once_proves_nothing_later() -> None:
    with running() as server:
        with pending(server.address) as worker:
            greeting = worker.recv(100)
            own = os.urandom(NONCE_BYTES)
            claim = own + CREDENTIALS.proof(CLIENT, greeting[len(MAGIC) :] + own)
            worker.sendall(claim)
            assert worker.recv(100) == CREDENTIALS.proof(SERVER, greeting[len(MAGIC) :] + own)
        with pending(server.address) as eavesdropper:
            eavesdropper.sendall(claim)
            assert everything_said_to(eavesdropper).endswith(REFUSAL)


def test_a_stranger_cannot_give_a_server_its_own_words_back() -> None:
    with running() as server, pending(server.address) as first:
        drawn = first.recv(100)[len(MAGIC) :]
        with pending(server.address) as second:
            second.recv(100)
            second.sendall(drawn + CREDENTIALS.proof(SERVER, drawn + drawn))
            assert everything_said_to(second) == REFUSAL


@pytest.mark.parametrize(
    ("server_has", "worker_has"),
    [
        pytest.param(CREDENTIALS, Credentials(b"x" * 32), id="another secret"),
        pytest.param(CREDENTIALS, ENCRYPTED, id="only the worker encrypts"),
        pytest.param(ENCRYPTED, CREDENTIALS, id="only the server encrypts"),
    ],
)
def test_who_has_another_secret_is_refused_by_name_and_at_once(
    server_has: Credentials, worker_has: Credentials, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(worker_has.secret)
    environment = {"GANGLINE_SECRET_FILE": str(secret), "GANGLINE_ENCRYPT": str(int(worker_has.encrypt))}
    with running(server_has) as server, pytest.raises(ps.AuthenticationError, match="GANGLINE_SECRET_FILE"):
        ps.connect(MODEL, replica=replica(server.address, **environment), shared_memory=False)


def test_a_worker_tells_nothing_to_a_server_that_does_not_know_the_secret() -> None:
    heard = []

    def answer(listener: socket.socket) -> None:
        client, _ = listener.accept()
        with client:
            client.sendall(MAGIC + bytes(NONCE_BYTES))
            heard.append(client.recv(1000))
            client.sendall(b"p" * PROOF_BYTES)
            heard.append(everything_said_to(client))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        impostor = threading.Thread(target=answer, args=(listener,))
        impostor.start()
        with pytest.raises(ps.AuthenticationError, match="does not know this job's secret"):
            dial(f"{host}:{port}")
        impostor.join()

    assert len(heard[0]) == NONCE_BYTES + PROOF_BYTES
    assert heard[1] == b""


def test_who_takes_the_name_of_the_local_socket_keeps_nobody_from_training() -> None:
    address = free_address()

    def deceive() -> None:
        with squatter.accept()[0] as client:
            client.sendall(MAGIC + bytes(NONCE_BYTES) + b"x" * PROOF_BYTES)
            everything_said_to(client)

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as squatter:
        squatter.bind(unix_name(address))
        squatter.listen()
        deceiving = threading.Thread(target=deceive)
        deceiving.start()
        with running(address=address):
            assert trains(address, shared_memory=True)
        deceiving.join()


def test_strangers_keep_no_worker_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "MOST_PENDING", 8)
    with running() as server, ExitStack() as idlers:
        for _ in range(40):
            idlers.enter_context(pending(server.address))
        assert trains(server.address)
        assert len(server._acceptor._pending) <= 8


def test_a_stranger_who_says_nothing_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "HANDSHAKE_SECONDS", 0.2)
    with running() as server, pending(server.address) as client:
        assert len(everything_said_to(client)) == len(MAGIC) + NONCE_BYTES
        wait_until(lambda: not server._acceptor._pending, "the server forgot it")


def test_a_flood_of_strangers_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with running() as server:
        for _ in range(50):
            with pending(server.address) as client:
                client.sendall(bytes(NONCE_BYTES + PROOF_BYTES))
                everything_said_to(client)

    assert 1 <= sum("did not know the job's secret" in line for line in caplog.messages) <= 10


def test_without_a_secret_nobody_connects_over_the_network() -> None:
    with running(Credentials()) as server:
        with pytest.raises(ConnectionRefusedError):
            pending(server.address)
        for shared_memory in (True, False):
            assert trains(server.address, shared_memory=shared_memory, GANGLINE_SECRET_FILE="")
        with pytest.raises(ConnectionError):
            dial(server.address)


def test_without_a_secret_a_server_of_another_user_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(Credentials()) as server:
        monkeypatch.setattr("gangline.ps.protocol.link.peer_is_same_user", lambda _: False)
        with pytest.raises(ConnectionError, match="another user"):
            RemoteLink(server.address, job=JOB, sender="w")


def test_without_a_secret_the_way_to_other_machines_is_told() -> None:
    limits = ps.Limits(server_timeout=0.0)
    with pytest.raises(ps.ServerLostError, match="GANGLINE_SECRET_FILE"):
        ps.connect(MODEL, replica=replica("127.0.0.1:9", GANGLINE_SECRET_FILE=""), limits=limits)


@pytest.mark.parametrize(
    ("content", "encrypt", "want"),
    [
        pytest.param(b"short\n", "0", "6|5 bytes: expected at least 32", id="short"),
        pytest.param(None, "0", "cannot be read", id="missing"),
        pytest.param(b"", "1", "expected at least 32", id="empty"),
    ],
)
def test_a_secret_that_is_none_is_refused(tmp_path: Path, content: bytes | None, encrypt: str, want: str) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    environment = {"GANGLINE_SECRET_FILE": str(file), "GANGLINE_ENCRYPT": encrypt}

    with pytest.raises(ps.SettingsError, match=want):
        Credentials.of(runtime.current(environment))


def test_encryption_needs_a_secret() -> None:
    with pytest.raises(ps.SettingsError, match="GANGLINE_SECRET_FILE"):
        Credentials.of(runtime.current({"GANGLINE_ENCRYPT": "1"}))


def test_the_secret_is_not_shown_by_accident() -> None:
    assert SECRET_FILE.read_text().strip() not in repr(CREDENTIALS)


def overheard(credentials: Credentials) -> bytes:
    """Train through a line that somebody listens to; what went over it."""
    heard = bytearray()

    def carry(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                heard.extend(data)
                target.sendall(data)
        except OSError:
            pass
        for sock in (source, target):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    with running(credentials) as server, socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:

        def relay() -> None:
            near = stack.enter_context(listener.accept()[0])
            far = stack.enter_context(pending(server.address))
            for pair in ((near, far), (far, near)):
                carrying.append(threading.Thread(target=carry, args=pair))
                carrying[-1].start()

        carrying: list[threading.Thread] = []
        relaying = threading.Thread(target=relay)
        relaying.start()
        host, port = listener.getsockname()
        assert trains(server.address, GANGLINE_ENCRYPT=str(int(credentials.encrypt)))
        link = RemoteLink(f"{host}:{port}", job=JOB, sender="worker-7", credentials=credentials)
        link.send(m.Push("worker-7", 1, 1, 1, 1, (0,), (0,), pull=True), [ONES["w"].tobytes()])
        link.receive([memoryview(bytearray(MODEL["w"].nbytes))])
        assert ask_map(link).version == 1
        link.close()
        relaying.join()
        for thread in carrying:
            thread.join()
    return bytes(heard)


@pytest.mark.parametrize(("credentials", "want_readable"), [(CREDENTIALS, True), (ENCRYPTED, False)])
def test_what_is_encrypted_cannot_be_read_on_the_way(credentials: Credentials, want_readable: bool) -> None:
    heard = overheard(credentials)

    assert len(heard) > 2 * MODEL["w"].nbytes
    assert (b"worker-7" in heard) is want_readable
    assert (ONES["w"].tobytes()[:100] in heard) is want_readable
    assert CREDENTIALS.secret not in heard


def test_who_stands_between_two_encrypted_ends_is_noticed() -> None:
    """Carries the proofs to and fro and then speaks TLS with either side itself."""
    from gangline.ps.protocol.encryption import EncryptedSocket

    def stand_between(listener: socket.socket, address: str) -> None:
        near, _ = listener.accept()
        far = pending(address)
        near.sendall(far.recv(100))
        far.sendall(near.recv(100))
        near.sendall(far.recv(100))
        to_worker, to_server = EncryptedSocket(near, server_side=True), EncryptedSocket(far, server_side=False)
        to_worker.shake_hands()
        to_server.shake_hands()
        to_server.sendall(to_worker.recv(100))
        to_worker.sendall(to_server.recv(100))
        to_worker.close()
        to_server.close()

    with running(ENCRYPTED) as server, socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        between = threading.Thread(target=stand_between, args=(listener, server.address))
        between.start()
        with pytest.raises(ps.AuthenticationError):
            RemoteLink(f"{host}:{port}", job=JOB, sender="w", credentials=ENCRYPTED)
        between.join()


def test_a_large_model_is_trained_encrypted() -> None:
    model = {"w": np.zeros(5_000_000, np.float32)}
    with (
        running(ENCRYPTED) as server,
        ps.connect(model, replica=replica(server.address, GANGLINE_ENCRYPT="1"), shared_memory=False) as session,
    ):
        for _ in range(3):
            session.push_pull({"w": np.ones(5_000_000, np.float32)})

        np.testing.assert_allclose(session.parameters["w"], -0.03, rtol=1e-5)


def test_a_program_without_servers_needs_no_secret() -> None:
    with ps.connect(MODEL, replica=runtime.current({})) as session:
        session.push_pull(ONES)


def test_workers_that_are_replicas_of_a_job_find_the_secret_in_their_environment() -> None:
    with running() as server:
        assert Credentials.of(make_replica([server.address])) == CREDENTIALS
