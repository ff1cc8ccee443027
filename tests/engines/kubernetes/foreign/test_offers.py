"""What nodes have for pods of others."""

import msgspec

from gangline.engines.kubernetes.capacity import node_to_model
from gangline.engines.kubernetes.foreign.offers import PLENTY, Offers, Requirement
from gangline.kube.objects import Toleration
from gangline.model import Resources
from tests.engines.kubernetes.foreign.builders import make_kube_node

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def test_a_node_that_meets_a_requirement_has_plenty_of_it_and_one_of_every_single_thing() -> None:
    offers = Offers(lambda: None)
    offers.settle({"fits.a": Requirement(labels=(("zone", "a"),))}, ["port.tcp-80"])
    assert offers.of(make_kube_node(labels={"zone": "a"})) == {"fits.a": PLENTY, "port.tcp-80": 1}
    assert offers.of(make_kube_node(labels={"zone": "b"})) == {"port.tcp-80": 1}


def test_only_a_change_is_told() -> None:
    told: list[None] = []
    offers = Offers(lambda: told.append(None))
    offers.settle({}, ["a"])
    offers.settle({}, ["a"])
    assert len(told) == 1


def test_tolerations_count_only_where_the_job_does_not_have_them() -> None:
    node = make_kube_node(taints=[TAINT])
    assert Requirement().meets(node)
    assert not Requirement(tolerations=()).meets(node)
    assert Requirement(tolerations=(Toleration(key="gpu", operator="Exists"),)).meets(node)
    assert Requirement(tolerations=(Toleration(operator="Exists"),)).meets(node)
    assert not Requirement(tolerations=(Toleration(key="gpu", value="no"),)).meets(node)
    assert not Requirement(tolerations=(Toleration(key="gpu", value="yes", effect="NoExecute"),)).meets(node)
    soft = make_kube_node(taints=[{**TAINT, "effect": "PreferNoSchedule"}])
    assert Requirement(tolerations=()).meets(soft)


def test_the_scheduler_sees_offers_as_amounts_less_what_others_use() -> None:
    model = node_to_model(
        make_kube_node(), foreign=Resources(extended={"port": 1}), foreign_pods=1, offers={"port": 1, "fits": PLENTY}
    )
    assert model.capacity.extended == {"port": 1, "fits": PLENTY}
    assert msgspec.to_builtins(model.foreign.extended) == {"port": 1}
