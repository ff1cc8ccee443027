"""A service with something to see on every page of the dashboard, for its browser tests and its screenshots."""

import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from gangline.errors import NotFoundError
from gangline.kinds import kind_named
from gangline.sdk import Client
from gangline.sdk.loading import parse, parse_records

TRAINING = """\
import math, random, sys, time
from gangline import runtime
steps, pause, bend = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
noise = random.Random(steps)
print("reading 60,000 examples", flush=True)
for step in range(steps):
    loss = 2.3 * math.exp(-bend * step / 60) + 0.04 * noise.random()
    runtime.report(loss=loss, accuracy=1 - loss / 2.5, step=step)
    print(f"step {step}: loss {loss:.4f}", flush=True)
    if runtime.stopping():
        break
    time.sleep(pause)
print("done", flush=True)
"""
HOSTILE = "<img src=x onerror=alert(1)> 🎉"
LONGEST = "a" * 63

JOB = """\
apiVersion: gangline.dev/v1
kind: Job
metadata: {{name: {name}, labels: {{team: vision}}}}
spec:
  command: [{python}, {script}, "{steps}", "{pause}", "{bend}"]
  resources: {{cpu: {cpu}, memory: 32Mi}}
  roles:
    worker: {{replicas: 2{range}}}
"""
OTHERS = {
    "queue": """\
apiVersion: gangline.dev/v1
kind: Queue
metadata: {name: research}
spec: {weight: 3, guarantee: {cpu: 1}}
""",
    "sweep": """\
apiVersion: gangline.dev/v1
kind: Sweep
metadata: {name: rates}
spec:
  parallelism: 4
  objective: {metric: loss, goal: minimize}
  parameters:
    rate: [0.3, 0.1, 0.03, 0.01, 0.003]
    width: [64, 128]
  template:
    spec:
      command: [PYTHON, -c, "from gangline import runtime; runtime.report(loss=abs($(rate) - 0.03) * 1000 / $(width))"]
      resources: {cpu: 50m, memory: 32Mi}
""",
    "pipeline": """\
apiVersion: gangline.dev/v1
kind: Pipeline
metadata: {name: nightly}
spec:
  steps:
    fetch:
      job: {command: [sh, -c, 'echo 42 > "$1"', sh, $(outputs.rows)], resources: {cpu: 50m}}
      outputs: {rows: integer}
    train:
      job: {command: [echo, $(fetch.rows)], resources: {cpu: 50m}}
    check:
      job: {command: [echo, $(fetch.rows)], resources: {cpu: 50m}}
""",
    "store": """\
apiVersion: gangline.dev/v1
kind: Store
metadata: {name: pond}
spec: {address: s3://pond, endpoint: https://s3.example.org, region: eu-1}
""",
    "volume": """\
apiVersion: gangline.dev/v1
kind: Volume
metadata: {name: datasets}
spec: {size: 10Gi}
""",
    "service": """\
apiVersion: gangline.dev/v1
kind: Service
metadata: {name: echo}
spec:
  job:
    command: [PYTHON, -m, http.server, $(PORT), --bind, 127.0.0.1]
    resources: {cpu: 50m, memory: 64Mi}
""",
    "workspace": """\
apiVersion: gangline.dev/v1
kind: Workspace
metadata: {name: sketches}
spec:
  tool: program
  command: [PYTHON, -m, http.server, $(PORT), --bind, $(HOST)]
  resources: {cpu: 50m, memory: 64Mi}
  idle: 4h
""",
}


class DemoSite:
    """A running service of its own home, with both doors: the private pages, and those of a team."""

    def __init__(self, folder: Path, sockets: Path) -> None:
        home = {"GANGLINE_HOME": folder / "data", "GANGLINE_RUNTIME_DIRECTORY": sockets, "HOME": folder}
        users = {"GANGLINE_SYSTEM_USERS": "none"}  # the folder is open to nobody else
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GANGLINE_", "XDG_"))}
        self.folder = folder
        self._script = folder / "train.py"
        self._script.write_text(TRAINING)  # once: a replica that has just started would read half of a rewritten file
        command = [sys.executable, "-m", "gangline", "server", "run", "--listen", "127.0.0.1:0", "--plain-http"]
        environment = kept | {name: str(place) for name, place in home.items()} | users
        self._server = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        assert self._server.stderr is not None
        self.team = next(found[1] for line in self._server.stderr if (found := re.search(r"a team on (\S+)", line)))
        # A service that has much to say would wait for ever for somebody to read it.
        self._reading = threading.Thread(target=self._server.stderr.read, daemon=True)
        self._reading.start()
        self.client = Client(f"unix:{sockets}/service.sock")
        self.base = self.link().partition("/dashboard/")[0]

    def link(self) -> str:
        """A one-time link to the private pages."""
        return self.client.team.dashboard()

    def at(self, *parts: str) -> str:
        """The address of a private page."""
        return "/".join((self.base, "dashboard", "tenants", "default", *parts))

    def submit(
        self,
        name: str,
        *,
        steps: int = 40,
        pause: float = 0.0,
        bend: float = 1.0,
        cpu: str = "50m",
        elastic: bool = True,
    ) -> None:
        """Submit a job that trains; the scheduler may grow and shrink one that is elastic."""
        extent = ", min: 1, max: 4" if elastic else ""
        words = {"python": sys.executable, "script": self._script, "cpu": cpu, "range": extent}
        text = JOB.format(name=name, steps=steps, pause=pause, bend=bend, **words)
        self.client.submit(parse(text, file=None, directory=self.folder)[0].spec)

    def fill(self) -> None:
        """Put something onto every page, and wait until all that ends has ended."""
        for name, text in OTHERS.items():
            kind = kind_named(name)
            (spec,) = parse_records(kind, text.replace("PYTHON", sys.executable), file=None, directory=self.folder)
            self.client.records(kind).create(spec)
        self.submit("mnist-small", bend=0.6)
        self.submit("mnist-large", bend=1.4)
        self.submit("mnist-live", steps=100_000, pause=0.5)
        self.submit("far-too-large", cpu="500")
        self.submit(LONGEST, steps=1)
        hostile = JOB.replace("team: vision", f"team: '{HOSTILE}'")
        words = {"script": "-c", "steps": f"print('{HOSTILE}')", "pause": "x", "bend": "y", "cpu": "50m", "range": ""}
        text = hostile.format(name="hostile", python=sys.executable, **words)
        self.client.submit(parse(text, file=None, directory=self.folder)[0].spec)
        weights = self.folder / "weights"
        weights.mkdir()
        (weights / "weights.bin").write_bytes(b"0" * 4096)
        self.client.models.register("mnist", weights)
        for name in ("mnist-small", "mnist-large", LONGEST, "hostile"):
            self.client.wait(name)
        self.client.sweeps.wait("rates")
        self.client.workspaces.wait_ready("sketches")
        self.client.records(kind_named("pipeline")).wait("nightly")

    def stop(self) -> None:
        """Delete everything and end the service."""
        self.client.services.delete("echo")
        for workspace in self.client.workspaces.list():
            self.client.workspaces.delete(workspace.name)
        for job in self.client.list(limit=None):
            with suppress(NotFoundError):  # one of the service's, which goes with it
                self.client.delete(job.name)
        self._server.terminate()
        self._server.wait(timeout=300)
        self._reading.join(timeout=60)
        if self._server.stderr is not None and not self._reading.is_alive():
            self._server.stderr.close()
