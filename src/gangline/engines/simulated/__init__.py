"""No machines at all: gangs run in virtual time, as long as a workload model says."""

from gangline.engines.simulated.engine import SimulatedEngine
from gangline.engines.simulated.timeline import Timeline
from gangline.engines.simulated.work import FixedWork, Measuring, Work

__all__ = ["FixedWork", "Measuring", "SimulatedEngine", "Timeline", "Work"]
