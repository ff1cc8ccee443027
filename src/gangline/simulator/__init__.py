"""The second composition root: the real scheduler and controller on a virtual clock, traces in, report out.

Nothing here decides anything: it feeds arrivals to the same controller that drives real engines, and measures.
"""
