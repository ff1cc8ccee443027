"""What a job tries on the jobs of others, and on its service: run as the program of a job, it says what it could do.

The first argument is a JSON object of what the attacker is assumed to know: far more than any tenant is told.
"""

import ctypes
import json
import os
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

known = json.loads(sys.argv[1])
done: dict[str, str] = {}


def attempt(name: str, act: Callable[[], object]) -> None:
    """Note what came of an attack: what was gained, or why nothing was."""
    try:
        done[name] = f"done: {act()!r}"[:2000]
    except (OSError, ValueError) as error:
        done[name] = f"refused: {error}"


def over_socket(path: str) -> bytes:
    """Ask the private service to make its caller an operator."""
    body = json.dumps({"name": "mine", "operator": True}).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        head = f"POST /api/v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        return connection.recv(4096)


def stop_keeper(name: str) -> str:
    """Tell a keeper to stop its gang; one that hangs up at once has not listened."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect("\0" + name)
        said = connection.recv(16)
        if not said:
            raise OSError("it hung up")
        connection.sendall(b'{"do": "stop", "grace_seconds": 0}\n')
        return "told to stop"


def trace(pid: int) -> str:
    """Become the debugger of a process."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.ptrace(16, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "not traced")
    return "traced"


def ask(port: int) -> bytes:
    """Ask the Kubernetes interface without its token."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/namespaces/vision/secrets", timeout=10) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        raise OSError(f"answered {error.code}") from error


home, pid = Path(known["home"]), known["pid"]
done["identity"] = f"{os.getuid()} {os.geteuid()} {os.getgid()} {os.getgroups()}"
for name, path in known["files"].items():
    attempt(f"read {name}", Path(path).read_bytes)
for name, path in known["folders"].items():
    attempt(f"list {name}", lambda path=path: os.listdir(path))  # type: ignore[misc]  # noqa: PTH208
for name, path in known["files"].items():
    attempt(f"write {name}", lambda path=path: Path(path).open("r+b").close())  # type: ignore[misc]
for name in ("environ", "cmdline", "maps"):
    attempt(f"proc {name}", Path(f"/proc/{pid}/{name}").read_bytes)
attempt("proc cwd", lambda: os.listdir(f"/proc/{pid}/cwd"))  # noqa: PTH208
attempt("proc root of the service", lambda: os.listdir(f"/proc/{known['service']}/root"))  # noqa: PTH208
done["processes"] = " ".join(name for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
attempt("open its GPU", lambda: Path(known["gpu"]).open("rb").close())
attempt("signal a replica", lambda: os.kill(pid, 18))
attempt("signal the service", lambda: os.kill(known["service"], 18))
attempt("trace a replica", lambda: trace(pid))
attempt("become root", lambda: os.setuid(0))
attempt("become the other tenant", lambda: os.setuid(known["user"]))
attempt("enter the private socket", lambda: over_socket(known["socket"]))
attempt("enter a replica's socket", lambda: socket.socket(socket.AF_UNIX).connect(known["replica_socket"]))
attempt("ask the Kubernetes interface", lambda: ask(known["kubernetes_port"]))
for line in Path("/proc/net/unix").read_text().splitlines():
    word = line.split()[-1]
    if word.startswith("@gangline/keeper/") and known["token"] in word:
        attempt("stop its keeper", lambda word=word: stop_keeper(word[1:]))  # type: ignore[misc]
for group in Path("/sys/fs/cgroup").rglob(f"gangline-{known['token']}"):
    attempt(f"kill by {group.parent.name or 'group'}", (group / "cgroup.kill").read_bytes)
    attempt("enter its control group", lambda group=group: (group / "cgroup.procs").write_text(str(os.getpid())))  # type: ignore[misc]
attempt("link its result", lambda: os.link(known["files"]["result"], os.environ["RESULT_DIR"] + "/hard"))

# What the service itself will read, it may be led to: by links in the attacker's own directories.
secret = known["files"]["result"]
os.symlink(secret, os.environ["RESULT_DIR"] + "/soft")  # noqa: PTH211
os.symlink(Path(secret).parent, os.environ["RESULT_DIR"] + "/folder")  # noqa: PTH211
os.symlink(secret, os.environ["GANGLINE_RESULT"])  # noqa: PTH211
Path(os.environ["GANGLINE_METRICS"]).unlink(missing_ok=True)
os.symlink(known["files"]["metrics"], os.environ["GANGLINE_METRICS"])  # noqa: PTH211
print(json.dumps(done), flush=True)
