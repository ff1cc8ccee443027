"""Messages, help texts and pages keep to docs/words.md."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = sorted((ROOT / "src" / "gangline").rglob("*.py"))

REFUSED = {
    "is no X": r"(?<!here )\bis no (?!longer\b|more\b|other\b|such\b|way\b)[a-z]",
    "present directory": r"present directory",
    "worker least": r"\bworkers? least\b|how few workers",
    "its log has the details": r"log has the details|service's log",
    "a defect of its own": r"defect of (its own|Gangline)",
    "so often": r"\b(only|how|at most|show|for at least) so (often|many|long)\b|\bso often[;.]",
    "for ever": r"\bfor ever\b",
    "bears the id": r"\bbears the (id|name)\b",
}


def texts_of(source: Path) -> Iterator[tuple[int, str]]:
    """Every text that a module says, and its docstrings: all strings with a space in them."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def refused_in(text: str) -> list[str]:
    return [name for name, pattern in REFUSED.items() if re.search(pattern, " ".join(text.split()), re.IGNORECASE)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_says_what_we_do_not_say(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.name == "words.md":
        text = text.partition("| we do not say |")[0]
    assert refused_in(text) == []


def test_no_module_says_what_we_do_not_say() -> None:
    said = [
        f"{source.relative_to(ROOT)}:{line}: {', '.join(found)}"
        for source in SOURCES
        for line, text in texts_of(source)
        if (found := refused_in(text))
    ]
    assert said == []


@pytest.mark.parametrize("text", ["'x' is no number", "Ship the present\ndirectory", "it would wait for ever"])
def test_a_refused_phrase_is_found(text: str) -> None:
    assert refused_in(text) != []


@pytest.mark.parametrize("text", ["there is no queue 'x'", "the job is no longer there", "'x' is not a number"])
def test_good_english_is_left_alone(text: str) -> None:
    assert refused_in(text) == []
