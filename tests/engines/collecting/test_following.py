"""Files of a program are read onwards while it writes them, and to their end when it has ended."""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

from gangline.engines.collecting.following import MetricCollector
from gangline.engines.metric_line import read_metric
from gangline.model import JobId, ReplicaId
from gangline.model.jobs.metric_source import MetricFormat, MetricSource
from gangline.model.kinds.experiment import COLLECTOR_VARIABLE
from gangline.testing.builders import FakeClock
from tests.engines.collecting.test_formats import scalar


def losses(path: Path) -> MetricSource:
    values = {"loss": "loss"}
    return MetricSource(path=str(path), format=MetricFormat.PATTERN, pattern=r"loss (?P<loss>\S+)", values=values)


def found(target: Path) -> list[float]:
    lines = target.read_text().splitlines() if target.exists() else []
    read = [read_metric(line, JobId("job-1"), ReplicaId.parse("worker-0")) for line in lines]
    return [metric.value for metric in read if metric is not None]


def test_a_line_without_an_end_waits_until_nothing_more_will_come(tmp_path: Path) -> None:
    log, target = tmp_path / "log", tmp_path / "metrics"
    collector = MetricCollector([losses(log)], target, FakeClock())
    log.write_text("loss 0.5\nloss 0.")
    collector.read()
    assert found(target) == [0.5]
    with log.open("a") as more:
        more.write("25")
    collector.read()
    assert found(target) == [0.5]
    collector.read(last=True)
    collector.read(last=True)
    assert found(target) == [0.5, 0.25]


def test_the_last_look_reads_all_there_is(tmp_path: Path) -> None:
    log, target = tmp_path / "log", tmp_path / "metrics"
    noise = "-" * 99 + "\n"
    log.write_text(noise * 30_000 + "loss 1\n" + noise * 30_000 + "loss 2\n")
    collector = MetricCollector([losses(log)], target, FakeClock())
    collector.read()
    assert found(target) == []
    collector.read(last=True)
    assert found(target) == [1.0, 2.0]


def test_numbers_that_are_not_finite_are_kept_as_not_a_number(tmp_path: Path) -> None:
    log, target = tmp_path / "log", tmp_path / "metrics"
    log.write_text("loss inf\nloss nan\n")
    MetricCollector([losses(log)], target, FakeClock()).read()
    assert [math.isnan(value) for value in found(target)] == [True, True]


def test_the_container_beside_a_program_prints_what_it_finds_and_looks_once_more_when_stopped(tmp_path: Path) -> None:
    log, events = tmp_path / "log", tmp_path / "tb"
    (events / "run").mkdir(parents=True)
    (events / "run" / "events.out.tfevents.1").write_bytes(scalar("accuracy", 0.75, 3))
    log.write_text("loss 0.5\n")
    sources = [
        {"path": str(log), "format": "pattern", "pattern": r"loss (?P<loss>\S+)", "values": {"loss": "loss"}},
        {"path": str(events), "format": "tensorboard"},
    ]
    command = [sys.executable, "-m", "gangline.engines.collecting.beside"]
    told = {**os.environ, COLLECTOR_VARIABLE: json.dumps({"kind": "Sources", "sources": sources})}
    with subprocess.Popen(command, env=told, stdout=subprocess.PIPE, text=True) as beside:
        assert beside.stdout is not None
        first = [json.loads(beside.stdout.readline()) for _ in range(2)]
        assert [(each["name"], each["value"]) for each in first] == [("loss", 0.5), ("run/accuracy", 0.75)]
        with log.open("a") as more:
            more.write("loss 0.25")
        beside.send_signal(signal.SIGTERM)
        rest, _ = beside.communicate(timeout=60)
    assert [json.loads(line)["value"] for line in rest.splitlines()] == [0.25]
    assert beside.returncode == 0
