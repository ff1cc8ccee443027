"""How a sweep with a share gives way while others wait, and goes on when nobody does."""

from dataclasses import replace

import pytest

from gangline.lifecycle import new_job
from gangline.model import Phase, PhaseEntry, Resources
from gangline.model.kinds.queue import QueueLoad
from gangline.model.kinds.sweep import Assignment, Sweep
from gangline.sweeps import trial_to_job, trials_of
from gangline.sweeps.sharing import Sharing, demand, share
from gangline.testing.builders import START, make_sweep

RUN, REST, WAIT, LEAVE = Phase.PROCESSING, Phase.HALTED, Phase.QUEUED, Phase.HALTING


def sweep_with(*yielded: int) -> Sweep:
    made = make_sweep(begun=6, yielded=yielded)
    return replace(made, spec=replace(made.spec, share=0.5))


def shared(sweep: Sweep, phases: str, *, used: int = 0, waiting: int = 1) -> Sharing:
    """Share with trials in these phases; ``used`` is what others hold, in trials."""
    jobs = []
    for number, letter in enumerate(phases):
        phase = {"r": RUN, "h": REST, "q": WAIT, "l": LEAVE}[letter]
        job = new_job(sweep.job_id(number), trial_to_job(sweep.spec, Assignment(number=number, values={})), START)
        history = (*job.history, PhaseEntry(phase=phase, at=START, reason="Test"))
        jobs.append(replace(job, history=history, holding=phase in (RUN, LEAVE)))
    others = demand(sweep.spec.template) * used if used else Resources()
    return share(sweep, trials_of(sweep, jobs), QueueLoad(used=others, waiting=waiting), room=2)


@pytest.mark.parametrize(
    ("phases", "yielded", "used", "want"),
    [
        pytest.param("rrrrqq", (), 0, (2, 3, 4, 5), id="those beyond the share give way, and those that wait"),
        pytest.param("rrllhh", (2, 3, 4, 5), 0, (2, 3, 4, 5), id="while they leave, no more do"),
        pytest.param("rrrrhh", (2, 3, 4, 5), 0, (2, 3, 4, 5), id="those that have not heard of it yet still must"),
        pytest.param(
            "rrhhhh", (2, 3, 4, 5), 0, (2, 3, 4, 5), id="what was given up and not yet taken is no reason for more"
        ),
        pytest.param("rrhhhh", (2, 3, 4, 5), 2, (2, 3, 4, 5), id="as it should be"),
        pytest.param(
            "rrrhhh", (3, 4, 5), 1, (3, 4, 5), id="who holds more keeps it while others take what was given up"
        ),
        pytest.param("rrrr", (), 4, (), id="the share of eight is four"),
        pytest.param("rrr", (), 0, (1, 2), id="at least one stays"),
    ],
)
def test_a_sweep_holds_its_share_while_others_wait(
    phases: str, yielded: tuple[int, ...], used: int, want: tuple[int, ...]
) -> None:
    assert shared(sweep_with(*yielded), phases, used=used).yielded == want


def test_those_that_gave_way_go_on_when_nobody_waits() -> None:
    sweep = sweep_with(2, 3)
    found = shared(sweep, "rrhh", used=2, waiting=0)
    assert found.resume == (sweep.job_id(2), sweep.job_id(3))
    assert found.halt == ()


def test_who_gives_way_is_kept_before_anything_is_halted() -> None:
    first = sweep_with()
    assert shared(first, "rrrr").halt == ()
    noted = sweep_with(2, 3)
    assert shared(noted, "rrrr").halt == (noted.job_id(2), noted.job_id(3))
