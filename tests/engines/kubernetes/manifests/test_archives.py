"""Files cut into parts and found again."""

import base64
import io
import random
import tarfile
from pathlib import Path

import msgspec
import pytest

from gangline.data.unpacking import unpack
from gangline.engines.kubernetes import KubernetesEngine
from gangline.engines.kubernetes.manifests import archives
from gangline.engines.kubernetes.manifests.archives import (
    TooLargeError,
    archive_to_config_maps,
    config_map_to_archive,
    pack,
)
from gangline.errors import InvalidInputError
from gangline.kube import CONFIG_MAPS
from gangline.model import DataMove, JobId
from gangline.testing.builders import make_spec
from tests.engines.kubernetes.fake_cluster import FakeCluster

METADATA = {"name": "mnist-abc123-inputs-0", "namespace": "default"}


def names_in(content: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return archive.getnames()


def test_the_same_files_always_give_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder / "inner").mkdir(parents=True)
        (tmp_path / folder / "inner" / "b").write_text("b")
        (tmp_path / folder / "a").write_text("a")
        for path in (tmp_path / folder).rglob("*"):
            path.chmod(0o700)
    first = pack(tmp_path / "one")
    assert names_in(first) == ["a", "inner", "inner/b"]
    assert pack(tmp_path / "one") == first


def test_a_single_file_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    assert names_in(pack(tmp_path / "a.txt")) == ["a.txt"]


def test_a_link_brings_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("a")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "link").symlink_to(tmp_path / "real")
    (tmp_path / "set" / "dangling").symlink_to(tmp_path / "nowhere")
    assert names_in(pack(tmp_path / "set")) == ["link"]


def test_a_link_to_a_directory_brings_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("a")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "link").symlink_to("../real")
    assert names_in(pack(tmp_path / "set")) == ["link", "link/a"]


def test_a_link_in_the_tree_stays_a_link_until_it_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "set" / "blobs").mkdir(parents=True)
    (tmp_path / "set" / "blobs" / "1").write_text("weights")
    (tmp_path / "set" / "model").symlink_to("blobs/1")
    (tmp_path / "there").mkdir()
    unpack(io.BytesIO(pack(tmp_path / "set")), tmp_path / "there")
    assert (tmp_path / "there" / "model").readlink() == Path("blobs/1")
    assert (tmp_path / "there" / "model").read_text() == "weights"


def test_the_part_that_says_how_many_there_are_is_sent_last() -> None:
    content = random.Random(0).randbytes(2_000_000)
    archive, bodies = archive_to_config_maps(content, METADATA)
    assert archive.parts == len(bodies) == 3
    assert [body["metadata"]["name"] for body in bodies] == archive.part_names()[::-1]
    assert bodies[-1]["metadata"]["name"] == METADATA["name"]
    joined = b"".join(base64.b64decode(body["binaryData"]["part"]) for body in bodies[::-1])
    assert joined == content
    found = CONFIG_MAPS.decode(msgspec.json.encode(bodies[-1]))
    assert config_map_to_archive(found) == archive


def test_parts_of_changed_files_have_other_names() -> None:
    noise = random.Random(0)
    first, _ = archive_to_config_maps(noise.randbytes(2_000_000), METADATA)
    second, _ = archive_to_config_maps(noise.randbytes(2_000_000), METADATA)
    assert set(first.part_names()[1:]).isdisjoint(second.part_names())


def test_too_much_is_refused_while_it_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "LIMIT_BYTES", 1 << 16)
    (tmp_path / "noise").write_bytes(random.Random(0).randbytes(1 << 18))
    with pytest.raises(TooLargeError, match="s3://"):
        pack(tmp_path)


async def test_an_input_that_is_not_there_is_named_before_anything_is_sent(
    cluster: FakeCluster, engine: KubernetesEngine, tmp_path: Path
) -> None:
    missing = DataMove(source=str(tmp_path / "data"), target="$DATA_DIR")
    with pytest.raises(InvalidInputError, match="data does not exist on this machine") as refusal:
        await engine.send_files(JobId("job-1"), make_spec(inputs=(missing,)))
    assert refusal.value.field == "spec.data.inputs[0].from"
    assert cluster.names("configmaps") == []
