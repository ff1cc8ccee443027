"""Reads the files that ``spec.metrics`` names in a container beside the program that writes them.

The numbers go to its own output, which the engine reads beside the program's. It looks until it is told to stop, and
once more then: the kubelet stops it after the program.
"""

import json
import os
import time
from pathlib import Path

import msgspec

from gangline.engines.collecting.following import MetricCollector
from gangline.model import Timestamp
from gangline.model.jobs.metric_source import MetricSource
from gangline.model.kinds.experiment import COLLECTOR_VARIABLE
from gangline.runtime.collecting import until_stopped

_LOOK_SECONDS = 0.5


class _WallClock:
    def now(self) -> Timestamp:
        return Timestamp(time.time())  # noqa: TID251  # in a pod nobody else has it


def main() -> None:
    """Begin with what the environment says."""
    order = json.loads(os.environ[COLLECTOR_VARIABLE])
    sources = msgspec.convert(order["sources"], list[MetricSource])
    collector = MetricCollector(sources, Path("/dev/stdout"), _WallClock())
    stopped = until_stopped()
    while not stopped.wait(_LOOK_SECONDS):
        collector.read()
    collector.read(last=True)


if __name__ == "__main__":
    main()
