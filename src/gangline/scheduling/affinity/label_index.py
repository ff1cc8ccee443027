"""Running replicas by label: which of them a rule selects, and whose rules select a given one.

A cluster may run tens of thousands of replicas, and nearly every rule names a label and its value. So both are filed
under such pairs, and only the few that share one are compared.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gangline.model import AffinityKind, AffinityTerm, JobId, Match, Tenant

_Pair = tuple[bool, str, str]
"""Whether it is a job's label or a replica's, its name and its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where replicas of one role of a job run, what they and the job are called, and their affinity rules."""

    job_id: JobId
    tenant: Tenant
    job_labels: Mapping[str, str]
    labels: Mapping[str, str]
    pod_affinity: tuple[AffinityTerm, ...] = ()
    rows: tuple[int, ...] = ()

    def is_meant(self, pod_affinity: AffinityTerm) -> bool:
        """Whether a rule means these replicas."""
        return pod_affinity.means(self.job_labels if pod_affinity.of_jobs else self.labels, self.tenant)


class LabelIndex:
    """The places of one cycle; it grows as gangs start."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._labelled: dict[_Pair, list[Place]] = defaultdict(list)
        self._repelled: dict[_Pair, list[tuple[AffinityTerm, Place]]] = defaultdict(list)
        self._repelled_loosely: list[tuple[AffinityTerm, Place]] = []

    def add(self, place: Place) -> None:
        """Take somebody in."""
        self._places.append(place)
        for pair in _pairs(place):
            self._labelled[pair].append(place)
        for pod_affinity in place.pod_affinity:
            if pod_affinity.kind is AffinityKind.ANTI_AFFINITY:
                anchor = _anchor(pod_affinity)
                for pair in anchor:
                    self._repelled[pair].append((pod_affinity, place))
                if not anchor:
                    self._repelled_loosely.append((pod_affinity, place))

    def meant_by(self, pod_affinity: AffinityTerm) -> Iterator[Place]:
        """Whom a rule means."""
        anchor = _anchor(pod_affinity)
        candidates = [place for pair in anchor for place in self._labelled[pair]] if anchor else self._places
        return (place for place in candidates if place.is_meant(pod_affinity))

    def repelling(self, place: Place) -> Iterator[tuple[AffinityTerm, Place]]:
        """Whose rules keep these replicas away, and the rules."""
        candidates = [entry for pair in _pairs(place) for entry in self._repelled.get(pair, ())]
        candidates += self._repelled_loosely
        return ((pod_affinity, other) for pod_affinity, other in candidates if place.is_meant(pod_affinity))


def _pairs(place: Place) -> Iterator[_Pair]:
    for name, value in place.job_labels.items():
        yield True, name, value
    for name, value in place.labels.items():
        yield False, name, value


def _anchor(pod_affinity: AffinityTerm) -> tuple[_Pair, ...]:
    """Labels of which everybody whom the rule means has one; none if it names no values."""
    for each in pod_affinity.labels:
        if each.operator is Match.IN:
            return tuple((pod_affinity.of_jobs, each.key, value) for value in each.values)
    return ()
