"""The scheduler's reasons, for owners of pods."""

from gangline.engines.kubernetes.foreign.event_recorder import readable
from gangline.model import JobId
from gangline.model.explanation import Constraint, Excluded
from gangline.scheduling import Explanation


def test_what_the_scheduler_was_told_is_said_in_the_words_of_pods() -> None:
    why = Explanation(
        constraint=Constraint.RESOURCES,
        nodes=3,
        excluded=(Excluded("less than 1 gangline.dev/port.tcp-8080 free", 1),),
        role="pods",
        wanted=1,
        missing={"gangline.dev/port.tcp-8080": 1, "cpu_millis": 500},
    )
    assert readable(why) == (
        "Not enough is free: 0 of the 1 'pods' replicas that it needs fit now."
        " 1 of 3 nodes: port 8080/tcp is taken."
        " Missing: 0.5 CPU."
    )


def test_an_event_names_nobody_elses_job() -> None:
    why = Explanation(
        constraint=Constraint.RESERVATION, behind=JobId("secret"), holders=(JobId("secret"), JobId("other"))
    )
    assert readable(why) == "It would delay 'another job', which is first in line."
