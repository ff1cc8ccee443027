"""Runs side by side as a picture. Needs matplotlib, which comes with ``gangline[plot]``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gangline.errors import InvalidInputError
from gangline.simulator.report import completion_times, queue_lengths, waiting_times
from gangline.simulator.run import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def new_figure(*, width: float = 15.0, height: float = 4.5) -> "Figure":
    """An empty picture; call it before a long run, to hear at once that matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidInputError(
            "pictures need matplotlib", field="--plot", expected="it installed: pip install 'gangline[plot]'"
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def plot_runs(figure: "Figure", outcomes: Mapping[str, Outcome], path: Path) -> None:
    """Draw which share of the jobs waited, and took, at most how long, and how many waited when: one line per run."""
    waits, completions, queue = figure.subplots(1, 3)
    for name, outcome in outcomes.items():
        _distribution(waits, waiting_times(outcome), name)
        _distribution(completions, completion_times(outcome), name)
        lengths = queue_lengths(outcome)
        queue.step([at / 3600 for at, _ in lengths], [count for _, count in lengths], where="post", label=name)
    waits.set(xlabel="waiting time (s)", ylabel="share of jobs")
    completions.set(xlabel="completion time (s)", ylabel="share of jobs")
    queue.set(xlabel="time since the first submission (h)", ylabel="jobs that wait")
    queue.grid(visible=True, alpha=0.3)
    queue.legend(fontsize="small")
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"'{path}' cannot be written: {error}", field="--plot") from error


def _distribution(axes: "Axes", values: Sequence[float], label: str) -> None:
    shares = [(number + 1) / len(values) for number in range(len(values))]
    axes.step([max(value, 1.0) for value in values], shares, where="post", label=label)
    axes.set_xscale("log")
    axes.grid(visible=True, alpha=0.3)
