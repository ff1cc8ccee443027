"""Directories with known content."""

import hashlib
from pathlib import Path

MIB = 1 << 20


def noise(size: int, seed: str = "") -> bytes:
    """Bytes that do not repeat, the same for the same seed."""
    return hashlib.shake_128(seed.encode()).digest(size)


def make_tree(root: Path, sizes: dict[str, int]) -> dict[str, bytes]:
    """Write files of these sizes; returns what is in them."""
    contents = {name: noise(size, name) for name, size in sizes.items()}
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return contents


def contents_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
