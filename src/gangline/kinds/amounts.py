"""Amounts as the file of a queue has them: those of a job file, and ``gpu.TYPE`` for the GPUs of one type."""

import dataclasses
from collections.abc import Callable, Mapping

from gangline.dialects import quantities
from gangline.dialects.native.amounts import GPU_NAMES, read_resources
from gangline.dialects.value import Value
from gangline.kinds.kind import Plain
from gangline.model import NamedAmounts, Resources
from gangline.model.resources import GPU_MEMORY, TYPED_GPU

_OF_TYPE = "gpu."
_FIXED: Mapping[str, tuple[str, Callable[[int], object]]] = {
    "cpu_millis": ("cpu", quantities.cpu_text),
    "memory_mib": ("memory", quantities.memory_text),
    "gpu_millis": ("gpu", quantities.gpu_text),
    GPU_MEMORY: ("gpu_memory", quantities.memory_text),
}
_MEANT = {written: name for name, (written, _) in _FIXED.items()} | dict.fromkeys(GPU_NAMES, "gpu_millis")


def read_amounts(value: Value) -> Resources:
    """Read amounts; unlike in a role, what is not named is none.

    Where only types of GPUs are named, there are as many GPUs as of these together.
    """
    given = value.fields()
    typed = {
        _meant(name): each.converted(quantities.gpu_millis, quantities.GPU_FORM)
        for name, each in given.items()
        if name.startswith(_OF_TYPE)
    }
    plain = {name: each.data for name, each in given.items() if not name.startswith(_OF_TYPE)}
    amounts = dataclasses.replace(value, data={"cpu": 0, "memory": 0, **plain})
    found = read_resources({"resources": amounts}, {}) or Resources()
    if not typed:
        return found
    gpus = found.gpu_millis if any(name in plain for name in GPU_NAMES) else sum(typed.values())
    return dataclasses.replace(found, gpu_millis=gpus, extended={**found.extended, **typed})


def amounts_to_plain(resources: Resources) -> Plain:
    """Write amounts so that ``read_amounts`` returns them again."""
    return _plain({name: amount for name, amount in resources.amounts().items() if amount or name not in _FIXED})


def read_named(value: Value) -> NamedAmounts:
    """Read amounts of which only those count that are named."""
    found = read_amounts(value).amounts()
    return NamedAmounts({_meant(name): found.get(_meant(name), 0) for name in value.fields()})


def named_to_plain(named: NamedAmounts) -> Plain:
    """Write amounts so that ``read_named`` returns them again."""
    return _plain(named.amounts)


def _meant(name: str) -> str:
    """The name of an amount in the model."""
    return TYPED_GPU + name.removeprefix(_OF_TYPE) if name.startswith(_OF_TYPE) else _MEANT.get(name, name)


def _plain(amounts: Mapping[str, int]) -> Plain:
    plain: Plain = {}
    for name, amount in amounts.items():
        if name.startswith(TYPED_GPU):
            plain[_OF_TYPE + name.removeprefix(TYPED_GPU)] = quantities.gpu_text(amount)
        else:
            written, text = _FIXED.get(name, (name, int))
            plain[written] = text(amount)
    return plain
