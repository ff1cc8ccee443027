"""Conditions on labels, and whom they mean."""

import pytest

from gangline.model import AffinityKind, AffinityTerm, Match, NodeRequirement, NodeRule, Taint, Tenant, Toleration


@pytest.mark.parametrize(
    ("operator", "values", "label", "want_holds"),
    [
        (Match.IN, ("a", "b"), "a", True),
        (Match.IN, ("a", "b"), "c", False),
        (Match.IN, ("a",), None, False),
        (Match.NOT_IN, ("a",), "b", True),
        (Match.NOT_IN, ("a",), "a", False),
        (Match.NOT_IN, ("a",), None, True),
        (Match.EXISTS, (), "a", True),
        (Match.EXISTS, (), None, False),
        (Match.DOES_NOT_EXIST, (), None, True),
        (Match.DOES_NOT_EXIST, (), "a", False),
        (Match.ABOVE, ("5",), "6", True),
        (Match.ABOVE, ("5",), "5", False),
        (Match.BELOW, ("5",), "-6", True),
        (Match.BELOW, ("5",), "four", False),
        (Match.BELOW, ("5",), None, False),
    ],
)
def test_a_requirement_holds_as_in_kubernetes(
    operator: Match, values: tuple[str, ...], label: str | None, *, want_holds: bool
) -> None:
    requirement = NodeRequirement(key="key", operator=operator, values=values)
    assert requirement.holds({} if label is None else {"key": label}) is want_holds


def test_company_means_labels_and_tenants_together() -> None:
    labels = (NodeRequirement(key="app", values=("db",)),)
    anybody = AffinityTerm(kind=AffinityKind.ANTI_AFFINITY, level="node", labels=labels)
    own = AffinityTerm(kind=AffinityKind.ANTI_AFFINITY, level="node", labels=labels, tenants=(Tenant("a"),))
    nobody = AffinityTerm(kind=AffinityKind.ANTI_AFFINITY, level="node", tenants=())
    assert anybody.means({"app": "db"}, Tenant("b"))
    assert not anybody.means({"app": "web"}, Tenant("b"))
    assert own.means({"app": "db"}, Tenant("a"))
    assert not own.means({"app": "db"}, Tenant("b"))
    assert not nobody.means({}, Tenant("a"))


def test_a_role_adds_to_the_company_and_the_reasons_of_its_job() -> None:
    one, other = (AffinityTerm(kind=AffinityKind.ANTI_AFFINITY, level=level) for level in ("node", "rack"))
    rule = NodeRule(pod_affinity=(one,), barred=("first",)).narrowed(
        NodeRule(pod_affinity=(other,), barred=("second",))
    )
    assert rule.pod_affinity == (one, other)
    assert rule.barred == ("first", "second")


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param(Toleration(key="gpu", value="yes"), True, id="the same value"),
        pytest.param(Toleration(key="gpu", value="no"), False, id="another value"),
        pytest.param(Toleration(key="gpu", operator="Exists"), True, id="whatever value"),
        pytest.param(Toleration(key="gpu", operator="Exists", effect="NoExecute"), False, id="another effect"),
        pytest.param(Toleration(key="gpu", value="yes", effect="NoSchedule"), True, id="the same effect"),
        pytest.param(Toleration(key="disk", operator="Exists"), False, id="another key"),
        pytest.param(Toleration(operator="Exists"), True, id="every key"),
        pytest.param(Toleration(), True, id="every key, as its pod will say it"),
        pytest.param(Toleration(effect="NoExecute"), False, id="every key of another effect"),
    ],
)
def test_a_toleration_matches_taints_as_kubernetes_does(toleration: Toleration, *, want: bool) -> None:
    assert toleration.tolerates(Taint("gpu", "yes", "NoSchedule")) is want
