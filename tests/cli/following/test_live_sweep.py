"""The live view of a sweep, drawn once."""

from rich.console import Console

from gangline.cli.following.live_sweep import LiveSweep
from gangline.model import JobId, Phase
from gangline.model.kinds.sweep import SweepState, SweepStatus, TrialStatus
from gangline.testing.builders import START, make_sweep


def drawn(state: SweepState) -> list[str]:
    trial = TrialStatus(
        number=0,
        values={"layers": "2", "rate": "0.1"},
        job="grid-0",
        job_id=JobId("s-0"),
        phase=Phase.PROCESSING,
        reason="AllReplicasStarted",
        created_at=START,
        result=0.5,
        results={"accuracy": 0.5},
    )
    sweep = make_sweep()
    status = SweepStatus(id=sweep.id, spec=sweep.spec, state=state, created_at=START, trials=(trial,), best=0)
    console = Console(width=200, color_system=None)
    with console.capture() as printed:
        console.print(LiveSweep(status, height=24))
    return [line.rstrip() for line in printed.get().splitlines()]


def test_how_the_sweep_stands_is_one_line_above_its_table_however_narrow_that_is() -> None:
    summary, headings, *rows = drawn(SweepState.RUNNING)
    assert summary == "grid is running (1 PROCESSING); best: accuracy 0.5 with layers=2 rate=0.1"
    assert headings.startswith("TRIAL")
    assert len(rows) == 1


def test_how_it_ended_is_left_to_the_line_that_is_printed_below() -> None:
    assert drawn(SweepState.FINISHED)[0].startswith("TRIAL")
