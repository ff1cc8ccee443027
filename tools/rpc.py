"""Writes the .proto of the gRPC interface from the table of operations: python -m tools.rpc [--check].

Numbers that fields have had are read from the .proto that is there. Afterwards, ``tools.protos`` makes Python of it.
"""

import re
import sys
from pathlib import Path

from gangline.api.grpc.definition import proto
from gangline.api.rest.application import all_operations

FILE = Path(__file__).parents[1] / "src" / "gangline" / "wire" / "rpc" / "gangline.proto"
_BLOCK = re.compile(r"^(?:message|enum) (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"(\w+) = (\d+)(?: \[.*\])?;$", re.MULTILINE)
_RESERVED = re.compile(r"^  reserved (.*);$", re.MULTILINE)


def numbers_in(text: str) -> dict[str, dict[str, int]]:
    """Return the numbers of all fields and values in a .proto; of those that are gone, too."""
    found = {}
    for name, body in _BLOCK.findall(text):
        gone = [number for line in _RESERVED.findall(body) for number in line.split(", ")]
        found[name] = {each: int(number) for each, number in _ITEM.findall(body)}
        found[name] |= {f"reserved {number}": int(number) for number in gone}
    return found


def text() -> str:
    """Return what the .proto should say now."""
    before = FILE.read_text() if FILE.exists() else ""
    return proto(all_operations(), numbers_in(before))


if __name__ == "__main__":
    if "--check" in sys.argv:
        same = FILE.exists() and FILE.read_text() == text()
        print("" if same else f"{FILE} is not what the table of operations says; run python -m tools.rpc", end="")
        sys.exit(not same)
    FILE.write_text(text())
