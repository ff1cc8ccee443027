"""How a pod is tied to its node."""

from gangline.engines.kubernetes.manifests.device_claims import tie_to_node

CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
PIN = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_a_pod_without_devices_is_bound_when_it_is_made() -> None:
    assert tie_to_node({}, "node-1") == {"nodeName": "node-1"}


def test_a_pod_with_devices_is_pinned_and_left_to_kube_scheduler() -> None:
    tied = tie_to_node({"resourceClaims": CLAIMS, "schedulerName": "theirs"}, "node-1")
    assert tied["schedulerName"] == "default-scheduler"
    assert tied["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [{"matchFields": [PIN]}]


def test_what_its_template_prefers_and_requires_stays() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [zone, {}]}}, "podAffinity": {"theirs": True}}
    tied = tie_to_node({"resourceClaims": CLAIMS, "affinity": affinity}, "node-1")["affinity"]
    assert tied["podAffinity"] == {"theirs": True}
    terms = tied["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert terms == [{**zone, "matchFields": [PIN]}, {"matchFields": [PIN]}]
