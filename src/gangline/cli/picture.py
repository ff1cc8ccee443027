"""Curves as a PNG file. Needs matplotlib, which comes with ``gangline[plot]``."""

from collections.abc import Sequence
from pathlib import Path

from gangline.cli.curves import Curve
from gangline.errors import InvalidInputError


def write_picture(path: Path, title: str, curves: Sequence[Curve], *, across: str) -> None:
    """Draw curves into one picture; ``across`` names the horizontal axis."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidInputError(
            "pictures need matplotlib", field="--png", expected="it installed: pip install 'gangline[plot]'"
        ) from error
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for curve in curves:
        if curve.points:
            axes.plot(*zip(*curve.points, strict=True), marker=".", label=f"{curve.label}: {curve.last:.4g}")
    axes.set(xlabel=across, ylabel=title, title=title)
    axes.grid(visible=True, alpha=0.3)
    if any(curve.points for curve in curves):
        axes.legend(fontsize="small")
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror}", field="--png") from error
