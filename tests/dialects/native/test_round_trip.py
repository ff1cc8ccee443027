"""Whatever a job is, its canonical form reads back to it, from JSON and from YAML."""

import json
from dataclasses import replace

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.dialects.document import compact_json
from gangline.dialects.native import job_from_plain, job_to_plain, read_job
from gangline.dialects.native.placement import EFFECTS, OPERATORS
from gangline.model import (
    Clean,
    DataMove,
    Framework,
    JobSpec,
    Match,
    NanAction,
    NanRule,
    NodeRequirement,
    NodeRule,
    PlacementRule,
    Policy,
    Prefer,
    Processes,
    QueueName,
    Resources,
    Restart,
    Retry,
    RoleName,
    RoleSpec,
    StallAction,
    StallRule,
    Success,
    Tenant,
    Toleration,
    Within,
)

names = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Co", "Cn"]), max_size=12)
texts = words.filter(bool)
variables = st.dictionaries(st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), words, max_size=3)
seconds = st.one_of(st.integers(0, 10**7).map(float), st.floats(0, 1e6).map(lambda number: round(number, 6)))
resources = st.builds(
    Resources,
    cpu_millis=st.integers(0, 10**6),
    memory_mib=st.integers(0, 10**7),
    gpu_millis=st.integers(0, 16_000),
    extended=st.dictionaries(names.map(lambda name: f"example.com/{name}"), st.integers(0, 99), max_size=2),
)
policies = st.builds(
    Policy,
    max_attempts=st.integers(1, 100),
    max_replica_restarts=st.integers(0, 1000),
    restart=st.sampled_from(Restart),
    retry=st.sampled_from(Retry),
    success=st.sampled_from(Success),
    backoff_seconds=seconds,
    backoff_factor=st.floats(0.001, 1000).map(lambda number: round(number, 3)),
    backoff_limit_seconds=seconds,
    retry_for_seconds=st.none() | seconds,
    deadline_seconds=st.none() | seconds,
    ttl_seconds=st.none() | seconds,
    grace_seconds=seconds,
    expected_seconds=st.none() | seconds,
    preemptible=st.booleans(),
    clean=st.sampled_from(Clean),
    stalled=st.none()
    | st.builds(StallRule, after_seconds=st.integers(1, 10**6).map(float), action=st.sampled_from(StallAction)),
    nan=st.none() | st.builds(NanRule, action=st.sampled_from(NanAction), metric=st.none() | texts),
)
requirements = st.one_of(
    st.builds(
        NodeRequirement,
        key=names,
        operator=st.sampled_from((Match.IN, Match.NOT_IN)),
        values=st.lists(texts, min_size=1, max_size=2).map(tuple),
    ),
    st.builds(NodeRequirement, key=names, operator=st.sampled_from((Match.EXISTS, Match.DOES_NOT_EXIST))),
    st.builds(
        NodeRequirement,
        key=names,
        operator=st.sampled_from((Match.ABOVE, Match.BELOW)),
        values=st.integers(-9, 9).map(lambda number: (str(number),)),
    ),
)
conditions = {
    "gpu_types": st.lists(names, max_size=3).map(tuple),
    "node_selector": st.dictionaries(names, texts, max_size=2),
    "node_affinity": st.lists(st.lists(requirements, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple),
    "tolerations": st.lists(
        st.builds(
            Toleration,
            key=st.just("") | names,
            operator=st.sampled_from(OPERATORS),
            value=st.just("") | names,
            effect=st.sampled_from(("", *EFFECTS)),
        ),
        max_size=2,
    ).map(tuple),
}
levels = st.lists(st.builds(Within, names, st.booleans()), unique_by=lambda each: each.level, max_size=3).map(tuple)
placements = st.builds(
    PlacementRule,
    prefer=st.none() | st.sampled_from(Prefer),
    within=st.none() | names,
    within_required=st.booleans(),
    apart=st.none() | names,
    near=st.dictionaries(names, texts, max_size=2),
    away=st.dictionaries(names, texts, max_size=2),
    **conditions,
)
processes = {
    Framework.PYTORCH: st.none() | st.integers(1, 64) | st.sampled_from(Processes),
    Framework.MPI: st.none() | st.integers(1, 64),
}
moves = st.lists(st.builds(DataMove, texts, texts), max_size=2).map(tuple)


def _nested(rule: PlacementRule, more: tuple[Within, ...]) -> PlacementRule:
    """Only a gang that lies in one domain of some level can lie in one of another inside it."""
    return replace(rule, nested=tuple(each for each in more if each.level != rule.within) if rule.within else ())


@st.composite
def roles(draw: st.DrawFn, name: str) -> RoleSpec:
    groups = draw(st.sampled_from([1, 1, 2, 5]))
    replicas = groups * draw(st.integers(1, 25))
    placement = draw(st.none() | st.builds(NodeRule, **conditions))
    template = draw(st.none() | st.just(compact_json({"spec": {"containers": [{"name": "main"}]}})))
    return RoleSpec(
        name=RoleName(name),
        replicas=replicas,
        minimum=draw(st.none() | st.integers(0, replicas // groups).map(lambda each: each * groups)),
        maximum=draw(st.none() | st.integers(replicas, 200)) if groups == 1 else None,
        command=tuple(draw(st.lists(words, min_size=0 if template else 1, max_size=4))),
        image=draw(st.none() | texts),
        env=draw(variables),
        resources=draw(resources),
        restart=draw(st.none() | st.sampled_from(Restart)),
        retry=draw(st.none() | st.sampled_from(Retry)),
        port=draw(st.integers(1, 65535)),
        placement=placement,
        pod_template_json=template,
        groups=groups,
        within=() if placement == NodeRule() else draw(levels),
        priority=draw(st.none() | st.integers(0, 1000)),
        preemptible=draw(st.none() | st.booleans()),
    )


@st.composite
def jobs(draw: st.DrawFn) -> JobSpec:
    framework = draw(st.sampled_from(Framework))
    role_names = draw(st.lists(st.sampled_from(["chief", "ps", "worker", "launcher"]) | names, min_size=1, unique=True))
    return JobSpec(
        name=draw(names),
        tenant=Tenant(draw(names)),
        queue=QueueName(draw(names)),
        priority=draw(st.integers(0, 1000)),
        labels=draw(st.dictionaries(names, words, max_size=2)),
        framework=framework,
        processes=draw(processes.get(framework, st.none())),
        image=draw(st.none() | texts),
        code=draw(st.none() | texts),
        env=draw(variables),
        roles=tuple(draw(roles(name)) for name in role_names[:4]),
        inputs=draw(moves),
        outputs=draw(moves),
        policy=draw(policies),
        placement=draw(st.builds(_nested, placements, levels)),
        origin=draw(st.none() | texts),
        manifest_json=draw(st.none() | st.dictionaries(names, texts, max_size=2).map(compact_json)),
    )


@settings(max_examples=150, deadline=None)
@given(jobs())
def test_every_job_survives_being_written_and_read(job: JobSpec) -> None:
    plain = job_to_plain(job)
    assert job_from_plain(plain) == job
    assert job_from_plain(json.loads(json.dumps(plain))) == job
    assert read_job(yaml.safe_dump(plain, sort_keys=False)) == job


@settings(max_examples=50, deadline=None)
@given(jobs())
def test_a_list_of_roles_keeps_their_order_where_names_are_sorted(job: JobSpec) -> None:
    assert read_job(yaml.safe_dump(job_to_plain(job, roles_as_list=True), sort_keys=True)) == job
