"""Pictures of metrics and of what sweeps found, as PNG files. Needs matplotlib, which comes with ``gangline[plot]``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gangline.cli.output.drawings.curves import Curve, Scale
from gangline.errors import InvalidInputError
from gangline.model.kinds.sweep import SweepStatus
from gangline.sweeps import coordinates, slices

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@contextmanager
def _figure(path: Path, width: float = 8.0) -> "Iterator[Figure]":
    """Hand out an empty figure and write what was drawn."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidInputError(
            "pictures need matplotlib", field="--png", expected="it installed: pip install 'gangline[plot]'"
        ) from error
    figure = Figure(figsize=(width, 5), layout="constrained")
    yield figure
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}", field="--png") from error


def write_picture(path: Path, title: str, curves: Sequence[Curve], *, across: str, scale: Scale | None = None) -> None:
    """Draw curves into one picture; ``across`` names the horizontal axis."""
    with _figure(path) as figure:
        axes = figure.subplots()
        for curve in curves:
            if curve.points:
                axes.plot(*zip(*curve.points, strict=True), marker=".", label=f"{curve.label}: {curve.last:.4g}")
        axes.set(xlabel=across, ylabel=title, title=title)
        if scale is not None:
            axes.set(xscale="log" if scale.x else "linear", yscale="log" if scale.y else "linear")
        axes.grid(visible=True, alpha=0.3)
        if any(curve.points for curve in curves):
            axes.legend(fontsize="small")


def write_slices(path: Path, title: str, sweep: SweepStatus, parameter: str | None) -> None:
    """Draw the results by the values of each parameter, or of one."""
    found = [each for each in slices(sweep) if parameter in (None, each.parameter)]
    with _figure(path, width=max(4.0, 3.0 * len(found))) as figure:
        drawn: Any = figure.subplots(1, max(1, len(found)), sharey=True, squeeze=False)
        for axes, each in zip(drawn[0], found, strict=False):
            range_of = next(one.range for one in sweep.spec.parameters if one.name == each.parameter)
            values = [value if range_of is None else float(value) for _, value, _ in each.points]
            axes.scatter(values, [result for _, _, result in each.points], s=14)
            axes.set(xlabel=each.parameter)
            if range_of is not None and range_of.log:
                axes.set(xscale="log")
            axes.grid(visible=True, alpha=0.3)
        drawn[0][0].set(ylabel=title)


def write_coordinates(path: Path, title: str, sweep: SweepStatus) -> None:
    """Draw one line for each trial across the axes of the parameters, coloured by its result."""
    lines = coordinates(sweep)
    results = [line.result for line in lines]
    low, high = min(results, default=0.0), max(results, default=1.0)
    names = [each.name for each in sweep.spec.parameters]
    with _figure(path, width=max(6.0, 2.0 * len(names))) as figure:
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        axes = figure.subplots()
        colours: Any = ScalarMappable(Normalize(low, high), "viridis")
        for line in reversed(lines):  # the best is drawn last and lies on top
            places = [float("nan") if place is None else place for place in line.places]
            axes.plot(range(len(names)), places, color=colours.to_rgba(line.result), alpha=0.8)
        axes.set_xticks(range(len(names)), names)
        axes.set(ylabel="from the least value to the greatest", title=title)
        figure.colorbar(colours, ax=axes, label=title)


def write_bars(path: Path, title: str, shares: Sequence[tuple[str, float]]) -> None:
    """Draw a number for each name, the first on top."""
    with _figure(path) as figure:
        axes = figure.subplots()
        axes.barh([name for name, _ in reversed(shares)], [share for _, share in reversed(shares)])
        axes.set(xlabel=title, xlim=(0, 1))


def write_front(path: Path, sweep: SweepStatus) -> None:
    """Draw the first two objectives of every trial, and which trials no other beats."""
    across, up = sweep.spec.objectives[:2]
    both = [each for each in sweep.trials if across.metric in each.results and up.metric in each.results]
    with _figure(path) as figure:
        axes = figure.subplots()
        for label, trials in (
            ("beaten", [each for each in both if each.number not in sweep.front]),
            ("Pareto front", [each for each in both if each.number in sweep.front]),
        ):
            points = [(each.results[across.metric], each.results[up.metric]) for each in trials]
            axes.scatter(*zip(*points, strict=True), label=label) if points else None
        axes.set(xlabel=across.metric, ylabel=up.metric, title=sweep.name)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize="small")
