"""Amounts add up exactly and are never negative."""

import pytest

from gangline.errors import InvalidInputError
from gangline.model import ReplicaId, Resources, RoleName

ONE = Resources(cpu_millis=1000, memory_mib=10, gpu_millis=500, extended={"rdma/hca": 1})


def test_amounts_add_multiply_and_subtract() -> None:
    three = ONE + ONE * 2
    assert three == Resources(cpu_millis=3000, memory_mib=30, gpu_millis=1500, extended={"rdma/hca": 3})
    assert three - ONE * 2 == ONE
    assert three.gpus == 1.5


def test_the_larger_of_two_is_taken_in_each_resource() -> None:
    other = Resources(cpu_millis=1, memory_mib=20, extended={"rdma/hca": 0, "fpga": 2})
    want = Resources(cpu_millis=1000, memory_mib=20, gpu_millis=500, extended={"rdma/hca": 1, "fpga": 2})
    assert ONE | other == other | ONE == want


def test_nothing_becomes_negative() -> None:
    with pytest.raises(InvalidInputError, match=r"cpu_millis.*negative"):
        ONE - ONE * 2


@pytest.mark.parametrize("text", ["worker", "worker-", "-1", "worker-x"])
def test_what_is_no_replica_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="not a replica"):
        ReplicaId.parse(text)


def test_a_replica_reads_back_what_it_wrote() -> None:
    replica = ReplicaId(RoleName("data-loader"), 12)
    assert ReplicaId.parse(str(replica)) == replica
