"""The second composition root: the real scheduler and controller on a virtual clock, traces in, report out.

Nothing here decides anything: it feeds arrivals to the same controller that drives real engines, and measures.
"""

from gangline.forecast.machines import parse_nodes
from gangline.simulator.plot import new_figure, plot_runs
from gangline.simulator.report import Summary, completion_times, queue_lengths, summarise, table, waiting_times
from gangline.simulator.rules import RULES
from gangline.simulator.run import Outcome, Setup, simulate
from gangline.simulator.workload import TraceFormat, Workload, read_workload

__all__ = [
    "RULES",
    "Outcome",
    "Setup",
    "Summary",
    "TraceFormat",
    "Workload",
    "completion_times",
    "new_figure",
    "parse_nodes",
    "plot_runs",
    "queue_lengths",
    "read_workload",
    "simulate",
    "summarise",
    "table",
    "waiting_times",
]
