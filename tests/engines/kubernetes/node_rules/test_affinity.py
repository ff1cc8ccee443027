"""What pods say of nodes and of other pods, read as kube-scheduler reads it."""

from typing import Any

import pytest

from gangline.engines.kubernetes.node_rules.affinity import (
    PREFERRED,
    REQUIRED,
    PodRule,
    Surroundings,
    domain_of,
    level_of,
    read_rule,
    required_anti_affinity,
)
from gangline.model import (
    AffinityKind,
    AffinityTerm,
    Match,
    NodePreference,
    NodeRequirement,
    NodeRule,
    Prefer,
    Tenant,
    Toleration,
    TopologySpread,
)

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
DB = {"labelSelector": {"matchLabels": {"app": "db"}}}
IS_DB = NodeRequirement(key="app", values=("db",))


def tenants_of(namespaces: frozenset[str]) -> tuple[Tenant, ...] | None:
    return tuple(map(Tenant, sorted(namespaces)))


OWN = Surroundings(labels={"app": "db", "release": "7"}, namespace="team-a", tenants_of=tenants_of)


def read(*, nodes: bool = False, **spec: Any) -> PodRule:
    return read_rule(spec, OWN, nodes=nodes)


def pods(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {kind: {REQUIRED: list(terms)}}


def wanted(term: dict[str, Any]) -> AffinityTerm:
    """The company that one required term asks for."""
    rule = read(affinity=pods("podAffinity", {"topologyKey": HOST, **term}))
    assert rule.nodes.barred == ()
    (found,) = rule.pod_affinity
    return found.pod_affinity


@pytest.mark.parametrize(
    ("key", "want_level"),
    [(HOST, "node"), (ZONE, "zone"), ("gangline.dev/topology.row", "row"), ("example.com/pdu", "example.com/pdu")],
)
def test_every_topology_key_is_a_level(key: str, want_level: str) -> None:
    assert level_of(key) == want_level


@pytest.mark.parametrize(
    ("level", "want_domain"), [("node", "n0"), ("zone", "a"), ("example.com/pdu", "p"), ("rack", None)]
)
def test_a_node_is_in_a_domain_of_each_level_it_has(level: str, want_domain: str | None) -> None:
    assert domain_of(level, "n0", {ZONE: "a", "example.com/pdu": "p"}) == want_domain


def test_required_terms_are_read_both_ways() -> None:
    affinity = pods("podAffinity", {**DB, "topologyKey": ZONE}) | pods("podAntiAffinity", {**DB, "topologyKey": HOST})
    own = (Tenant("team-a"),)
    assert [each.pod_affinity for each in read(affinity=affinity).pod_affinity] == [
        AffinityTerm(kind=AffinityKind.AFFINITY, level="zone", labels=(IS_DB,), tenants=own),
        AffinityTerm(kind=AffinityKind.ANTI_AFFINITY, level="node", labels=(IS_DB,), tenants=own),
    ]


@pytest.mark.parametrize(
    ("term", "want_tenants"),
    [
        pytest.param({}, ("team-a",), id="its own namespace"),
        pytest.param({"namespaces": ["b", "a"]}, ("a", "b"), id="others by name"),
        pytest.param({"namespaceSelector": {}}, None, id="all"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "b"}}, "namespaces": ["a"]},
            ("a", "b"),
            id="others by the label that names them",
        ),
        pytest.param({"labelSelector": None}, (), id="nobody without a selector"),
    ],
)
def test_namespaces_are_those_that_kubernetes_means(term: dict[str, Any], want_tenants: object) -> None:
    assert wanted({**DB, **term}).tenants == want_tenants


def test_expressions_and_the_pods_own_labels_narrow_a_term() -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}
    keys = {"matchLabelKeys": ["release", "unknown"], "mismatchLabelKeys": ["app"]}
    assert wanted({"labelSelector": selector, **keys}).labels == (
        NodeRequirement(key="app", operator=Match.NOT_IN, values=("web",)),
        NodeRequirement(key="release", values=("7",)),
        NodeRequirement(key="app", operator=Match.NOT_IN, values=("db",)),
    )


def test_a_rule_looks_at_pods_of_its_namespaces_alone() -> None:
    (rule,) = read(affinity=pods("podAntiAffinity", {**DB, "topologyKey": HOST})).pod_affinity
    assert rule.means("team-a", {"app": "db"})
    assert not rule.means("team-b", {"app": "db"})
    assert not rule.means("team-a", {"app": "web"})


def test_preferred_nodes_are_weighed() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    preferred = [{"weight": 30, "preference": term}, {"weight": 1, "preference": {}}]
    rule = read(affinity={"nodeAffinity": {PREFERRED: preferred}})
    want = NodePreference(30, (NodeRequirement(key="disk", values=("ssd",)),))
    assert rule == PodRule(nodes=NodeRule(preferences=(want,)))


def test_what_a_plain_template_says_of_nodes_is_read_too() -> None:
    terms = [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}, {}]
    spec = {
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 5}],
        "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}},
    }
    want = NodeRule(
        node_selector={"pool": "a"},
        node_affinity=((NodeRequirement(key="disk", operator=Match.EXISTS),),),
        tolerations=(Toleration(key="gpu", operator="Exists"),),
    )
    assert read(nodes=True, **spec) == PodRule(nodes=want)
    assert read(**spec).empty


def test_spread_constraints_are_kept_or_preferred() -> None:
    hard = {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **DB}
    soft = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway", **DB}
    rule = read(topologySpreadConstraints=[hard, soft])
    assert rule == PodRule(
        nodes=NodeRule(topology_spread=(TopologySpread(level="zone", skew=2),)), prefer=Prefer.SPREAD
    )


@pytest.mark.parametrize(
    ("kind", "selector", "want"),
    [
        pytest.param("podAntiAffinity", DB, PodRule(prefer=Prefer.SPREAD), id="apart from its own kind"),
        pytest.param("podAffinity", DB, PodRule(within="zone"), id="near its own kind"),
        pytest.param("podAffinity", {"labelSelector": {"matchLabels": {"app": "web"}}}, PodRule(), id="near others"),
    ],
)
def test_preferences_about_its_own_kind_are_the_gangs(kind: str, selector: dict[str, Any], want: PodRule) -> None:
    term = {"weight": 1, "podAffinityTerm": {**selector, "topologyKey": ZONE}}
    assert read(affinity={kind: {PREFERRED: [term]}}) == want


@pytest.mark.parametrize(
    ("spec", "want_words"),
    [
        pytest.param(
            {"affinity": pods("podAffinity", {**DB, "namespaceSelector": {"matchLabels": {"team": "a"}}})},
            "namespaceSelector may ask for the label kubernetes.io/metadata.name alone",
            id="namespaces by other labels",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}]},
            "labelSelector of this one does not select it",
            id="evenness of others",
        ),
        pytest.param({"affinity": {"podAffinity": {REQUIRED: "all"}}}, "podAffinity", id="no affinity at all"),
        pytest.param(
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}}, "selects no node", id="no node"
        ),
    ],
)
def test_what_is_not_understood_keeps_a_pod_from_every_node_and_says_why(spec: dict[str, Any], want_words: str) -> None:
    (reason,) = read(nodes=True, **spec).nodes.barred
    assert want_words in reason


def test_pods_that_run_keep_others_away_as_far_as_they_are_understood() -> None:
    strange = {**DB, "topologyKey": HOST, "namespaceSelector": {"matchLabels": {"team": "a"}}}
    terms = {REQUIRED: [strange, {**DB, "topologyKey": HOST}]}
    (found,) = required_anti_affinity(terms, OWN)
    assert found.pod_affinity.level == "node"
