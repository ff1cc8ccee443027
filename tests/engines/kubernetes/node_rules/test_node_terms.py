"""Selectors mean what they mean to kube-scheduler."""

from typing import Any

import msgspec
import pytest

from gangline.engines.kubernetes.node_rules.node_terms import LabelSelector, labels_to_term, node_matches
from gangline.kube.objects import NodeSelector
from tests.engines.kubernetes.foreign.builders import make_kube_node


@pytest.mark.parametrize(
    ("term", "want"),
    [
        pytest.param({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}, True, id="in"),
        pytest.param({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}, False, id="not in"),
        pytest.param(
            {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["hdd"]}]}, True, id="absent"
        ),
        pytest.param({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, True, id="exists"),
        pytest.param({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}, False, id="does not exist"),
        pytest.param({"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["7"]}]}, True, id="greater"),
        pytest.param({"matchExpressions": [{"key": "cores", "operator": "Lt", "values": ["8"]}]}, False, id="not less"),
        pytest.param({"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["1"]}]}, False, id="no number"),
        pytest.param({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}, True, id="name"),
        pytest.param({}, False, id="an empty term selects nothing"),
    ],
)
def test_a_term_selects_nodes(term: dict[str, Any], want: bool) -> None:
    node = make_kube_node("n", labels={"zone": "a", "cores": "8"})
    assert node_matches(msgspec.convert({"nodeSelectorTerms": [term]}, NodeSelector), node) is want


def test_one_term_of_several_is_enough_and_none_selects_nothing() -> None:
    node = make_kube_node(labels={"zone": "a"})
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("b", "a")]
    assert node_matches(msgspec.convert({"nodeSelectorTerms": terms}, NodeSelector), node)
    assert not node_matches(NodeSelector(), node)


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param({}, True, id="an empty selector selects everything"),
        pytest.param({"matchLabels": {"app": "db"}}, True, id="equal"),
        pytest.param({"matchLabels": {"app": "web"}}, False, id="different"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}, False, id="not in"),
    ],
)
def test_a_selector_selects_labels(selector: dict[str, Any], want: bool) -> None:
    term = labels_to_term(msgspec.convert(selector, LabelSelector))
    assert all(each.holds({"app": "db"}) for each in term) is want
