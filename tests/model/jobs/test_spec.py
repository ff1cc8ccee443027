"""A spec refuses what cannot run, and knows who leads and when it has succeeded."""

from collections.abc import Callable

import pytest

from gangline.errors import InvalidInputError
from gangline.model import (
    Framework,
    JobSpec,
    Match,
    NodeRequirement,
    NodeRule,
    PlacementRule,
    Policy,
    Processes,
    Queue,
    QueueName,
    Resources,
    Restart,
    Retry,
    RoleName,
    Success,
    Toleration,
)
from gangline.testing.builders import make_role, make_spec


@pytest.mark.parametrize(
    ("make", "want_field"),
    [
        pytest.param(lambda: make_role(replicas=0), "roles.worker.replicas", id="no replicas"),
        pytest.param(lambda: make_role(command=()), "roles.worker.command", id="no command"),
        pytest.param(lambda: make_role(command="train.py"), "roles.worker.command", id="a text as command"),
        pytest.param(lambda: make_role(minimum=-1), "roles.worker.min", id="negative minimum"),
        pytest.param(lambda: make_role(replicas=2, minimum=3), "roles.worker.min", id="minimum above replicas"),
        pytest.param(lambda: make_role(replicas=2, maximum=1), "roles.worker.max", id="maximum below replicas"),
        pytest.param(lambda: make_role(port=0), "roles.worker.port", id="no port"),
        pytest.param(lambda: make_role("Worker"), "roles.Worker", id="a capital in a name"),
        pytest.param(lambda: make_spec("x" * 64), "metadata.name", id="a name too long"),
        pytest.param(lambda: JobSpec(name="a", roles=()), "spec.roles", id="no roles"),
        pytest.param(lambda: make_spec(roles=(make_role(), make_role())), "spec.roles", id="a role twice"),
        pytest.param(lambda: make_role(replicas=10**26), "roles.worker.replicas", id="more than any cluster holds"),
        pytest.param(lambda: make_role(maximum=10**26), "roles.worker.max", id="growing beyond any cluster"),
        pytest.param(
            lambda: make_role(replicas=1000, resources=Resources(cpu_millis=2**53)),
            "roles.worker.resources.cpu_millis",
            id="more than machines can count",
        ),
        pytest.param(lambda: Policy(deadline_seconds=1e18), "policy.deadline", id="a deadline beyond the calendar"),
        pytest.param(lambda: Policy(ttl_seconds=1e18), "policy.ttl", id="kept beyond the calendar"),
        pytest.param(lambda: Policy(backoff_limit_seconds=1e18), "policy.backoff_limit", id="a pause beyond it"),
        pytest.param(lambda: Policy(backoff_factor=0), "policy.backoff_factor", id="a factor of zero"),
        pytest.param(lambda: Policy(backoff_factor=1001), "policy.backoff_factor", id="a factor that is too large"),
        pytest.param(lambda: Policy(retry_for_seconds=-1), "policy.retry_for", id="retries before the first start"),
        pytest.param(lambda: Policy(max_attempts=0), "policy.max_attempts", id="no attempts"),
        pytest.param(lambda: Policy(deadline_seconds=-1), "policy.deadline", id="a negative deadline"),
        pytest.param(lambda: Policy(grace_seconds=float("inf")), "policy.grace", id="endless grace"),
        pytest.param(lambda: Policy(ttl_seconds=float("nan")), "policy.ttl", id="no number at all"),
        pytest.param(lambda: make_spec(processes=2), "spec.processes", id="processes without a launcher"),
        pytest.param(
            lambda: make_spec(framework=Framework.MPI, processes=0), "spec.processes", id="no processes at all"
        ),
        pytest.param(
            lambda: make_spec(framework=Framework.MPI, processes=Processes.AUTO), "spec.processes", id="mpi counts none"
        ),
        pytest.param(lambda: NodeRule(node_affinity=((),)), "node_affinity", id="a term of nothing"),
        pytest.param(lambda: NodeRequirement(key="a"), "node_affinity.values", id="in no list"),
        pytest.param(
            lambda: NodeRequirement(key="a", operator=Match.ABOVE, values=("x",)), "node_affinity.values", id="above x"
        ),
        pytest.param(
            lambda: NodeRequirement(key="a", operator=Match.EXISTS, values=("x",)), "node_affinity.values", id="is x"
        ),
        pytest.param(lambda: Queue(name=QueueName("q"), weight=0), "weight", id="a queue without weight"),
    ],
)
def test_what_cannot_run_is_refused_by_field(make: Callable[[], object], want_field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        make()
    assert caught.value.field == want_field


@pytest.mark.parametrize(
    ("roles", "want_lead", "want_success"),
    [
        pytest.param(("ps", "worker", "chief"), "chief", Success.LEAD, id="a chief leads"),
        pytest.param(("worker", "launcher"), "launcher", Success.LEAD, id="a launcher leads"),
        pytest.param(("ps", "worker"), "worker", Success.ALL, id="workers among themselves"),
        pytest.param(("ps", "trainer"), "trainer", Success.ALL, id="a role of one's own"),
        pytest.param(("ps",), "ps", Success.ALL, id="nothing but servers"),
    ],
)
def test_who_leads_and_when_it_has_succeeded(roles: tuple[str, ...], want_lead: str, want_success: Success) -> None:
    spec = make_spec(roles=tuple(make_role(name) for name in roles))
    assert spec.lead_role == want_lead
    assert spec.success is want_success


def test_the_policy_overrules_what_success_means() -> None:
    spec = make_spec(roles=(make_role("chief"),), policy=Policy(success=Success.ALL))
    assert spec.success is Success.ALL


def test_a_role_restarts_by_its_own_rule_before_the_jobs() -> None:
    spec = make_spec(roles=(make_role("chief"), make_role("ps", restart=Restart.REPLICA)))
    assert [spec.restart_of(RoleName(name)) for name in ("chief", "ps")] == [Restart.GANG, Restart.REPLICA]


@pytest.mark.parametrize(
    ("restart", "retry", "want"),
    [
        pytest.param(None, Retry.ALWAYS, True, id="its own word"),
        pytest.param(Restart.REPLICA, Retry.ALWAYS, True, id="alone"),
        pytest.param(Restart.NEVER, Retry.ALWAYS, False, id="never means never"),
        pytest.param(None, None, False, id="as everybody"),
    ],
)
def test_which_replicas_are_started_again_however_they_end(
    restart: Restart | None, retry: Retry | None, want: bool
) -> None:
    spec = make_spec(roles=(make_role(restart=restart, retry=retry),))
    assert spec.is_endless(RoleName("worker")) is want


def test_a_roles_own_placement_narrows_the_jobs() -> None:
    zone, big = (NodeRequirement(key=key, operator=Match.EXISTS) for key in ("zone", "big"))
    of_job = PlacementRule(
        within="rack",
        gpu_types=("a100",),
        node_selector={"pool": "any", "disk": "ssd"},
        node_affinity=((zone,), (big,)),
        tolerations=(Toleration(key="a"),),
    )
    own = NodeRule(
        gpu_types=("h200",),
        node_selector={"pool": "gpu"},
        node_affinity=((big,),),
        tolerations=(Toleration(key="b"),),
    )
    narrow, wide = make_role("worker", placement=own), make_role("ps")
    spec = make_spec(roles=(narrow, wide), placement=of_job)
    assert spec.nodes_of(wide) is of_job
    assert spec.nodes_of(narrow) == NodeRule(
        gpu_types=("h200",),
        node_selector={"pool": "gpu", "disk": "ssd"},
        node_affinity=((zone, big), (big, big)),
        tolerations=(Toleration(key="a"), Toleration(key="b")),
    )
