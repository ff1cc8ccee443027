"""Blocks of the manual that need a cluster, typed in order on a real one by its administrator, from an empty home."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import PAGES, ROOT, Block, Command, blocks_of, commands_of
from tests.docs.reader import Reader
from tests.ps.test_mnist_example import write_images
from tools.cluster.build import binaries_folder
from tools.cluster.pytest_plugin import ClusterUnderTest

pytestmark = [pytest.mark.kubernetes, pytest.mark.alone]

CONTEXTS = ("gangline-default", "prod")
"""What the pages call the reader's cluster."""

IMAGES = ("acme/gangline:1", "acme/gangline:0.2.0", "acme/python:1")
"""What they call an image with Gangline in it."""

TRAIN = """
import time
from gangline import runtime
me = runtime.current()
print(f"I am {me.role}-{me.index} of first", flush=True)
time.sleep(600)
"""

JOB = {
    "apiVersion": "gangline.dev/v1",
    "kind": "Job",
    "metadata": {"name": "mnist"},
    "spec": {"command": ["sleep", "600"], "resources": {"cpu": "100m"}},
}

BLOCKS = {
    page: found
    for page in PAGES
    if (
        found := [
            block
            for block in blocks_of(page, (ROOT / page).read_text())
            if block.order == "cluster" and not block.detail
        ]
    )
}


@pytest.fixture
def reader(
    kubernetes_cluster: ClusterUnderTest, kubernetes_python_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reader]:
    place = tmp_path_factory.mktemp("page")
    config = yaml.safe_load(kubernetes_cluster.kubeconfig.read_text())
    current = next(item["context"] for item in config["contexts"] if item["name"] == config["current-context"])
    config["contexts"] = [{"name": name, "context": current} for name in CONTEXTS]
    config["current-context"] = CONTEXTS[0]
    (place / "kubeconfig").write_text(yaml.safe_dump(config))
    reader = Reader(place, KUBECONFIG=str(place / "kubeconfig"))
    reader.type(f"export PATH=$PATH:{binaries_folder()}")
    data = reader.clone / "data" / "mnist"
    data.mkdir(parents=True)
    write_images(data, "train", 400)
    write_images(data, "t10k", 100)
    (reader.clone / "train.py").write_text(TRAIN)
    (reader.clone / "job.yaml").write_text(yaml.safe_dump(JOB))
    try:
        yield reader
    finally:
        _, said = reader.type("gangline uninstall --context prod --yes")
        reader.leave()
        assert "error" not in said, said


@pytest.mark.parametrize("page", BLOCKS)
def test_an_administrator_who_types_every_block_sees_what_the_page_shows(
    page: str, reader: Reader, kubernetes_python_image: str
) -> None:
    if not BLOCKS[page][0].text.startswith("$ gangline install"):
        code, said = reader.type(f"gangline install --context prod --image {kubernetes_python_image}")
        assert code == 0, said
    for block in BLOCKS[page]:
        if block.language == "yaml":
            _apply(reader, block)
            continue
        for command in commands_of(block.text):
            reader.follow(_here(command, kubernetes_python_image))


def _here(command: Command, image: str) -> Command:
    text = command.text
    for name in IMAGES:
        text = text.replace(name, image)
    return Command(text=text, shown=command.shown)


def _apply(reader: Reader, block: Block) -> None:
    Path(reader.directory / "block.yaml").write_text(block.text)
    code, said = reader.type("kubectl apply -f block.yaml")
    assert code == 0, f"{block}:\n{said}"
