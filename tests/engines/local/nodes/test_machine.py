"""The machine as nodes, and what is handed out of it."""

import os
from pathlib import Path

import pytest

from gangline.engines.local.keeper.system import cgroups
from gangline.engines.local.nodes import devices
from gangline.engines.local.nodes.allocation import Allocation, NoFreeGpuError
from gangline.engines.local.nodes.devices import Device, DeviceWatch, GangDevices, faults_in, find_devices, with_slices
from gangline.engines.local.nodes.machine import LocalNode, Machine
from gangline.engines.local.wire import ReplicaOrder
from gangline.errors import EngineError
from gangline.model import Node, NodeName, Resources


def make_device(number: int, name: str = "NVIDIA H200") -> Device:
    return Device(id=str(number), name=name, memory_mib=143771, used_mib=0, percent=0)


def make_machine(cpus: int = 8, gpus: int = 0) -> Machine:
    devices = tuple(make_device(number) for number in range(gpus))
    return Machine(cpus=tuple(range(cpus)), cpu_millis=cpus * 1000, memory_mib=10_001, devices=devices)


def make_local_node(cpus: int = 4, gpus: int = 0) -> LocalNode:
    node = Node(name=NodeName("node-0"), capacity=Resources())
    devices = tuple(make_device(number) for number in range(gpus))
    return LocalNode(node=node, cpus=tuple(range(cpus)), devices=devices)


@pytest.mark.parametrize("cpus", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_the_parts_add_up_and_every_part_has_a_cpu(cpus: int, count: int) -> None:
    machine = make_machine(cpus=cpus, gpus=5)
    parts = machine.divide(count)
    capacities = [part.node.capacity for part in parts]
    assert sum(capacity.cpu_millis for capacity in capacities) == machine.cpu_millis
    assert sum(capacity.memory_mib for capacity in capacities) == machine.memory_mib
    assert sum(capacity.gpu_millis for capacity in capacities) == 5000
    assert all(part.cpus for part in parts)
    assert {cpu for part in parts for cpu in part.cpus} == set(machine.cpus)
    assert len({part.node.name for part in parts}) == count


def test_a_machine_in_one_part_bears_its_own_name() -> None:
    (part,) = make_machine(gpus=2).divide(1)
    assert part.node.name == os.uname().nodename.lower()
    assert part.node.gpu_type == "h200"
    assert part.node.labels == {"gangline.dev/hostname": part.node.name, "gangline.dev/gpu-type": "h200"}


def test_a_node_has_room_for_more_small_replicas_than_kubernetes_would_give_it() -> None:
    (node,) = Machine.measure(devices=()).divide(1)
    assert node.node.pods == 500


def test_this_machine_can_be_measured() -> None:
    machine = Machine.measure(())
    assert 0 < machine.cpu_millis <= 1000 * len(os.sched_getaffinity(0))
    assert machine.memory_mib > 0


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("NVIDIA H200", "h200"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("NVIDIA A100 80GB PCIe", "a100"),
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("Tesla K80", "k80"),
    ],
)
def test_a_gpu_type_is_the_model_without_its_maker_and_size(name: str, want: str) -> None:
    assert make_device(0, name).type == want


def install_nvidia_smi(directory: Path, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = directory / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{answer}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def test_gpus_are_found_through_nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    rows = "0, NVIDIA H200, 143771, 512, 40\\n1, NVIDIA H200, 143771, [N/A], 0\\n"
    install_nvidia_smi(tmp_path, f"printf '{rows}'", monkeypatch)
    first, second = find_devices()
    assert (first.id, first.used_mib, first.percent) == ("0", 512, 40)
    assert (second.id, second.used_mib) == ("1", 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [device.id for device in find_devices()] == ["1"]


SLICED = """case "$1" in
-L) cat <<'END'
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)
  MIG 3g.20gb     Device  0: (UUID: MIG-a)
  MIG 1g.5gb      Device  1: (UUID: MIG-b)
  MIG 1g.5gb      Device  2: (UUID: MIG-c)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-1)
END
;;
*) printf '0, NVIDIA A100-SXM4-40GB, 40960, 0, 0\\n1, NVIDIA A100-SXM4-40GB, 40960, 0, 0\\n' ;;
esac"""


def make_driver(folder: Path, monkeypatch: pytest.MonkeyPatch, **minors: str) -> None:
    """Two GPUs as a driver that numbers them as it likes shows them."""
    for place, minor in minors.items():
        (folder / "gpus" / place).mkdir(parents=True)
        (folder / "gpus" / place / "information").write_text(f"Model: \t H200\nDevice Minor: \t {minor}\n")
        (folder / f"nvidia{minor}").touch()
    monkeypatch.setattr(devices, "DRIVER", folder / "gpus")
    monkeypatch.setattr(devices, "FILES", folder)
    monkeypatch.setattr(devices, "CAPABILITIES", folder / "caps")


def test_a_gpu_is_told_by_its_place_on_the_bus_and_not_by_the_number_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    install_nvidia_smi(tmp_path, SLICED, monkeypatch)
    make_driver(tmp_path, monkeypatch, a="1", b="0")
    watch = DeviceWatch()
    assert watch.look()
    assert [(each.id, each.uuid, Path(each.file).name) for each in watch.devices[:1]] == [("1", "GPU-1", "nvidia0")]
    assert {each.id: Path(each.file).name for each in watch.devices[1:]} == dict.fromkeys(
        ("MIG-a", "MIG-b", "MIG-c"), "nvidia1"
    )
    found = GangDevices.of(watch.devices)
    assert found.names_of(["1", "MIG-a"]) == ("GPU-1", "MIG-a")


def test_nothing_is_closed_where_files_and_gpus_do_not_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    install_nvidia_smi(tmp_path, SLICED, monkeypatch)
    make_driver(tmp_path, monkeypatch, a="1", b="0", c="2")
    found = GangDevices.of(with_slices(find_devices()))
    assert (found.files, found.names_of(["1"])) == ({}, ("1",))


def test_the_file_of_a_single_gpu_needs_nobody_to_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    install_nvidia_smi(tmp_path, "printf '0, NVIDIA H200, 143771, 0, 0\\n'", monkeypatch)
    make_driver(tmp_path, monkeypatch, a="3")
    found = GangDevices.of(with_slices(find_devices()))
    assert (found.files, found.names_of(["0"])) == ({"0": str(tmp_path / "nvidia3")}, ("0",))


def test_slices_of_a_gpu_are_devices_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    install_nvidia_smi(tmp_path, SLICED, monkeypatch)
    monkeypatch.setattr(devices, "CAPABILITIES", tmp_path / "caps")
    monkeypatch.setattr(devices, "FILES", tmp_path)
    assert [device.id for device in with_slices(find_devices())] == ["0", "1"], "nothing can be cut"
    (tmp_path / "caps").mkdir()
    (tmp_path / "caps" / "nvidia-cap1").touch()
    watch = DeviceWatch()
    assert watch.look()
    assert [device.id for device in watch.devices] == ["1", "MIG-a", "MIG-b", "MIG-c"]
    machine = Machine(cpus=(0, 1), cpu_millis=2000, memory_mib=1000, devices=watch.devices)
    (part,) = machine.divide(1)
    assert part.node.capacity.gpu_millis == 1000
    assert part.node.capacity.extended == {"nvidia.com/mig-3g.20gb": 1, "nvidia.com/mig-1g.5gb": 2}
    allocation = Allocation([])
    small = Resources(cpu_millis=10, extended={"nvidia.com/mig-1g.5gb": 1})
    given = [allocation.choose(part, small)[1] for _ in range(2)]
    assert [list(each) for each in given] == [["MIG-b"], ["MIG-c"]]
    with pytest.raises(NoFreeGpuError, match=r"mig-1g\.5gb are needed"):
        allocation.choose(part, small)
    assert allocation.choose(part, Resources(cpu_millis=10, gpu_millis=1000))[1] == {"1": 1000}


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param("0, 0, No\n1, 0, [N/A]", {}, id="well"),
        pytest.param("0, [N/A], [N/A]\n1, [N/A], [N/A]", {}, id="no ECC"),
        pytest.param("0, 3, No\n1, 0, No", {"0": "uncorrected ECC errors: 3"}, id="ECC errors"),
        pytest.param("0, 0, Yes\n1, 0, No", {"0": "memory pages are to be retired: reset it"}, id="pages"),
        pytest.param("0, [GPU is lost], No\n1, 0, No", {"0": "it has fallen off the bus"}, id="lost, as a value"),
        pytest.param("0, 0, No\n1, [Unknown Error], No", {"1": "it has fallen off the bus"}, id="an unknown error"),
        pytest.param(
            "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.\n1, 0, No",
            {"0": "it has fallen off the bus"},
            id="lost, and not listed",
        ),
        pytest.param(
            "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.",
            {"0": "it has fallen off the bus", "1": "it has fallen off the bus"},
            id="lost, and none listed",
        ),
        pytest.param("1, 0, No", {}, id="not listed, and nobody says why"),
        pytest.param("", None, id="no answer"),
        pytest.param('Field "retired_pages.pending" is not a valid field to query.', None, id="an old driver"),
        pytest.param("0, NVIDIA H200, 143771, 512, 40", None, id="another answer"),
    ],
)
def test_what_is_wrong_with_gpus_is_read_from_the_answer(answer: str, want: dict[str, str] | None) -> None:
    assert faults_in(answer, ["0", "1"]) == want


TWO = """case "$1" in
*ecc*) cat {health} ;;
*) printf '0, NVIDIA H200, 143771, 512, 40\\n1, NVIDIA H200, 143771, 0, 0\\n' ;;
esac"""


def test_a_gpu_with_errors_is_closed_until_it_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    health = tmp_path / "health"
    health.write_text("0, 2, No\n1, 0, No\n")
    install_nvidia_smi(tmp_path, TWO.format(health=health), monkeypatch)
    watch = DeviceWatch()
    assert not watch.examine(), "there is none yet to ask about"
    assert watch.look()
    assert (watch.examine(), watch.examine()) == (True, False)
    machine = Machine(cpus=(0,), cpu_millis=1000, memory_mib=1000, devices=watch.devices, faults=watch.faults)
    (part,) = machine.divide(1)
    assert part.node.closed_gpus == {"0": "uncorrected ECC errors: 2"}
    assert (part.node.capacity.gpu_millis, part.node.foreign.gpu_millis) == (2000, 1000)
    health.write_text("")
    assert not watch.examine(), "no answer changes nothing"
    health.write_text("0, 0, No\n1, 0, No\n")
    assert watch.examine()
    assert watch.faults == {}


def test_nobody_gets_a_closed_gpu_nor_gets_it_back() -> None:
    node = make_machine(gpus=2).divide(1)[0]
    wanted = Resources(cpu_millis=10, gpu_millis=1000)
    assert Allocation([], closed=["0"]).choose(node, wanted)[1] == {"1": 1000}
    with pytest.raises(NoFreeGpuError, match="1 are there"):
        Allocation([], closed=["0"]).choose(node, Resources(cpu_millis=10, gpu_millis=2000))
    had = make_order(cpus=[0], cpu_millis=10, gpu_millis={"0": 1000})
    assert not Allocation([], closed=["0"]).regain(had)
    assert Allocation([]).regain(had)


@pytest.mark.parametrize("answer", ["exit 9", "echo NVIDIA-SMI has failed", "printf ''"])
def test_a_tool_that_cannot_answer_means_no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    install_nvidia_smi(tmp_path, answer, monkeypatch)
    assert find_devices() == ()


def test_gpus_are_asked_for_again_only_where_the_answer_may_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    asked = tmp_path / "asked"
    watch = DeviceWatch()
    install_nvidia_smi(tmp_path, f"echo once >>{asked}; exit 9", monkeypatch)
    assert (watch.look(), watch.look(), watch.devices) == (False, False, ())
    install_nvidia_smi(tmp_path, f"echo once >>{asked}; echo 0, NVIDIA H200, 143771, 512, 40", monkeypatch)
    assert (watch.look(), watch.look()) == (True, False)
    assert [device.id for device in watch.devices] == ["0"]
    assert len(asked.read_text().splitlines()) == 3


def make_order(
    *, cpus: list[int], cpu_millis: int, gpu_millis: dict[str, int], gpu_slot: int | None = None
) -> ReplicaOrder:
    return ReplicaOrder(
        name="worker-0",
        incarnation=0,
        started=False,
        command=["true"],
        environment={},
        node="node-0",
        cpus=cpus,
        cpu_millis=cpu_millis,
        memory_mib=0,
        gpu_millis=gpu_millis,
        gpu_slot=gpu_slot,
        address="127.1.0.1",
    )


def test_replicas_get_cpus_of_their_own_while_there_are_some() -> None:
    allocation = Allocation([make_order(cpus=[0], cpu_millis=1000, gpu_millis={})])
    given = [allocation.choose(make_local_node(), Resources(cpu_millis=millis))[0] for millis in (1500, 1000, 1000)]
    assert given[0] == [1, 2]
    assert given[1] == [3]
    assert len(given[2]) == 1


@pytest.mark.parametrize(("millis", "want"), [(0, 4), (1, 1), (1000, 1), (1001, 2), (64_000, 4)])
def test_an_amount_of_cpu_becomes_whole_cpus(millis: int, want: int) -> None:
    cpus, _ = Allocation([]).choose(make_local_node(), Resources(cpu_millis=millis))
    assert len(cpus) == want


def test_gangs_begin_with_different_cpus() -> None:
    first = [
        Allocation([], offset=offset).choose(make_local_node(), Resources(cpu_millis=1000))[0] for offset in range(5)
    ]
    assert first == [[0], [1], [2], [3], [0]]


def test_whole_gpus_are_exclusive_and_fractions_share() -> None:
    node = make_local_node(gpus=3)
    allocation = Allocation([make_order(cpus=[0], cpu_millis=0, gpu_millis={"1": 1000})])
    amounts = [allocation.choose(node, Resources(gpu_millis=millis))[1] for millis in (500, 1000, 300, 200)]
    assert amounts == [{"0": 500}, {"2": 1000}, {"0": 300}, {"0": 200}]
    for missing in (1000, 100):
        with pytest.raises(EngineError):
            allocation.choose(node, Resources(gpu_millis=missing))


def test_a_fraction_goes_to_the_device_of_its_slot_and_to_no_other() -> None:
    node = make_local_node(gpus=2)
    allocation = Allocation([make_order(cpus=[0], cpu_millis=0, gpu_millis={"1": 400}, gpu_slot=0)])
    # The fullest device with room would do for all of them; the scheduler has decided otherwise.
    amounts = [allocation.choose(node, Resources(gpu_millis=400), gpu_slot=slot)[1] for slot in (1, 0, 1)]
    assert amounts == [{"0": 400}, {"1": 400}, {"0": 400}]
    for slot in (0, 2):
        with pytest.raises(EngineError):
            allocation.choose(node, Resources(gpu_millis=400), gpu_slot=slot)


def test_one_gpu_and_a_half_is_one_device_and_half_of_another() -> None:
    assert Allocation([]).choose(make_local_node(gpus=2), Resources(gpu_millis=1500))[1] == {"0": 1000, "1": 500}


MOUNTINFO = {
    "version 1": "30 20 0:26 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n"
    "31 20 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
    "version 2": "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
    "version 1 in a container": "30 20 0:26 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
}
MEMBERSHIP = {
    "version 1": "4:memory:/user/one\n3:cpu,cpuacct:/user/two\n",
    "version 2": "0::/user.slice/session.scope\n",
    "version 1 in a container": "4:memory:/docker/abc/inner\n",
}


@pytest.mark.parametrize(
    ("case", "controller", "want"),
    [
        ("version 1", "memory", [("/sys/fs/cgroup/memory/user/one", 1)]),
        ("version 1", "cpu", [("/sys/fs/cgroup/cpu/user/two", 1)]),
        ("version 2", "memory", [("/sys/fs/cgroup/user.slice/session.scope", 2)]),
        ("version 1 in a container", "memory", [("/sys/fs/cgroup/memory/inner", 1)]),
    ],
)
def test_the_own_control_group_is_found(
    tmp_path: Path, case: str, controller: str, want: list[tuple[str, int]]
) -> None:
    (tmp_path / "cgroup").write_text(MEMBERSHIP[case])
    (tmp_path / "mountinfo").write_text(MOUNTINFO[case])
    found = cgroups.hierarchies(controller, str(tmp_path / "cgroup"), str(tmp_path / "mountinfo"))
    assert [(hierarchy.own, hierarchy.version) for hierarchy in found] == want
