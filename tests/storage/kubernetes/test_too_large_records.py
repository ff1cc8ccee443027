"""Records that are too large for an object of Kubernetes."""

import pytest

from gangline.kube import ApiError, KubeError
from gangline.storage.kubernetes.record_objects import is_too_large

REFUSALS = {
    "etcd": (ApiError("etcdserver: request is too large", status=500), True),
    "its client": (
        ApiError("rpc error: trying to send message larger than max (2139133 vs. 2097152)", status=500),
        True,
    ),
    "the API server": (ApiError("Request entity too large: limit is 3145728", status=413), True),
    "another refusal": (ApiError("etcdserver: leader changed", status=500), False),
    "no answer": (KubeError("it does not answer"), False),
}


@pytest.mark.parametrize(("error", "want"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_for_the_size_alone_is_told_from_others(error: KubeError, *, want: bool) -> None:
    assert is_too_large(error) is want
