"""Nodes described in a word: machines not yet bought, and machines of a simulation."""

import re

from gangline.errors import InvalidInputError
from gangline.model import Node, NodeName, Resources

CPUS_PER_GPU = 12
MEMORY_MIB_PER_GPU = 131_072
_NODES = re.compile(r"([1-9]\d{0,5})x(\d{1,3})(?:x([a-z0-9]+(?:-[a-z0-9]+)*))?")


def parse_nodes(*texts: str) -> list[Node]:
    """Read nodes: ``8x8xh200`` is eight nodes of eight H200, ``16x4`` sixteen of four GPUs of no particular type.

    They come with processor and memory to match. Their names begin with ``new`` and are numbered throughout.
    """
    nodes: list[Node] = []
    for text in texts:
        count, capacity, kind = _parse(text)
        prefix = f"new-{kind}" if kind else "new"
        numbers = range(len(nodes), len(nodes) + count)
        nodes += [Node(name=NodeName(f"{prefix}-{i:03d}"), capacity=capacity, gpu_type=kind) for i in numbers]
    return nodes


def _parse(text: str) -> tuple[int, Resources, str | None]:
    match = _NODES.fullmatch(text)
    if match is None:
        raise InvalidInputError(f"'{text}' describes no nodes", expected="COUNTxGPUS[xTYPE], for example 8x8xh200")
    gpus = int(match[2])
    capacity = Resources(
        cpu_millis=1000 * CPUS_PER_GPU * max(gpus, 1),
        memory_mib=MEMORY_MIB_PER_GPU * max(gpus, 1),
        gpu_millis=1000 * gpus,
    )
    return int(match[1]), capacity, match[3]
