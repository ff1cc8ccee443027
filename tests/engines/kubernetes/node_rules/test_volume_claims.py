"""Which claims a job uses, and what their volumes leave of the nodes in the model's words."""

import msgspec

from gangline.engines.kubernetes.node_rules.node_terms import selector_to_terms
from gangline.engines.kubernetes.node_rules.volume_claims import (
    VolumeConstraint,
    claims_by_role,
    claims_of_gang,
    confined,
)
from gangline.engines.kubernetes.node_rules.volumes import Sharing
from gangline.kube.objects import NodeSelector
from gangline.model import (
    DataMove,
    Gang,
    GangId,
    GangReplica,
    JobId,
    Match,
    NodeName,
    NodeRequirement,
    NodeRule,
    ReplicaId,
    RoleName,
)
from gangline.scheduling.demand.gang_affinity import Colocation, colocations_of
from gangline.testing.builders import make_role, make_spec
from tests.engines.kubernetes.foreign.builders import make_kube_node

TEMPLATE = '{"spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}, {"emptyDir": {}}]}}'
WORKER, SERVER = RoleName("worker"), RoleName("ps")
HERE = ((NodeRequirement(key="host", values=("node-0",)),),)
FAST = ((NodeRequirement(key="disk", operator=Match.EXISTS),),)


def test_claims_are_those_of_templates_of_the_label_and_of_moved_data() -> None:
    spec = make_spec(
        roles=(make_role("worker", pod_template_json=TEMPLATE), make_role("ps")),
        labels={"gangline.dev/volume": "home"},
        inputs=(DataMove(source="pvc://images/mnist", target="$DATA_DIR"),),
        outputs=(DataMove(source="$RESULT_DIR", target="pvc://results/$JOB_NAME"),),
    )
    shared = ("images", "results", "home")
    assert claims_by_role(spec) == {WORKER: (*shared, "data"), SERVER: shared}


def test_a_job_without_claims_has_no_roles_with_any() -> None:
    assert claims_by_role(make_spec(roles=(make_role("worker", pod_template_json='{"spec": {}}'),))) == {}


def test_claims_of_a_gang_come_with_the_nodes_of_its_replicas() -> None:
    spec = make_spec(
        roles=(make_role("worker", pod_template_json=TEMPLATE), make_role("ps")), labels={"gangline.dev/volume": "home"}
    )
    nodes = {name: make_kube_node(name) for name in ("node-0", "node-1")}
    places = ((WORKER, "node-0"), (SERVER, "node-1"))
    replicas = tuple(GangReplica(id=ReplicaId(role, 0), node=NodeName(node)) for role, node in places)
    found = claims_of_gang(Gang(id=GangId(JobId("job-1"), 1), spec=spec, replicas=replicas), replicas, nodes)
    assert [(claim, node.metadata.name) for claim, node in found] == [
        ("home", "node-0"), ("data", "node-0"), ("home", "node-1"),
    ]  # fmt: skip


def test_only_roles_with_volumes_are_confined_and_keep_their_own_rule() -> None:
    own = NodeRule(node_selector={"zone": "a"}, node_affinity=FAST)
    spec = make_spec(roles=(make_role("worker", placement=own), make_role("ps")))
    worker, server = confined(spec, JobId("job-1"), {WORKER: ["data"]}, {"data": VolumeConstraint(HERE)}).roles
    assert worker.placement == NodeRule(node_selector={"zone": "a"}, node_affinity=((*FAST[0], *HERE[0]),))
    assert server.placement is None


def test_only_roles_that_share_a_claim_of_one_node_lie_together() -> None:
    spec = make_spec(roles=(make_role("worker", replicas=2), make_role("chief"), make_role("ps", replicas=2)))
    by_role = {WORKER: ["data"], RoleName("chief"): ["data"], SERVER: ["free"]}
    constraints = {"data": VolumeConstraint(sharing=Sharing.ONE_NODE), "free": VolumeConstraint(HERE)}
    found = confined(spec, JobId("job-1"), by_role, constraints)
    assert colocations_of(found) == (Colocation("node", frozenset({WORKER, RoleName("chief")})),)


def test_a_volumes_nodes_are_read_in_full() -> None:
    terms = [
        {
            "matchExpressions": [{"key": "host", "operator": "In", "values": ["node-0"]}],
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-9"]}],
        },
        {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
        {},
    ]
    not_there = NodeRequirement(key="metadata.name", operator=Match.NOT_IN, values=("node-9",))
    assert selector_to_terms(msgspec.convert({"nodeSelectorTerms": terms}, NodeSelector)) == (
        (*HERE[0], not_there),
        FAST[0],
    )
