"""Generates the Python of our .proto files: python -m tools.protos [--check].

Needs grpcio-tools 1.76, whose output old and new versions of protobuf take.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
PROTOS = (
    "gangline/serve/rpc/open_inference.proto",
    "gangline/wire/rpc/gangline.proto",
    "gangline/wire/rpc/trainer.proto",
)


def generate(into: Path) -> None:
    """Write the generated modules below a directory."""
    options = [f"--proto_path={SOURCES}", f"--python_out={into}"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options, *PROTOS], check=True, cwd=SOURCES)


def stale() -> list[str]:
    """Name the generated modules that differ from what their .proto says."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        made = list(Path(folder).rglob("*_pb2.py"))
        return [
            str(file.relative_to(folder))
            for file in made
            if file.read_bytes() != (SOURCES / file.relative_to(folder)).read_bytes()
        ]


if __name__ == "__main__":
    if "--check" in sys.argv:
        found = stale()
        print("\n".join(f"{name} is not what its .proto says; run python -m tools.protos" for name in found))
        sys.exit(bool(found))
    generate(SOURCES)
