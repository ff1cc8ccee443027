"""Amounts of what machines offer and replicas need, in whole numbers so that sums are exact."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """An amount of each resource. A GPU is 1000 ``gpu_millis``, so that fractions stay whole numbers."""

    cpu_millis: int = 0
    memory_mib: int = 0
    gpu_millis: int = 0
    extended: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, amount in self.amounts().items():
            if amount < 0:
                raise InvalidInputError(f"{amount} is negative", field=name, expected="zero or more")

    @property
    def gpus(self) -> float:
        """GPUs as a person counts them."""
        return self.gpu_millis / 1000

    def amounts(self) -> dict[str, int]:
        """Every amount by name: cpu_millis, memory_mib, gpu_millis and the extended ones."""
        return {
            "cpu_millis": self.cpu_millis,
            "memory_mib": self.memory_mib,
            "gpu_millis": self.gpu_millis,
            **self.extended,
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
        )

    def _combine(self, other: "Resources", sign: int) -> "Resources":
        names = self.extended.keys() | other.extended.keys()
        return Resources(
            cpu_millis=self.cpu_millis + sign * other.cpu_millis,
            memory_mib=self.memory_mib + sign * other.memory_mib,
            gpu_millis=self.gpu_millis + sign * other.gpu_millis,
            extended={name: self.extended.get(name, 0) + sign * other.extended.get(name, 0) for name in sorted(names)},
        )
