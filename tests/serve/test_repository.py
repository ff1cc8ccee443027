"""Models by name and version: known from the start, loaded, replaced and unloaded while others answer."""

from pathlib import Path

import numpy as np
import pytest

from gangline.serve.batching import BatchSettings
from gangline.serve.counters import Counters
from gangline.serve.errors import BadRequestError, LoadError, NotReadyError, UnknownModelError
from gangline.serve.repository import Repository, State

HANDLER = """
from gangline.serve import TensorSpec

class Model:
    inputs = [TensorSpec(name="x", datatype="FP32", shape=(-1,))]
    def load(self, folder):
        self.factor = float((folder / "factor").read_text())
    def predict(self, inputs):
        return self.factor * inputs["x"]
"""
X = {"x": np.ones(1, np.float32)}


def write(folder: Path, factor: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "handler.py").write_text(HANDLER)
    (folder / "factor").write_text(factor)
    return folder


def repository(**models: Path) -> Repository:
    return Repository(models, BatchSettings(), Counters())


async def answer(under_test: Repository, version: str = "") -> float:
    return float((await under_test.find("m", version).ask(X))["output"][0])


async def test_a_model_is_known_before_it_is_loaded(tmp_path: Path) -> None:
    under_test = repository(m=write(tmp_path / "m", "2"))
    assert under_test.find("m").state is State.LOADING
    assert not under_test.ready
    with pytest.raises(NotReadyError, match="model 'm' version 1 is not ready: loading"):
        await under_test.find("m").ask(X)
    await under_test.load_all()
    assert under_test.ready
    assert await answer(under_test) == 2.0


async def test_the_newest_version_answers_unless_another_is_named(tmp_path: Path) -> None:
    for number in ("2", "10", "9"):
        write(tmp_path / "m" / number, number)
    under_test = repository(m=tmp_path / "m")
    await under_test.load_all()
    assert under_test.versions("m") == ["2", "9", "10"]
    assert await answer(under_test) == 10.0
    assert await answer(under_test, "9") == 9.0
    with pytest.raises(UnknownModelError, match="model 'm' has no version 3; it has 2, 9, 10"):
        under_test.find("m", "3")
    with pytest.raises(UnknownModelError, match="there is no model 'z'; there are: m"):
        under_test.find("z")


async def test_a_version_that_cannot_be_loaded_leaves_the_others_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "m" / "1", "1")
    write(tmp_path / "m" / "2", "no number")
    under_test = repository(m=tmp_path / "m")
    await under_test.load_all()
    assert await answer(under_test) == 1.0
    broken = under_test.find("m", "2")
    assert broken.state is State.UNAVAILABLE
    assert broken.reason == "cannot load python model: ValueError: could not convert string to float: 'no number'"
    assert not under_test.ready
    assert f"model 'm': {broken.reason}" in caplog.messages


async def test_loading_again_brings_new_versions_and_drops_old_ones(tmp_path: Path) -> None:
    first = write(tmp_path / "m" / "1", "1")
    under_test = repository(m=tmp_path / "m")
    await under_test.load_all()
    write(tmp_path / "m" / "2", "2")
    first.rename(tmp_path / "elsewhere")
    await under_test.load("m")
    assert under_test.versions("m") == ["2"]
    assert await answer(under_test) == 2.0


async def test_a_model_that_cannot_be_loaded_again_goes_on_as_it_was(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", "3")
    under_test = repository(m=folder)
    await under_test.load_all()
    (folder / "factor").write_text("no number")
    with pytest.raises(LoadError, match="could not convert string to float"):
        await under_test.load("m")
    assert await answer(under_test) == 3.0


async def test_an_unloaded_model_says_so_and_can_come_back(tmp_path: Path) -> None:
    under_test = repository(m=write(tmp_path / "m", "4"))
    await under_test.load_all()
    under_test.unload("m")
    with pytest.raises(NotReadyError, match="not ready: unloaded"):
        await under_test.find("m").ask(X)
    assert under_test.ready, "what was unloaded on purpose is not missed"
    await under_test.load("m")
    assert await answer(under_test) == 4.0


async def test_what_does_not_fit_is_refused_before_the_model_is_asked(tmp_path: Path) -> None:
    under_test = repository(m=write(tmp_path / "m", "4"))
    await under_test.load_all()
    with pytest.raises(BadRequestError, match="input 'x' is missing"):
        await under_test.find("m").ask({})


@pytest.mark.parametrize(
    ("files", "want"),
    [
        pytest.param({}, "no model file in m: expected handler.py or one of", id="nothing"),
        pytest.param({"a.onnx": "", "b.onnx": ""}, "several files could be the model: a.onnx, b.onnx", id="several"),
        pytest.param({"handler.py": "x = 1"}, "must define one class with load and predict; it has 0", id="no class"),
        pytest.param({"handler.py": "x = ("}, "handler.py cannot be imported: SyntaxError", id="broken"),
        pytest.param({"a.npz": "no archive"}, "cannot load numpy model", id="broken weights"),
    ],
)
async def test_a_directory_that_is_no_model_says_why(tmp_path: Path, files: dict[str, str], want: str) -> None:
    (tmp_path / "m").mkdir()
    for name, text in files.items():
        (tmp_path / "m" / name).write_text(text)
    with pytest.raises(LoadError, match=want):
        await repository(m=tmp_path / "m").load("m")
