"""Every block of README.md and docs/ is run as a reader would, in order and from an empty home, or says why not."""

from collections.abc import Callable, Iterator

import pytest
import yaml

from gangline.kinds import registered
from tests.docs.pages import PAGES, ROOT, Block, blocks_of, commands_of, is_as_shown
from tests.docs.reader import Reader
from tests.ps.test_mnist_example import write_images

BLOCKS = {page: found for page in PAGES if (found := blocks_of(page, (ROOT / page).read_text()))}

TRAIN = """
import random
from gangline import runtime
runtime.report(accuracy=random.random())
print("epoch 1 loss 0.31")
"""
"""The training code that the pages of docs/ take for granted; README.md shows its own."""

RULES = """
class CheapestTenant:
    def cost(self, gang, snapshot): return 0.0
class NotOnFridays:
    def refuse(self, *anything): return None
"""
"""The plugins of one's own that docs/scheduling.md speaks of."""


@pytest.fixture
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    # Not tmp_path: with the name of the test in it, a socket's path would be too long.
    reader = Reader(tmp_path_factory.mktemp("page"))
    data = reader.clone / "data" / "mnist"  # where make demo puts the real ones
    data.mkdir(parents=True)
    write_images(data, "train", 400)
    write_images(data, "t10k", 100)
    try:
        yield reader
    finally:
        reader.leave()


@pytest.mark.parametrize("page", [page for page in BLOCKS if any(block.is_run for block in BLOCKS[page])])
def test_a_reader_who_types_every_block_in_order_sees_what_the_page_shows(page: str, reader: Reader) -> None:
    if page != "README.md":
        (reader.clone / "train.py").write_text(TRAIN)
        (reader.clone / "mycompany").mkdir()
        (reader.clone / "mycompany" / "rules.py").write_text(RULES)
    for block in BLOCKS[page]:
        if block.is_run:
            RUN[block.order or block.language](reader, block)


@pytest.mark.parametrize("block", [block for blocks in BLOCKS.values() for block in blocks], ids=str)
def test_every_block_is_run_or_says_why_not(block: Block) -> None:
    if block.is_run:
        assert (block.order or block.language) in RUN, f"{block}: nobody knows how to run ```{block.language}"
    else:
        assert len(block.detail.split()) > 1 or block.order != "not run", f"{block}: give a reason"
    if block.order in ("cluster", "run by") and block.detail:
        test = ROOT / block.detail.split()[0].rstrip(",;")
        assert test.is_file(), f"{block}: name the test that runs it"
        assert block.order == "cluster" or "run_by(__file__)" in test.read_text(), (
            f"{block}: {test.name} runs no blocks"
        )


def _console(reader: Reader, block: Block) -> None:
    for command in commands_of(block.text):
        reader.follow(command)


def _python(reader: Reader, block: Block) -> None:
    (reader.clone / "block.py").write_text(block.text)
    code, printed = reader.type(f"python {reader.clone / 'block.py'}")
    assert code == 0, f"{block}:\n{printed}"


def _file(reader: Reader, block: Block) -> None:
    assert f"`{block.detail}`" in block.before, f"{block}: the text before it does not tell the reader its name"
    (reader.directory / block.detail).write_text(block.text)
    if block.language == "yaml":
        _yaml(reader, block)


def _yaml(reader: Reader, block: Block) -> None:
    (reader.directory / "block.yaml").write_text(block.text)
    found = yaml.safe_load(block.text)
    kind = found.get("kind")
    if kind == "Repeat":
        return  # of a package that this reader has not installed; tests/kinds types it
    verb = f"{kind.lower()} create" if str(kind).lower() in registered() else "submit"
    if "pipelineInfo" in found or "implementation" in found:
        verb = "pipeline run"
    code, printed = reader.type(f"gangline {verb} --dry-run -f block.yaml")
    assert code == 0, f"{block}:\n{printed}"
    (reader.directory / "block.yaml").unlink()


def _settings(reader: Reader, block: Block) -> None:
    path = reader.settings.config_file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text)
    code, printed = reader.type(f"PYTHONPATH={reader.clone} gangline server start && gangline server stop")
    assert code == 0, f"{block}:\n{printed}"


RUN: dict[str, Callable[[Reader, Block], None]] = {
    "console": _console,
    "python": _python,
    "file": _file,
    "yaml": _yaml,
    "settings": _settings,
}


@pytest.mark.parametrize(
    ("shown", "printed", "want"),
    [
        ("tour  QUEUED  0/2  4s ago", "NAME\ntour QUEUED 1/2   1m5s ago", True),
        ("loss 0.25 now", "loss 1e-05 3s ago", True),
        ("tour is HALTING", "tour is HALTED", False),
        ("error: a:6: unknown field, ...", "error: a:7: unknown field, b, c", True),
        ("train-4c1f is QUEUED", "train-00ff is QUEUED", True),
        ("a\na", "a", False),
        ("using /home/ada/x", "using /opt/venv", True),
    ],
)
def test_what_is_shown_is_compared_but_for_numbers_ages_and_paths(shown: str, printed: str, *, want: bool) -> None:
    assert is_as_shown(tuple(shown.splitlines()), printed) is want


@pytest.mark.parametrize(
    "text", ["  ```yaml\na: 1\n  ```\n", "~~~\nx\n~~~\n", "<!-- test: skip -->\n```text\nx\n```\n"]
)
def test_a_block_that_might_be_passed_over_is_refused(text: str) -> None:
    with pytest.raises(AssertionError):
        blocks_of("page.md", text)
