"""The second composition root: the real scheduler and controller on a virtual clock, traces in, report out.

Nothing here decides anything: it feeds arrivals to the same controller that drives real engines, and measures.
"""

from gangline.simulator.forecast import Forecast, Launch, State, Stop, forecast
from gangline.simulator.machines import parse_nodes
from gangline.simulator.plot import new_figure, plot_runs
from gangline.simulator.report import Summary, summarise, table
from gangline.simulator.rules import RULES
from gangline.simulator.run import Outcome, Setup, simulate
from gangline.simulator.whatif import Answer, Effect, Prospect, what_if
from gangline.simulator.workload import TraceFormat, Workload, read_workload

__all__ = [
    "RULES",
    "Answer",
    "Effect",
    "Forecast",
    "Launch",
    "Outcome",
    "Prospect",
    "Setup",
    "State",
    "Stop",
    "Summary",
    "TraceFormat",
    "Workload",
    "forecast",
    "new_figure",
    "parse_nodes",
    "plot_runs",
    "read_workload",
    "simulate",
    "summarise",
    "table",
    "what_if",
]
