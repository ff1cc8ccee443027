"""The status of a PodGroup, in its maker's words."""

import pytest

from gangline.engines.kubernetes.foreign.group_status import differs, status_of
from gangline.engines.kubernetes.foreign.groups import Group, GroupKind, GroupName
from gangline.kube import OwnerReference
from gangline.model import Timestamp
from tests.engines.kubernetes.foreign.builders import NAMESPACE, make_pod

NOW = Timestamp(1_000_000.0)
OWNER = OwnerReference(api_version="v1", kind="PodGroup", name="team", uid="uid-team")


def group(kind: GroupKind) -> Group:
    return Group(name=GroupName(kind=kind, namespace=NAMESPACE, name="team"), owner=OWNER, least=2)


@pytest.mark.parametrize(
    ("phases", "recorded", "volcano", "plugins"),
    [
        pytest.param("Pending", False, "Pending", "Pending", id="incomplete"),
        pytest.param("Pending Pending", True, "Inqueue", "Scheduling", id="waits for machines"),
        pytest.param("=Pending =Pending", False, "Pending", "Scheduled", id="bound"),
        pytest.param("=Running =Pending", False, "Inqueue", "Scheduled", id="starting"),
        pytest.param("=Running =Running", False, "Running", "Running", id="running"),
        pytest.param("=Succeeded =Running", False, "Running", "Running", id="partly done"),
        pytest.param("=Succeeded =Succeeded", False, "Completed", "Finished", id="done"),
    ],
)
def test_the_phase_of_a_group_follows_from_its_pods(phases: str, recorded: bool, volcano: str, plugins: str) -> None:
    pods = [
        make_pod(f"pod-{number}", node="n" if word.startswith("=") else "", phase=word.lstrip("="))
        for number, word in enumerate(phases.split())
    ]
    assert status_of(group(GroupKind.VOLCANO), pods, recorded=recorded, now=NOW)["phase"] == volcano
    assert status_of(group(GroupKind.PLUGINS), pods, recorded=recorded, now=NOW)["phase"] == plugins


def test_counts_and_conditions_are_written_only_when_they_differ() -> None:
    pods = [make_pod("a", node="n", phase="Running"), make_pod("b", node="n", phase="Running")]
    status = status_of(group(GroupKind.VOLCANO), pods, recorded=False, now=NOW)
    assert status == {"phase": "Running", "running": 2, "succeeded": 0, "failed": 0}
    assert differs(status, {"phase": "Running"})
    assert not differs(status, {"phase": "Running", "running": 2, "conditions": [{"type": "Theirs"}]})
    native = status_of(group(GroupKind.NATIVE), pods, recorded=False, now=NOW)
    assert (native["conditions"][0]["status"], native["conditions"][0]["lastTransitionTime"]) == (
        "True", "1970-01-12T13:46:40Z",
    )  # fmt: skip
    assert not differs(native, {"conditions": [{"type": "PodGroupScheduled", "status": "True", "reason": "any"}]})
