"""Which pods make a gang."""

from collections.abc import Sequence

import pytest

from gangline.engines.kubernetes.foreign.gathering import Incomplete, gather
from gangline.engines.kubernetes.foreign.groups import VOLCANO_TASK, Group, GroupKind, GroupName
from gangline.engines.kubernetes.watch.watched_pods import WatchedPod
from gangline.kube import OwnerReference
from tests.engines.kubernetes.foreign.builders import NAMESPACE, make_pod

OWNER = OwnerReference(api_version="v1", kind="PodGroup", name="team", uid="uid-team")
NAME = GroupName(kind=GroupKind.VOLCANO, namespace=NAMESPACE, name="team")


def group(least: int, **least_of_task: int) -> Group:
    return Group(name=NAME, owner=OWNER, least=least, least_of_task=least_of_task)


def pods(text: str) -> list[WatchedPod]:
    """One pod per word, oldest first: a name, ``=node`` if it is bound, ``!`` if it failed, ``?`` if it is gated."""
    made = []
    for age, word in enumerate(text.split()):
        name, _, node = word.rstrip("!?").partition("=")
        gates = [{"name": "example.com/gate"}] if word.endswith("?") else []
        phase = "Failed" if word.endswith("!") else "Running" if node else "Pending"
        made.append(make_pod(name, age=age, node=node, phase=phase, schedulingGates=gates))
    return made


def names(found: list[tuple[WatchedPod, ...]] | Incomplete) -> list[str] | str:
    if isinstance(found, Incomplete):
        return found.message
    return [" ".join(pod.metadata.name for pod in gang) for gang in found]


@pytest.mark.parametrize(
    ("least", "text", "recorded", "want"),
    [
        pytest.param(3, "a b c", "", ["a b c"], id="exactly enough are one gang"),
        pytest.param(3, "a b", "", "2 of the 3 pods that PodGroup 'team' needs exist", id="too few wait"),
        pytest.param(
            3, "a b c?", "", "2 of the 3 pods that PodGroup 'team' needs exist", id="a gated one is not there"
        ),
        pytest.param(2, "a b c d", "", ["a b"], id="the oldest make the gang and the rest wait for it"),
        pytest.param(2, "a b c d", "a b", [], id="nothing is added while the gang waits"),
        pytest.param(2, "a=n b=n c d", "a b", ["c", "d"], id="beyond the minimum each is a gang of its own"),
        pytest.param(3, "a=n b=n c", "a b", ["c"], id="one made anew fills the group up"),
        pytest.param(3, "a=n b=n! c=n! d", "a b c", "2 of the 3 pods that PodGroup 'team' needs exist", id="failed"),
        pytest.param(3, "a=n b=n! c=n! d e", "a b c", ["d e"], id="what is missing starts together"),
    ],
)
def test_a_group_starts_whole(least: int, text: str, recorded: str, want: Sequence[str] | str) -> None:
    known = {f"uid-{name}" for name in recorded.split()}
    assert names(gather(group(least), pods(text), known)) == want


def test_pods_without_a_group_are_gangs_of_one() -> None:
    assert names(gather(None, pods("a b=n c? d"), {"uid-d"})) == ["a"]


def test_a_pod_that_is_being_deleted_is_no_member() -> None:
    leaving = make_pod("a", deletionTimestamp="2026-01-01T00:00:00Z")
    assert names(gather(None, [leaving], ())) == []


def test_every_task_has_its_own_minimum() -> None:
    tasks = {"a": "worker", "b": "worker", "c": "worker", "d": "ps"}
    made = [make_pod(name, age=age, annotations={VOLCANO_TASK: task}) for age, (name, task) in enumerate(tasks.items())]
    assert names(gather(group(3, ps=1), made, ())) == ["a b d"]
    assert names(gather(group(2, ps=2), made, ())) == "1 of the 2 'ps' pods that PodGroup 'team' needs exist"
