"""The second composition root: the real scheduler and controller on a virtual clock, traces in, report out.

Nothing here decides anything: it feeds arrivals to the same controller that drives real engines, and measures.
"""

from gangline.simulator.report import Summary, plot_waits, summarise, table
from gangline.simulator.run import Outcome, Setup, compare, simulate
from gangline.simulator.whatif import Answer, parse_nodes, what_if

__all__ = [
    "Answer",
    "Outcome",
    "Setup",
    "Summary",
    "compare",
    "parse_nodes",
    "plot_waits",
    "simulate",
    "summarise",
    "table",
    "what_if",
]
