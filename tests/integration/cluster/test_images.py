"""Image archives without a builder; needs no cluster."""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from tools.cluster.images import Entry, Image


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def make_image(source: Path) -> Image:
    top = {"bin/tool": Entry(source=source, mode=0o755), "bin/alias": Entry(link="tool")}
    home = {"home/user": Entry(owner=1000), "etc/motd": Entry(text="hello\n")}
    return Image(name="example.local/tool:1", layers=[top, home], entrypoint=["/bin/tool"], user="1000:1000")


def test_archive_is_what_a_runtime_loads(tmp_path: Path) -> None:
    source = tmp_path / "tool"
    source.write_bytes(b"program")
    with tarfile.open(make_image(source).archive()) as archive:
        manifest = json.load(archive.extractfile("manifest.json"))[0]
        configuration = archive.extractfile(manifest["Config"]).read()
        layers = [archive.extractfile(name).read() for name in manifest["Layers"]]
    assert manifest["RepoTags"] == ["example.local/tool:1"]
    assert manifest["Config"] == hashlib.sha256(configuration).hexdigest() + ".json"
    document = json.loads(configuration)
    assert document["config"]["User"] == "1000:1000"
    assert document["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]


def test_layers_keep_modes_owners_and_times(tmp_path: Path) -> None:
    source = tmp_path / "tool"
    source.write_bytes(b"program")
    with tarfile.open(make_image(source).archive()) as archive:
        layers = [archive.extractfile(f"layer{number}.tar") for number in range(2)]
        with tarfile.open(fileobj=layers[0]) as first, tarfile.open(fileobj=layers[1]) as second:
            tool, home = first.getmember("bin/tool"), second.getmember("home/user")
            assert (tool.mode, tool.uid, tool.mtime) == (0o755, 0, int(source.stat().st_mtime))
            assert first.getmember("bin/alias").linkname == "tool"
            assert first.getmember("bin").isdir()
            assert (home.uid, home.isdir()) == (1000, True)


def test_archive_is_made_again_only_when_something_changed(tmp_path: Path) -> None:
    source = tmp_path / "tool"
    source.write_bytes(b"program")
    first = make_image(source).archive()
    assert make_image(source).archive() == first
    source.write_bytes(b"another program")
    second = make_image(source).archive()
    assert second != first
    assert not first.exists()
