"""Requests per second of the model server beside a bare handler of the same HTTP library, and what batching brings.

    python bench/model_server.py [--seconds N] [--connections N]

A small ONNX model is asked for one row over kept-alive connections, one request at a time on each, by a client of this
file that does nothing else. Beside it an aiohttp handler that reads the same JSON, calls onnxruntime and answers the
same JSON, and MLServer, from PyPI in an environment of its own, with a runtime that does the same. In turns, three
rounds each, the best counts; microseconds of the servers' processors for each request, the least of the rounds, say
more than rates where the machine has other work. Batching is measured with a model whose call costs 5 ms whatever its
rows: rate with batches over the rate without. Client and server share the machine's cores.
"""

# ruff: noqa: E402  # the project is found first
import argparse
import asyncio
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

PROJECT = Path(__file__).parents[1]
sys.path.insert(0, str(PROJECT))

from tests.environments import environment_with
from tests.serve.conftest import LIBRARIES, SERVER

BODY = b'{"inputs":[{"name":"x","shape":[1,8],"datatype":"FP32","data":[1,2,3,4,5,6,7,8]}]}'
BARE = """
import asyncio, json, sys
import msgspec, numpy as np, onnxruntime
from aiohttp import web
session = onnxruntime.InferenceSession(sys.argv[1])
async def infer(request):
    asked = msgspec.json.decode(await request.read())
    tensor = asked["inputs"][0]
    (y,) = session.run(["y"], {"x": np.array(tensor["data"], np.float32).reshape(tensor["shape"])})
    output = {"name": "y", "datatype": "FP32", "shape": y.shape, "data": y.ravel().tolist()}
    body = msgspec.json.encode({"model_name": "onnx", "outputs": [output]})
    return web.Response(body=body, content_type="application/json")
async def main():
    app = web.Application()
    app.router.add_post("/v2/models/onnx/infer", infer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print("at http://127.0.0.1:%d" % runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
MLSERVER = ("mlserver==1.7.1", "onnxruntime==1.31.1")
MLSERVER_RUNTIME = """
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse
class Onnx(MLModel):
    async def load(self):
        self.session = onnxruntime.InferenceSession(self.settings.parameters.uri)
        return True
    async def predict(self, payload):
        (y,) = self.session.run(["y"], {"x": NumpyCodec.decode_input(payload.inputs[0])})
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", y)])
"""
COSTLY = """
import time
class Model:
    batched = True
    def load(self, folder): pass
    def predict(self, inputs):
        time.sleep(0.005)
        return {"y": inputs["x"]}
"""


async def one_connection(port: int, model: str, until: float, durations: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
    while (began := time.perf_counter()) < until:
        writer.write(head + BODY)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        length = re.search(rb"(?i)content-length: (\d+)", answer)
        assert length is not None
        await reader.readexactly(int(length[1]))
        durations.append(time.perf_counter() - began)
    writer.close()


async def load(port: int, model: str, seconds: float, connections: int) -> tuple[float, float, float]:
    """Requests per second, and the median and 99th percentile of their milliseconds."""
    durations: list[float] = []
    until = time.perf_counter() + seconds
    await asyncio.gather(*(one_connection(port, model, until, durations) for _ in range(connections)))
    ordered = sorted(durations)
    return len(ordered) / seconds, 1000 * ordered[len(ordered) // 2], 1000 * ordered[int(len(ordered) * 0.99)]


class Started:
    """A server process, until the end of the block."""

    def __init__(self, *command: str | Path, folder: Path, port: int = 0) -> None:
        self._log = folder / f"{time.monotonic_ns()}.log"
        self._port = port
        environment = os.environ | {"PYTHONPATH": f"{PROJECT / 'src'}:{folder}", "OMP_NUM_THREADS": "1"}
        with self._log.open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)

    def __enter__(self) -> int:
        for _ in range(600):
            found = re.search(r"at http://\S+?:(\d+)", self._log.read_text())
            port = self._port or (int(found[1]) if found else 0)
            if port and self._answers(port):
                return port
            threading.Event().wait(0.1)
        raise SystemExit(self._log.read_text())

    def cpu_seconds(self) -> float:
        """Processor time of it and its children so far."""
        pids, ticks = [self._process.pid], 0
        for pid in pids:
            pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            ticks += int(user) + int(system)
        return ticks / os.sysconf("SC_CLK_TCK")

    def _answers(self, port: int) -> bool:
        async def ask(model: str) -> bool:
            try:
                await one_connection(port, model, time.perf_counter() + 0.05, [])
            except (AssertionError, OSError, asyncio.IncompleteReadError):
                return False
            return True

        return asyncio.run(ask("onnx")) or asyncio.run(ask("costly"))

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def mlserver(folder: Path, model: Path, ports: list[int]) -> tuple[str | Path, ...]:
    """Write what MLServer reads, and return its command."""
    place = folder / "mlserver"
    place.mkdir()
    (place / "runtime.py").write_text(MLSERVER_RUNTIME)
    listening = dict(zip(("http_port", "grpc_port", "metrics_port"), ports, strict=True))
    (place / "settings.json").write_text(json.dumps({**listening, "host": "127.0.0.1", "parallel_workers": 0}))
    described = {"name": "onnx", "implementation": "runtime.Onnx", "parameters": {"uri": str(model)}}
    (place / "model-settings.json").write_text(json.dumps(described))
    return environment_with(*MLSERVER).parent / "mlserver", "start", place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-mlserver", action="store_true")
    options = parser.parse_args()
    python = environment_with(*SERVER, *LIBRARIES)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        subprocess.run([python, PROJECT / "tests/serve/models.py", folder / "made"], check=True)
        (folder / "gangline-0.dist-info").mkdir()
        (folder / "gangline-0.dist-info" / "METADATA").write_text("Name: gangline\nVersion: 0\n")
        onnx = folder / "made" / "onnx"
        serve = (python, "-m", "gangline.serve", "--port", "0")
        contestants: dict[str, tuple[str | Path, ...]] = {
            "bare handler": (python, "-c", BARE, onnx / "model.onnx"),
            "gangline.serve": (*serve, "--model", f"onnx={onnx}"),
            "gangline.serve, batches": (*serve, "--model", f"onnx={onnx}", "--batch", "32"),
            "gangline.serve, 2 workers": (*serve, "--model", f"onnx={onnx}", "--workers", "2"),
        }
        ports = free_ports(3)
        if not options.without_mlserver:
            contestants["MLServer"] = mlserver(folder, onnx / "model.onnx", ports)
        best = dict.fromkeys(contestants, (0.0, 0.0, 0.0))
        cost = dict.fromkeys(contestants, math.inf)
        for _ in range(options.rounds):
            for name, command in contestants.items():
                started = Started(*command, folder=folder, port=ports[0] if name == "MLServer" else 0)
                with started as port:
                    before = started.cpu_seconds()
                    found = asyncio.run(load(port, "onnx", options.seconds, options.connections))
                    used = started.cpu_seconds() - before
                    best[name] = max(best[name], found)
                    cost[name] = min(cost[name], used / (found[0] * options.seconds))
        print(f"small ONNX model, one row, {options.connections} connections, load {os.getloadavg()[0]:.1f}")
        for name, (rate, median, late) in best.items():
            ratio, cheaper = rate / best["bare handler"][0], cost["bare handler"] / cost[name]
            print(
                f"  {name:26} {rate:7.0f}/s  p50 {median:6.2f} ms  p99 {late:6.2f} ms  {ratio:5.2f} of the bare handler"
                f"  {1e6 * cost[name]:5.0f} us of processor ({cheaper:.2f})"
            )
        costly = folder / "costly"
        costly.mkdir()
        (costly / "handler.py").write_text(COSTLY)
        rates = {}
        for rows in (1, 32):
            with Started(*serve, "--model", f"costly={costly}", "--batch", str(rows), folder=folder) as port:
                rates[rows] = asyncio.run(load(port, "costly", options.seconds, options.connections))[0]
        more = f"{rates[1]:.0f}/s one by one, {rates[32]:.0f}/s in batches: {rates[32] / rates[1]:.1f} times"
        print(f"a call that costs 5 ms: {more}")


if __name__ == "__main__":
    main()
