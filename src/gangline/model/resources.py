"""Amounts of what machines offer and replicas need, in whole numbers so that sums are exact."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.errors import InvalidInputError

GPU_MEMORY = "gpu_memory_mib"
"""What the memory of GPUs is called among amounts."""

TYPED_GPU = "gpu_millis."
"""An extended amount with this in front of a GPU type counts the GPUs of that type alone, in shares of queues."""


def part_of_gpu(memory_mib: int, of_mib: int) -> int:
    """The thousandths of a GPU that an amount of its memory takes: rounded up, and no more than all of it."""
    return min(-(-1000 * memory_mib // of_mib), 1000) if of_mib else 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """An amount of each resource. A GPU is 1000 ``gpu_millis``, so that fractions stay whole numbers.

    ``gpu_memory_mib`` is memory of a single GPU. Beside whole GPUs it says how much each of them must have; without
    any, the replica has a part of one GPU with that much memory, whatever part that is.
    """

    cpu_millis: int = 0
    memory_mib: int = 0
    gpu_millis: int = 0
    extended: Mapping[str, int] = field(default_factory=dict)
    gpu_memory_mib: int = 0

    def __post_init__(self) -> None:
        for name, amount in self.amounts().items():
            if amount < 0:
                raise InvalidInputError(f"{amount} is negative", field=name, expected="zero or more")

    @property
    def gpus(self) -> float:
        """GPUs as a person counts them."""
        return self.gpu_millis / 1000

    def amounts(self) -> dict[str, int]:
        """Every amount by name: cpu_millis, memory_mib, gpu_millis, the extended ones, and GPU memory if any."""
        return {
            "cpu_millis": self.cpu_millis,
            "memory_mib": self.memory_mib,
            "gpu_millis": self.gpu_millis,
            **self.extended,
            **({GPU_MEMORY: self.gpu_memory_mib} if self.gpu_memory_mib else {}),
        }

    def __add__(self, other: "Resources") -> "Resources":
        return self._combine(other, 1)

    def __or__(self, other: "Resources") -> "Resources":
        """The larger of the two in each resource: what both need that never run at the same time."""
        names = self.extended.keys() | other.extended.keys()
        return Resources(
            cpu_millis=max(self.cpu_millis, other.cpu_millis),
            memory_mib=max(self.memory_mib, other.memory_mib),
            gpu_millis=max(self.gpu_millis, other.gpu_millis),
            extended={name: max(self.extended.get(name, 0), other.extended.get(name, 0)) for name in names},
            gpu_memory_mib=max(self.gpu_memory_mib, other.gpu_memory_mib),
        )

    def __sub__(self, other: "Resources") -> "Resources":
        """Subtract; raises if anything would become negative."""
        return self._combine(other, -1)

    def __mul__(self, count: int) -> "Resources":
        return Resources(
            cpu_millis=self.cpu_millis * count,
            memory_mib=self.memory_mib * count,
            gpu_millis=self.gpu_millis * count,
            extended={name: amount * count for name, amount in self.extended.items()},
            gpu_memory_mib=self.gpu_memory_mib * count,
        )

    def _combine(self, other: "Resources", sign: int) -> "Resources":
        names = self.extended.keys() | other.extended.keys()
        return Resources(
            cpu_millis=self.cpu_millis + sign * other.cpu_millis,
            memory_mib=self.memory_mib + sign * other.memory_mib,
            gpu_millis=self.gpu_millis + sign * other.gpu_millis,
            extended={name: self.extended.get(name, 0) + sign * other.extended.get(name, 0) for name in sorted(names)},
            gpu_memory_mib=self.gpu_memory_mib + sign * other.gpu_memory_mib,
        )


@dataclass(frozen=True, slots=True)
class NamedAmounts:
    """Amounts of some resources by name, as ``Resources.amounts`` has them; nothing is said of any other."""

    amounts: Mapping[str, int]

    def __post_init__(self) -> None:
        for name, amount in self.amounts.items():
            if amount < 0:
                raise InvalidInputError(f"{amount} is negative", field=name, expected="zero or more")
