"""For how long a place counts as taken that a kubelet refused."""

from gangline.engines.kubernetes.orders.refused_places import WHOLE_SECONDS, RefusedPlaces
from gangline.model import Resources

ONE = Resources(cpu_millis=1000)


def refuse(places: RefusedPlaces, times: int, *, passing: bool = True) -> list[float]:
    """Refuse the next pod whenever the place counts as free again."""
    now, waits = 0.0, []
    for _ in range(times):
        waits.append(places.note("n", ONE, now=now, passing=passing))
        now += waits[-1]
    return waits


def test_what_may_only_be_late_counts_for_a_moment_and_at_last_for_the_whole_time() -> None:
    assert refuse(RefusedPlaces(), 9) == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0, WHOLE_SECONDS, WHOLE_SECONDS]


def test_what_will_not_pass_counts_for_the_whole_time() -> None:
    assert refuse(RefusedPlaces(), 2, passing=False) == [WHOLE_SECONDS] * 2


def test_a_place_is_counted_until_its_time_is_over() -> None:
    places = RefusedPlaces()
    places.note("n", ONE, now=10.0, passing=True)
    assert [places.at(10.9), places.at(11.0)] == [{"n": ONE}, {}]


def test_a_pod_that_is_let_in_makes_the_next_refusal_the_first() -> None:
    places = RefusedPlaces()
    places.note("n", ONE, now=0.0, passing=False)
    places.admitted("n")
    assert places.at(1.0) == {"n": ONE}, "what was refused before stays so"
    assert places.note("n", ONE, now=2.0, passing=True) == 1.0


def test_refusals_are_forgotten_when_none_has_come_for_long() -> None:
    places = RefusedPlaces()
    ended = sum(refuse(places, 5))
    assert places.note("n", ONE, now=ended + WHOLE_SECONDS - 1, passing=True) == 3.0
    assert places.note("n", ONE, now=ended + 1000, passing=True) == 1.0
