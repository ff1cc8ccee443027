"""The live state, run forward: when waiting jobs start, and what a new job or new machines would change."""

from collections.abc import Sequence
from dataclasses import replace

from gangline.forecast.course import UNDECLARED_SECONDS, State, forecast
from gangline.forecast.machines import parse_nodes
from gangline.forecast.whatif import what_if
from gangline.model import Job, Phase, Timestamp
from gangline.scheduling import Constraint
from tests.scheduling.builders import NOW, job, nodes, queue, role, running


def state(*jobs: Job, count: int = 1) -> State:
    return State(jobs=jobs, nodes=nodes(count), queues=(), now=NOW)


def starts(given: State, wanted: Sequence[str] | None = None) -> dict[str, float]:
    """Seconds from now until every job starts that does."""
    found = forecast(given, wanted=wanted)
    return {name: launch.at - NOW for name, launch in found.launches.items()}


def test_waiting_jobs_start_one_after_the_other() -> None:
    busy = running(job("x", role(8), expected_seconds=5000), {"n0": 8}, since=1000)
    first, second = job("a", role(8), age=9, expected_seconds=50), job("b", role(8), age=5)
    third = job("c", role(8))
    assert starts(state(busy, first, second, third)) == {"a": 4000, "b": 4050, "c": 4050 + UNDECLARED_SECONDS}


def test_a_forecast_goes_no_further_than_it_must() -> None:
    given = state(job("a", role(8), age=9, expected_seconds=50), job("b", role(8)))
    assert starts(given, ["a"]) == {"a": 0}


def test_a_gang_on_its_way_out_frees_its_machines_and_waits_again() -> None:
    leaving = running(job("x", role(8), age=2), {"n0": 8}, phase=Phase.HALTING)
    assert starts(state(leaving, job("a", role(8), expected_seconds=50))) == {"a": 0}
    found = starts(state(replace(leaving, requeue=True), job("a", role(8), age=100, expected_seconds=50)))
    assert found == {"a": 0, "x": 50}


def test_an_evicted_job_goes_on_with_what_it_had_left() -> None:
    low = running(job("low", role(8), priority=1, expected_seconds=1000), {"n0": 8}, since=400)
    given = state(low, job("high", role(8), expected_seconds=50), job("last", role(8), priority=0))
    assert starts(given) == {"high": 0, "low": 50, "last": 50 + 600}
    (stop,) = forecast(given).stops
    assert (stop.job_id, stop.beneficiary, stop.at, stop.whole) == ("low", "high", NOW, True)


def test_a_gang_too_young_to_be_evicted_is_evicted_when_it_is_older() -> None:
    low = running(job("low", role(8), priority=1), {"n0": 8}, since=20)
    assert starts(state(low, job("high", role(8)))) == {"high": 40, "low": 40 + UNDECLARED_SECONDS}


def test_a_back_off_is_waited_for() -> None:
    assert starts(state(job("a", retry_at=NOW + 30))) == {"a": 30}


def test_surplus_is_given_up_before_anybody_stops() -> None:
    wide = running(job("wide", role(8, minimum=2)), {"n0": 8})
    found = forecast(state(wide, job("a", role(4))))
    assert [(stop.job_id, stop.whole) for stop in found.stops] == [("wide", False)]
    assert found.launches["a"].at == NOW


def test_a_job_that_never_starts_ends_the_look_ahead() -> None:
    found = forecast(state(job("huge", role(9)), job("a")))
    assert set(found.launches) == {"a"}
    assert not found.exhausted
    assert found.explanations["huge"].constraint is Constraint.TOO_LARGE


def test_a_look_ahead_that_was_cut_short_says_so() -> None:
    waiting = [job(f"j{i}", role(8), age=100 - i) for i in range(9)]
    found = forecast(state(*waiting), cycles=4)
    assert found.exhausted
    assert len(found.launches) == 4


def test_what_if_says_where_and_when_a_job_would_start() -> None:
    busy = running(job("x", role(8), expected_seconds=5000), {"n0": 8}, since=1000)
    (prospect,) = what_if(state(busy), specs=[job("j", role(8)).spec]).prospects
    assert prospect.launch is not None
    assert prospect.launch.at == NOW + 4000
    assert set(prospect.launch.placement.values()) == {"n0"}
    assert prospect.explanation is not None
    assert prospect.explanation.constraint is Constraint.RESOURCES


def test_what_if_says_who_would_be_stopped() -> None:
    busy = running(job("x", role(8), priority=1), {"n0": 8})
    answer = what_if(state(busy), specs=[job("j", role(8)).spec])
    assert [each.stop.job_id for each in answer.stops] == ["x"]
    assert answer.prospects[0].launch is not None
    assert answer.prospects[0].launch.at == NOW


def test_what_if_says_who_would_start_later() -> None:
    busy = running(job("x", role(8), age=2000, expected_seconds=5000), {"n0": 8}, since=1000)
    answer = what_if(state(busy, job("a", role(8))), specs=[job("j", role(8), priority=90, expected_seconds=60).spec])
    (effect,) = answer.effects
    assert answer.stops[0].stop.job_id == "x"
    assert (effect.job.name, effect.starts_at, effect.would_start_at) == ("a", NOW + 4000, NOW + 4060)


def test_what_if_with_machines_not_yet_bought() -> None:
    busy = running(job("x", role(8), expected_seconds=5000), {"n0": 8}, since=1000)
    answer = what_if(state(busy, job("a", role(8))), more_nodes=parse_nodes("1x8xh200"))
    (effect,) = answer.effects
    assert (effect.starts_at, effect.would_start_at) == (NOW + 4000, Timestamp(NOW))
    assert answer.prospects == ()


def test_what_if_a_job_could_never_start() -> None:
    (prospect,) = what_if(state(), specs=[job("j", role(9)).spec]).prospects
    assert prospect.launch is None


def test_what_if_nodes_went_away() -> None:
    here = running(job("here", role(8), expected_seconds=1000), {"n0": 8}, since=400)
    there = running(job("there", role(8), expected_seconds=5000), {"n1": 8}, since=1000)
    answer = what_if(state(here, there, job("a", role(8)), count=2), fewer_nodes=["n0"])
    (each,) = answer.stops
    assert (each.stop.job_id, each.stop.beneficiary, each.stop.at) == ("here", None, NOW)
    (effect,) = answer.effects
    assert (effect.job.name, effect.starts_at, effect.would_start_at) == ("a", NOW + 600, NOW + 4000)
    assert effect.delay_seconds == 3400
    assert each.resumes_at == NOW + 4000 + UNDECLARED_SECONDS


def test_what_if_a_queue_were_guaranteed_more() -> None:
    queues = (queue("owner"), queue("guest"))
    busy = running(job("busy", role(8), queue="guest", age=5000, expected_seconds=9000), {"n0": 8}, since=1000)
    given = replace(state(busy, job("mine", role(8), queue="owner")), queues=queues)
    answer = what_if(given, queues=[queue("owner", guarantee={"gpus": 8})])
    (effect,) = answer.effects
    assert (effect.job.name, effect.starts_at, effect.would_start_at) == ("mine", NOW + 8000, NOW)
    assert effect.delay_seconds == -8000
    assert [(each.stop.job_id, each.resumes_at) for each in answer.stops] == [("busy", NOW + UNDECLARED_SECONDS)]


def test_what_if_a_waiting_job_were_more_important_or_smaller() -> None:
    busy = running(job("busy", role(8), expected_seconds=2000), {"n0": 4, "n1": 4}, since=1000)
    first, second = job("first", role(16), age=9, expected_seconds=50), job("second", role(16), expected_seconds=60)
    given = state(busy, first, second, count=2)
    urgent = what_if(given, jobs=[replace(second, spec=replace(second.spec, priority=60))])
    changes = {each.job.name: each.delay_seconds for each in urgent.effects}
    assert changes == {"second": -1050, "first": -940}
    assert [each.stop.job_id for each in urgent.stops] == ["busy"]
    small = what_if(given, jobs=[replace(second, spec=replace(second.spec, roles=(role(8),)))])
    (effect,) = small.effects
    assert (effect.job.name, effect.would_start_at) == ("second", NOW)
