"""Reading the blocks of a Markdown page, and what an invisible comment before one says to do with it.

    <!-- test: file NAME -->       the reader puts it into the file NAME, which the text before must mention
    <!-- test: settings -->        the reader puts it into the configuration file
    <!-- test: cluster -->         typed on a real cluster by tests/integration/kubernetes/test_whole_pages.py
    <!-- test: cluster: WHERE -->  needs a cluster of another kind; WHERE names the test that does the same there
    <!-- test: run by PATH -->     needs what PATH, a file of tests, has: it runs the blocks that name it (``run_by``)
    <!-- test: not run: REASON --> a drawing, or a reason why nobody can run it here

A block without a comment is run: ``console`` line by line, ``python`` as a program; ``yaml`` is checked.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")))

_ORDER = re.compile(r"<!-- test: (?P<order>file|settings|cluster|run by|not run)(?P<rest>[: ].*)? -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block: where it stands, what it holds, what is to be done with it, and the text before it."""

    page: str
    line: int
    language: str
    text: str
    order: str = ""
    detail: str = ""
    before: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_run(self) -> bool:
        """Whether a reader on one machine can do something with it."""
        return self.order not in ("cluster", "run by", "not run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of a ``console`` block, and what the page shows of its output."""

    text: str
    shown: tuple[str, ...]


def run_by(test: str) -> list[Block]:
    """Return the blocks of all pages that a file of tests is to run; ``test`` is its ``__file__``."""
    name = str(Path(test).relative_to(ROOT))
    found = [block for page in PAGES for block in blocks_of(page, (ROOT / page).read_text())]
    return [block for block in found if (block.order, block.detail) == ("run by", name)]


def blocks_of(page: str, text: str) -> list[Block]:
    """Return every block of a page in its order."""
    lines, found, before = text.splitlines(), [], []
    numbers = iter(range(len(lines)))
    for number in numbers:
        if not lines[number].lstrip().startswith(("```", "~~~")):
            before.append(lines[number])
            continue
        assert lines[number].startswith("```"), f"{page}:{number + 1}: begin a block with ``` at the margin"
        body = []
        for inner in numbers:
            if lines[inner] == "```":
                break
            body.append(lines[inner])
        if lines[number].startswith("```{"):
            continue  # an instruction to whatever builds the site, which tells readers nothing
        said = _ORDER.fullmatch(before[-1]) if before else None
        assert said or not before or "<!--" not in before[-1], f"{page}:{number}: nobody knows what {before[-1]} means"
        found.append(
            Block(
                page=page,
                line=number + 1,
                language=lines[number].removeprefix("```"),
                text="\n".join(body) + "\n",
                order=said["order"] if said else "",
                detail=(said["rest"] or "").strip(": ") if said else "",
                before="\n".join(before),
            )
        )
        before = []
    return found


def commands_of(text: str) -> Iterator[Command]:
    """Return the commands of a ``console`` block."""
    prompt, *parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not prompt.strip(), f"output before the first command: {prompt!r}"
    for part in parts:
        command, *shown = part.splitlines()
        yield Command(text=command, shown=tuple(line for line in shown if line.strip()))


def is_as_shown(shown: tuple[str, ...], printed: str) -> bool:
    """Whether everything a page shows was printed, in whatever order and among whatever else."""
    left = [" ".join(line.split()) for line in printed.splitlines()]
    for line in shown:
        if line.strip() == "...":
            continue
        pattern = _pattern(" ".join(line.split()))
        match = next((candidate for candidate in left if pattern.fullmatch(candidate)), None)
        if match is None:
            return False
        left.remove(match)
    return True


_LOOSE = {
    r"/home/ada\S*": r"\S+",
    r"\S+ ago|\bnow\b": r"(?:\S+ ago|now)",
    r"-[0-9a-f]{4}\b|-[0-9a-f]{6}\b": r"-[0-9a-f]+",
    r"\d+(?:\.\d+)*": r"[0-9.e+-]+",
    r"\.\.\.$": r".*",
}
"""What may differ from one machine and moment to the next: paths, ages, made-up names, numbers, what is left out."""


def _pattern(line: str) -> re.Pattern[str]:
    parts = re.split("(" + "|".join(_LOOSE) + ")", line)
    for number in range(1, len(parts), 2):
        parts[number] = next(instead for what, instead in _LOOSE.items() if re.fullmatch(what, parts[number]))
    return re.compile("".join(part if number % 2 else re.escape(part) for number, part in enumerate(parts)))
