"""Amounts in the file of a queue: types of GPUs, and limits that say nothing of what they do not name."""

import pytest
import yaml

from gangline.dialects.value import Source, Value
from gangline.errors import InvalidInputError
from gangline.kinds.queue import QUEUE
from gangline.model import NamedAmounts, Queue, Resources

HEAD = {"kind": "Queue", "metadata": {"name": "mine"}}


def read(spec: str) -> Queue:
    data = {**HEAD, "spec": yaml.safe_load(spec)}
    return QUEUE.format.read(Value(data=data, path="", source=Source(file="queue.yaml")), {})


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("guarantee: {gpu.a100: 4, gpu.t4: 2}", {"gpu_millis": 6000, "gpu_millis.a100": 4000, "gpu_millis.t4": 2000}),
        ("guarantee: {gpu: 8, gpu.a100: 4}", {"gpu_millis": 8000, "gpu_millis.a100": 4000}),
        ("guarantee: {cpu: 2, memory: 1Gi}", {"cpu_millis": 2000, "memory_mib": 1024}),
    ],
    ids=["types alone are added up", "types beside all", "no GPUs"],
)
def test_a_guarantee_may_name_types_of_gpus(text: str, want: dict[str, int]) -> None:
    nothing = Resources().amounts()
    assert read(text).guarantee.amounts() == nothing | want


def test_a_borrowing_limit_has_what_is_named_and_nothing_else() -> None:
    made = read("borrowing_limit: {gpu.a100: 0, cpu: 1500m}\nlending_limit: {gpu: 0.5, memory: 1Gi}\nminimum_run: 10m")
    assert made.borrowing_limit == NamedAmounts({"gpu_millis.a100": 0, "cpu_millis": 1500})
    assert made.lending_limit == NamedAmounts({"gpu_millis": 500, "memory_mib": 1024})
    assert made.minimum_run_seconds == 600


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("limit: {cpu: 1}", {"cpu_millis": 1000}),
        ("limit: {gpu: 0}", {"gpu_millis": 0}),
        ("limit: {gpu.a100: 4}", {"gpu_millis.a100": 4000}),
    ],
    ids=["one resource", "none of one resource", "one type of GPUs"],
)
def test_a_limit_leaves_open_what_it_does_not_name(text: str, want: dict[str, int]) -> None:
    assert read(text).limit == NamedAmounts(want)


def test_what_is_written_is_read_again() -> None:
    made = read(
        "guarantee: {gpu: 8, gpu.a100: 4, example.com/fast: 2}\nlimit: {cpu: 4}\n"
        "borrowing_limit: {gpu.a100: 0, memory: 0}\nlending_limit: {cpu: 0}\nnon_preemptible_within_guarantee: true"
    )
    written = QUEUE.format.write(made)
    assert written["spec"]["borrowing_limit"]["gpu.a100"] == 0
    assert QUEUE.format.read(Value(data=written, path="", source=Source(file="again")), {}) == made


@pytest.mark.parametrize("text", ["guarantee: {gpu.a100: -1}", "borrowing_limit: {gpus: 1}", "minimum_run: -5"])
def test_what_is_not_meant_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        read(text)


def test_the_settings_are_options() -> None:
    options = {option.name: option for option in QUEUE.format.options}
    assert options["--lending-limit"].read("gpu.a100=2") == NamedAmounts({"gpu_millis.a100": 2000})
    assert options["--minimum-run"].read("90s") == 90
    assert options["--non-preemptible-within-guarantee"].read("true") is True
