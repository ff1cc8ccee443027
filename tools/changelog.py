"""Makes CHANGELOG.md from the fragments in changelog.d.

    python -m tools.changelog check               refuse fragments with a wrong name or no text; part of make check
    python -m tools.changelog fold X.Y.Z DATE     write the entry of a version and delete its fragments

A version whose entry stands in CHANGELOG.md as "unreleased" was written by hand: it gets its date, and the fragments go
without being copied. So it is with the first release, for which hundreds of repairs of what nobody had yet are no news.
"""

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHANGELOG = "CHANGELOG.md"
FRAGMENTS = "changelog.d"
KINDS = ("added", "changed", "fixed", "removed")
UNRELEASED = "unreleased"
_NAME = re.compile(rf"[a-z0-9]+(-[a-z0-9]+)*\.({'|'.join(KINDS)})\.md")
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_ENTRY = re.compile(r"^## (?P<version>\S+) \((?P<date>[^)]*)\)$", re.MULTILINE)


class ChangelogError(Exception):
    """What must be mended by hand first."""


def fragments(root: Path) -> dict[str, str]:
    """Return the texts of all fragments by file name; raise ChangelogError naming every one that is wrong."""
    found, wrong = {}, []
    for path in sorted((root / FRAGMENTS).iterdir()):
        if path.name == "README.md":
            continue
        text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
        if not _NAME.fullmatch(path.name):
            wrong.append(f"{FRAGMENTS}/{path.name}: expected TOPIC.KIND.md, the kind one of {', '.join(KINDS)}")
        elif not text:
            wrong.append(f"{FRAGMENTS}/{path.name}: no text")
        elif re.search(r"^(#|[-*] )", text, re.MULTILINE):
            wrong.append(f"{FRAGMENTS}/{path.name}: headings and lists are the changelog's own; write sentences")
        found[path.name] = text
    if wrong:
        raise ChangelogError("\n".join(wrong))
    return found


def entry(version: str, date: str, texts: Mapping[str, str]) -> str:
    """Return the entry of a version: what was added first, then the other kinds."""
    lines = [f"## {version} ({date})", ""]
    for kind in KINDS:
        chosen = [text for name, text in sorted(texts.items()) if name.endswith(f".{kind}.md")]
        if chosen:
            lines += [f"### {kind.capitalize()}", ""]
            lines += ["- " + text.replace("\n", "\n  ") for text in chosen]
            lines.append("")
    return "\n".join(lines) + "\n"


def folded(changelog: str, version: str, date: str, texts: Mapping[str, str]) -> str:
    """Return the changelog with the version's entry."""
    if not _VERSION.fullmatch(version):
        raise ChangelogError(f"{version} is not a version; expected one such as 0.2.0")
    dates = {found["version"]: found["date"] for found in _ENTRY.finditer(changelog)}
    if dates.get(version) == UNRELEASED:
        return changelog.replace(f"## {version} ({UNRELEASED})", f"## {version} ({date})")
    if version in dates:
        raise ChangelogError(f"{version} was released on {dates[version]}; choose a later version")
    if not texts:
        raise ChangelogError(f"nothing to tell of {version}: there are no fragments")
    first = _ENTRY.search(changelog)
    position = first.start() if first else len(changelog)
    return f"{changelog[:position]}{entry(version, date, texts)}{changelog[position:]}".rstrip() + "\n"


def fold(root: Path, version: str, date: str) -> str:
    """Write the entry, delete the fragments, and say what was done."""
    texts = fragments(root)
    path = root / CHANGELOG
    before = path.read_text(encoding="utf-8")
    path.write_text(folded(before, version, date, texts), encoding="utf-8")
    for name in texts:
        (root / FRAGMENTS / name).unlink()
    by_hand = f"## {version} ({UNRELEASED})" in before
    return f"{version}: {len(texts)} fragments " + ("dropped, the entry is written by hand" if by_hand else "folded in")


def released(root: Path, version: str) -> None:
    """Raise ChangelogError unless the version has a dated entry and no fragment is left."""
    if left := fragments(root):
        raise ChangelogError(f"{len(left)} fragments are left: make changelog VERSION={version}")
    dates = {found["version"]: found["date"] for found in _ENTRY.finditer((root / CHANGELOG).read_text())}
    if dates.get(version, UNRELEASED) == UNRELEASED:
        raise ChangelogError(f"{CHANGELOG} has no dated entry of {version}: make changelog VERSION={version}")


def main(arguments: list[str] | None = None) -> None:
    """Check or fold."""
    parser = argparse.ArgumentParser(prog="changelog", description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("check")
    folding = verbs.add_parser("fold")
    folding.add_argument("version")
    folding.add_argument("date")
    options = parser.parse_args(arguments)
    try:
        if options.verb == "check":
            fragments(ROOT)
        else:
            print(fold(ROOT, options.version, options.date))
    except ChangelogError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
