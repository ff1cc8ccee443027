"""Runs commands in processes that have Gangline imported already: forks of one that imports it once.

Such a command is as much a process as one that a shell starts: streams, environment, directory and exit status are its
own. What it is spared is importing the same modules again, most of the time that a test of the command line would take.
What Python itself is told by the environment, a fork cannot be told: then ``Forks`` refuses.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_LONGEST_REQUEST = 1 << 20


class Forks:
    """The client: starts the process that is forked, and asks it for commands."""

    def __init__(self, place: Path) -> None:
        self._address = str(place / "forks")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self._address)
            listener.listen()
            command = [sys.executable, "-m", "tests.cli.forking", str(listener.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL)

    def run(
        self, arguments: Sequence[str], *, text_in: str | None, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        assert {name: value for name, value in env.items() if name.startswith("PYTHON")}.items() <= os.environ.items()
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
            socket.socket(socket.AF_UNIX) as server,
        ):
            given.write((text_in or "").encode())
            given.seek(0)
            server.settimeout(timeout)
            server.connect(self._address)
            request = json.dumps([list(arguments), dict(env), str(Path.cwd())]).encode()
            socket.send_fds(server, [len(request).to_bytes(8)], [given.fileno(), out.fileno(), err.fileno()])
            server.sendall(request)
            status = server.recv(16)
            assert status, "the command's process has vanished"
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode())
        return subprocess.CompletedProcess(list(arguments), int(status), *texts)

    def close(self) -> None:
        """End the process that is forked."""
        self._process.kill()
        self._process.wait()


def serve(listener: socket.socket) -> None:
    """Fork for every request, for ever."""
    import gangline.cli.connection.client
    import gangline.cli.main  # noqa: F401 -- what every command imports

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        client, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            os._exit(_answer(client))
        client.close()


def _answer(client: socket.socket) -> int:
    """Run what a request asks for in a further fork, which ends when the one who asked hangs up."""
    size, streams, _, _ = socket.recv_fds(client, 8, 3)
    request = b""
    while len(request) < int.from_bytes(size):
        request += client.recv(_LONGEST_REQUEST)
    process = os.fork()
    if process == 0:
        client.close()
        _become(streams, *json.loads(request))
    handle = os.pidfd_open(process)
    if handle not in select.select([handle, client], [], [])[0]:
        os.kill(process, signal.SIGKILL)
    client.send(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])).encode())
    return 0


def _become(streams: Sequence[int], arguments: Sequence[str], env: Mapping[str, str], directory: str) -> None:
    """Be the command, in this process, and end as any Python ends."""
    from gangline.cli.main import main

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(directory)
    tempfile.tempdir = None
    sys.argv = ["gangline", *arguments]
    main()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
