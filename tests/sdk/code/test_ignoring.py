"""Patterns of files to leave out."""

from pathlib import PurePath

import pytest

from gangline.errors import InvalidInputError
from gangline.sdk.code.ignoring import IgnoreRules


@pytest.mark.parametrize(
    ("patterns", "path", "folder", "want_ignored"),
    [
        pytest.param(["*.log"], "a/b/train.log", False, True, id="a name matches at any depth"),
        pytest.param(["*.log"], "train.logs", False, False, id="the whole name must match"),
        pytest.param(["/data"], "data", True, True, id="a leading slash anchors"),
        pytest.param(["/data"], "src/data", True, False, id="an anchored pattern is not found deeper"),
        pytest.param(["data/"], "src/data", True, True, id="a trailing slash matches directories at any depth"),
        pytest.param(["data/"], "data", False, False, id="a trailing slash matches no file"),
        pytest.param(["src/*.py"], "src/a.py", False, True, id="a slash inside anchors"),
        pytest.param(["src/*.py"], "src/deep/a.py", False, False, id="one star stops at a slash"),
        pytest.param(["src/**/*.py"], "src/deep/er/a.py", False, True, id="two stars do not"),
        pytest.param(["src/**/*.py"], "src/a.py", False, True, id="two stars match nothing too"),
        pytest.param(["**/cache"], "x/y/cache", True, True, id="two stars at the beginning"),
        pytest.param(["out/**"], "out/a/b", False, True, id="everything below"),
        pytest.param(["out/**"], "out", True, False, id="but not the directory itself"),
        pytest.param(["file?.txt"], "file1.txt", False, True, id="a question mark is one character"),
        pytest.param(["[ab].txt"], "a.txt", False, True, id="a set"),
        pytest.param(["[!ab].txt"], "a.txt", False, False, id="a set turned round"),
        pytest.param(["*.bin", "!keep.bin"], "x/keep.bin", False, False, id="an exclamation mark takes back"),
        pytest.param(["!keep.bin", "*.bin"], "keep.bin", False, True, id="the last match decides"),
        pytest.param(["# comment", "", "  "], "# comment", False, False, id="comments and empty lines say nothing"),
        pytest.param(["\\#odd"], "#odd", False, True, id="a backslash protects the first character"),
        pytest.param(["a.c"], "abc", False, False, id="a dot is a dot"),
    ],
)
def test_patterns_mean_what_they_mean_elsewhere(
    patterns: list[str], path: str, folder: bool, want_ignored: bool
) -> None:
    assert IgnoreRules(patterns).ignore(PurePath(path), folder=folder) is want_ignored


def test_what_is_no_pattern_is_named() -> None:
    with pytest.raises(InvalidInputError, match=r"'\[z-a\]' is not a pattern"):
        IgnoreRules(["[z-a]"])
