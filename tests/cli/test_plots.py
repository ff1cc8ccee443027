"""Curves: what is drawn in a terminal and into pictures."""

import builtins
from pathlib import Path

import pytest

from gangline.cli.output.drawings.curves import Against, Curve, curve_of
from gangline.cli.output.drawings.picture import write_picture
from gangline.cli.output.drawings.terminal_plot import Frame, draw, spark
from gangline.errors import InvalidInputError
from gangline.testing.store_suite import make_metric

RISING = Curve(label="rising", points=((0.0, 0.0), (1.0, 0.5), (2.0, 1.0)))


def test_a_curve_over_time_begins_where_it_is_told() -> None:
    metrics = [make_metric(value=value, at=10 + value, step=int(value)) for value in (3.0, 1.0, 2.0)]
    metrics.append(make_metric(value=float("nan"), at=0.0))
    assert curve_of("x", metrics).points == ((0.0, 1.0), (1.0, 2.0), (2.0, 3.0))
    assert curve_of("x", metrics, Against.TIME, 9.0).points[0] == (2.0, 1.0)
    assert curve_of("x", metrics, Against.STEP).points == ((1.0, 1.0), (2.0, 2.0), (3.0, 3.0))


def test_values_without_a_step_are_left_out_of_a_curve_over_steps() -> None:
    assert curve_of("x", [make_metric(step=None)], Against.STEP).points == ()


def test_a_rising_curve_goes_from_the_lower_left_to_the_upper_right() -> None:
    title, *lines = draw("loss", [RISING], width=40)
    canvas = [line.partition("┤")[2] for line in lines if "┤" in line]
    assert title == "loss"
    assert canvas[-1][0] != "\u2800"
    assert canvas[0][-1] != "\u2800"
    assert canvas[0][0] == canvas[-1][-1] == "\u2800"
    assert max(len(line) for line in lines) <= 40
    assert lines[0].startswith("  1 ┤")
    assert lines[-2].strip() == "0s to 2s"
    assert lines[-1].endswith("rising  1")


@pytest.mark.parametrize("points", [((0.0, 5.0),), ((1.0, 0.0), (2.0, 0.0))], ids=["one point", "a flat line"])
def test_a_curve_without_width_or_height_is_drawn_all_the_same(points: tuple[tuple[float, float], ...]) -> None:
    assert any(letter > "\u2800" for letter in "".join(draw("x", [Curve(label="flat", points=points)])))


def test_nothing_reported_is_said_and_not_drawn() -> None:
    assert draw("loss", [Curve(label="empty", points=())]) == ["loss: nothing was reported"]


def test_colours_are_there_only_when_wanted() -> None:
    assert "\x1b[" not in "".join(draw("x", [RISING, RISING]))
    assert "\x1b[36m" in "".join(draw("x", [RISING, RISING], coloured=True))


def test_a_small_curve_rises_from_its_first_value() -> None:
    assert spark(RISING, Frame(left=-2.0, right=2.0, bottom=0.0, top=1.0), width=4) == " ▁▅█"


def test_a_picture_is_a_png(tmp_path: Path) -> None:
    write_picture(tmp_path / "x.png", "loss", [RISING, Curve(label="empty", points=())], across="step")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be written"):
        write_picture(tmp_path / "no" / "x.png", "loss", [RISING], across="step")


def test_without_matplotlib_the_way_to_get_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: object) -> object:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InvalidInputError, match=r"gangline\[plot\]"):
        write_picture(tmp_path / "x.png", "loss", [RISING], across="step")
