"""A real server, asked by clients that others wrote, with models that behave and models that do not."""

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gangline.model.routing import Backend, RevisionRoute, ServiceRoute
from tests.environments import environment_with
from tests.router.conftest import Routed
from tests.serve.conftest import PROJECT, Serving, Start

HANDLERS = {
    "double": """
        def predict(self, inputs):
            return {"y": 2 * inputs["x"]}
    """,
    "raises": """
        def predict(self, inputs):
            raise RuntimeError("it does not work")
    """,
    "hangs": """
        def predict(self, inputs):
            if inputs["x"].flat[0] < 0:
                import time; time.sleep(600)
            return {"y": inputs["x"]}
    """,
    "odd": """
        def predict(self, inputs):
            import sys, numpy
            how = int(inputs["x"].flat[0])
            return {how: [lambda: numpy.ones(2, ">f4"), lambda: sys.exit(3), dict, lambda: [["a"], ["\\ud800"]]][how]()}
    """,
    "exits": """
        def predict(self, inputs):
            import os
            if inputs["x"].flat[0] < 0:
                os._exit(9)
            return {"y": inputs["x"]}
    """,
    "leaks": """
        held = []
        def predict(self, inputs):
            self.held.append(bytearray(64 << 20))
            return {"y": inputs["x"]}
    """,
    "forks": """
        def predict(self, inputs):
            import os
            os.fork()
            return {"y": inputs["x"]}
    """,
    "slow": """
        def predict(self, inputs):
            import time; time.sleep(0.5)
            return {"y": inputs["x"]}
    """,
}


def write_handlers(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
        text = f"class Model:\n        def load(self, folder): pass\n{HANDLERS[name]}"
        (folder / name / "handler.py").write_text(text)
    return folder


def request(*values: float) -> dict[str, Any]:
    return {"inputs": [{"name": "x", "shape": [1, len(values)], "datatype": "FP32", "data": values}]}


async def ask(session: aiohttp.ClientSession, serving: Serving, model: str, *values: float) -> tuple[int, Any]:
    address = f"{serving.address}/v2/models/{model}/infer"
    async with session.post(address, json=request(*values)) as answer:
        return answer.status, await answer.json()


async def until(session: aiohttp.ClientSession, serving: Serving, path: str, status: int = 200) -> None:
    deadline = time.monotonic() + 180  # four libraries are imported, on a machine that has other work
    while time.monotonic() < deadline:
        try:
            async with session.get(f"{serving.address}{path}") as answer:
                if answer.status == status:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.1)
    raise AssertionError(serving.log.read_text())


def log_lines(folder: Path) -> list[str]:
    return [line for file in folder.rglob("*.jsonl") for line in file.read_text().splitlines()]


@pytest.fixture
async def session() -> Any:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield session


async def test_tritons_clients_get_what_the_libraries_answer(
    start: Start, library_python: Path, client_python: Path, tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    here = Path(__file__).parent
    await asyncio.to_thread(subprocess.run, [library_python, here / "models.py", tmp_path / "models"], check=True)
    answers = (tmp_path / "models" / "answers.npz").rename(tmp_path / "answers.npz")
    serving = start("--repository", str(tmp_path / "models"))
    await until(session, serving, "/v2/health/ready")
    one_port = serving.address.removeprefix("http://")
    routed = Routed(tmp_path)
    await routed.start()
    revision = RevisionRoute(name="r1", weight=1, backends=(Backend(address=one_port),))
    await routed.route(ServiceRoute(name="models", revisions=(revision,)))
    addresses = [serving.rpc_address, one_port, f"127.0.0.1:{routed.port}/models.localhost"]
    command = [client_python, here / "triton.py", serving.address, *addresses, answers]
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    await routed.stop()
    assert ran.stdout == "all answers are right\n", ran.stderr


def test_the_generated_code_is_what_the_proto_says() -> None:
    command = [environment_with("grpcio-tools==1.76.0"), "-m", "tools.protos", "--check"]
    ran = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


async def test_models_that_misbehave_leave_the_others_alone(
    start: Start, tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    folder = write_handlers(tmp_path / "models", "double", "raises", "hangs", "exits", "forks")
    (folder / "broken").mkdir()
    (folder / "broken" / "handler.py").write_text("import nothing_like_this\n")
    serving = start("--repository", str(folder), "--workers", "2", "--timeout", "1")
    await until(session, serving, "/v2/models/double/ready")
    assert await ask(session, serving, "double", 1, 2) == (
        200,
        {
            "model_name": "double",
            "model_version": "1",
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [2.0, 4.0]}],
        },
    )
    assert await ask(session, serving, "raises", 1) == (500, {"error": "RuntimeError: it does not work"})
    for value in range(20):
        status, said = await ask(session, serving, "forks", value)
        assert (status, said["outputs"][0]["data"]) == (200, [value])
    assert await ask(session, serving, "nothing", 1) == (
        404,
        {"error": "there is no model 'nothing'; there are: broken, double, exits, forks, hangs, raises"},
    )
    status, said = await ask(session, serving, "broken", 1)
    assert status == 503
    assert "No module named 'nothing_like_this'" in said["error"]
    for _ in range(20):  # one that was quick so far may hang, too
        assert (await ask(session, serving, "hangs", 1))[0] == 200
    assert await ask(session, serving, "hangs", -1) == (504, {"error": "no answer within 1 s"})
    await others_go_on_until(session, serving, "a model did not come back in time")
    with pytest.raises(aiohttp.ClientError):
        await ask(session, serving, "exits", -1)
    await others_go_on_until(session, serving, "exit code 9")
    await until(session, serving, "/v2/models/double/ready")


async def others_go_on_until(session: aiohttp.ClientSession, serving: Serving, said: str) -> None:
    deadline = time.monotonic() + 60
    while said not in serving.log.read_text():
        assert time.monotonic() < deadline, serving.log.read_text()
        try:
            assert (await ask(session, serving, "double", 1))[0] == 200
        except aiohttp.ClientError:  # a connection of the worker that ends
            continue


async def test_all_workers_load_and_unload_what_one_is_asked_for(
    start: Start, tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    folder = write_handlers(tmp_path / "models", "double", "slow")
    serving = start("--repository", str(folder), "--workers", "2")
    await everybody(serving, "/v2/health/ready", 200)

    async def ask_for(verb: str, model: str) -> int:
        async with session.post(f"{serving.address}/v2/repository/models/{model}/{verb}", json={}) as answer:
            return answer.status

    assert await ask_for("unload", "slow") == 200
    await everybody(serving, "/v2/models/slow/ready", 503, times=1)
    write_handlers(folder, "raises")
    assert await ask_for("load", "raises") == 200
    await everybody(serving, "/v2/models/raises/ready", 200, times=1)
    assert [await ask_for("load", name) for name in ("nothing", "..", "%2e%2e%2fmodels")] == [404, 404, 404]
    first = serving.workers()
    for pid in first:
        os.kill(pid, signal.SIGKILL)
    await everybody(serving, "/v2/models/raises/ready", 200)
    assert not set(first) & set(serving.workers())
    await everybody(serving, "/v2/models/slow/ready", 503)


async def everybody(serving: Serving, path: str, status: int, *, times: int = 600) -> None:
    """Wait until twenty connections in a row, each of which is some worker's, have this answer."""
    found: list[int] = []
    for _ in range(times):
        found = []
        for _ in range(20):
            with contextlib.suppress(aiohttp.ClientError):
                async with aiohttp.ClientSession() as fresh, fresh.get(f"{serving.address}{path}") as answer:
                    found.append(answer.status)
        if found == [status] * 20:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{found}\n{serving.log.read_text()}")


async def test_what_a_handler_may_return_is_told_from_what_it_may_not(
    start: Start, tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    serving = start("--repository", str(write_handlers(tmp_path / "models", "odd")))
    await until(session, serving, "/v2/health/ready")
    status, said = await ask(session, serving, "odd", 0)
    assert (status, said["outputs"]) == (200, [{"name": "0", "datatype": "FP32", "shape": [2], "data": [1.0, 1.0]}])
    assert await ask(session, serving, "odd", 1) == (500, {"error": "SystemExit: 3"})
    assert await ask(session, serving, "odd", 2) == (
        500,
        {"error": "TypeError: output 2: dict is neither a number nor text"},
    )
    status, said = await ask(session, serving, "odd", 3)
    assert (status, said["outputs"][0]["data"]) == (200, ["a", "?"])
    assert "worker 0 ended" not in serving.log.read_text()


async def test_a_worker_that_grows_too_large_is_replaced(
    start: Start, tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    serving = start("--repository", str(write_handlers(tmp_path / "models", "leaks")), "--max-memory", "400")
    await until(session, serving, "/v2/health/ready")
    (before,) = serving.workers()
    deadline = time.monotonic() + 60
    while before in serving.workers():
        assert time.monotonic() < deadline
        try:
            await ask(session, serving, "leaks", 1)
        except aiohttp.ClientError:
            continue
    await until(session, serving, "/v2/health/ready")
    assert (await ask(session, serving, "leaks", 1))[0] == 200


async def test_a_killed_worker_is_replaced_and_connections_wait_for_it(
    start: Start, tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    serving = start("--repository", str(write_handlers(tmp_path / "models", "double")))
    await until(session, serving, "/v2/health/ready")
    for _ in range(3):
        (worker,) = serving.workers()
        os.kill(worker, signal.SIGKILL)
        # Nobody accepts now, but the socket is open: a new connection is answered once the next worker is there.
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as fresh:
            while True:
                try:
                    assert (await ask(fresh, serving, "double", 1))[0] == 200
                    break
                except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):  # accepted by the one that was killed
                    continue


async def test_what_is_under_way_is_answered_before_the_server_ends(
    start: Start, tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    serving = start("--repository", str(write_handlers(tmp_path / "models", "slow")))
    await until(session, serving, "/v2/health/ready")
    asked = [asyncio.create_task(ask(session, serving, "slow", index)) for index in range(3)]
    await asyncio.sleep(0.2)
    serving.process.send_signal(signal.SIGTERM)
    assert [status for status, _ in await asyncio.gather(*asked)] == [200, 200, 200]
    assert await asyncio.to_thread(serving.process.wait, 30) == 0


async def test_bodies_that_are_too_large_cut_or_wrong_are_refused(
    start: Start, tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    serving = start("--repository", str(write_handlers(tmp_path / "models", "double")), "--max-body", "1")
    await until(session, serving, "/v2/health/ready")
    address = f"{serving.address}/v2/models/double/infer"

    async def post(body: bytes, **headers: str) -> tuple[int, Any]:
        async with session.post(address, data=io.BytesIO(body), headers=headers) as answer:
            return answer.status, await answer.json()

    assert await post(b"x" * (2 << 20)) == (413, {"error": "the body is too large"})
    assert (await post(b"{"))[0] == 400
    assert (await post(json.dumps(request(1)).encode(), **{"Inference-Header-Content-Length": "99999"}))[0] == 400
    tensor = request(1)["inputs"][0]
    binary = {"binary_data_size": 4}
    for wrong, want in (
        ({"shape": [2, 2]}, "input 'x': shape [2, 2] has 4 elements, but 1 were sent"),
        ({"shape": [-1]}, "input 'x': shape [-1] is not possible"),
        ({"datatype": "FP31"}, "input 'x': unknown datatype 'FP31'"),
        ({"datatype": "INT8", "data": [300]}, "input 'x': data is not INT8: a number is out of range"),
        ({"data": ["one"]}, "input 'x': data is not FP32"),
        ({"parameters": binary}, "input 'x': binary_data_size is 4, but 0 bytes are left in the body"),
    ):
        status, said = await post(json.dumps({"inputs": [tensor | wrong]}).encode())
        assert status == 400
        assert said["error"].startswith(want)
    assert (await post(b'{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [NaN]}]}'))[0] == 400
    head = json.dumps({"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "parameters": binary}]}).encode()
    status, said = await post(head + b"\x00\x00\xc0\x7f", **{"Inference-Header-Content-Length": str(len(head))})
    assert (status, said["outputs"][0]["data"]) == (200, [None])

    async def gigabyte() -> AsyncIterator[bytes]:
        for _ in range(1024):
            yield bytes(1 << 20)

    with contextlib.suppress(aiohttp.ClientError):  # the server need not read all of it to refuse it
        async with session.post(address, data=gigabyte()) as answer:
            assert answer.status == 413
    assert serving.memory_bytes() < 512 << 20
    host, port = serving.address.removeprefix("http://").split(":")
    for cut in (b"POST /v2/models/double/infer HTTP/1.1\r\nContent-Length: 100\r\n\r\n{", b"\x00\xff" * 400, b"GET"):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(cut)
        await writer.drain()
        writer.close()
    async with session.get(f"{serving.address}/v2/nothing") as answer:
        assert (answer.status, await answer.json()) == (404, {"error": "there is no GET /v2/nothing"})
    assert (await ask(session, serving, "double", 3))[0] == 200


async def test_requests_are_counted_and_logged_over_all_workers(
    start: Start, tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    folder, log = write_handlers(tmp_path / "models", "double", "raises"), tmp_path / "log"
    serving = start("--repository", str(folder), "--workers", "2", "--log-to", str(log))
    for _ in range(20):  # each connection is some worker's, and one may be ready before the other
        async with aiohttp.ClientSession() as fresh:
            await until(fresh, serving, "/v2/health/ready")
    for _ in range(10):
        async with aiohttp.ClientSession() as fresh:
            await ask(fresh, serving, "double", 1)
            await ask(fresh, serving, "raises", 1)
    want = {
        'gangline_serve_requests_total{model="double",version="1",status="200"}': "10",
        'gangline_serve_requests_total{model="raises",version="1",status="500"}': "10",
        'gangline_serve_request_seconds_count{model="double",version="1"}': "10",
    }
    deadline = time.monotonic() + 60
    while True:  # what the other worker counted is half a second old
        async with session.get(f"{serving.address}/metrics") as answer:
            text = await answer.text()
        lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        logged = Counter(json.loads(line)["status"] for line in await asyncio.to_thread(log_lines, log))
        if {name: lines.get(name) for name in want} == want and logged == {200: 10, 500: 10}:
            return
        assert time.monotonic() < deadline, text


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param([], "no models: use --model NAME=DIR or --repository DIR", id="nothing"),
        pytest.param(["--model", "x"], "--model x: expected NAME=DIR", id="no directory"),
        pytest.param(["--repository", "/nowhere"], "/nowhere is not a directory", id="no repository"),
        pytest.param(["--workers", "0"], "--workers: 0 is not a whole number of 1 or more", id="no workers"),
    ],
)
def test_a_server_that_cannot_start_says_why(options: list[str], want: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "gangline.serve", *options], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert want in ran.stderr
