"""Docstrings as Sphinx reads them, and a site that needs nobody else's server."""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import SphinxError

_INDENTED_CODE = re.compile(r"(?<![:\n])\n\n(?=    \S)")
_LOADED_FROM_ELSEWHERE = re.compile(
    r"<(?:script|img|iframe)[^>]+src=\"(?:https?:)?//[^\"]+|<link[^>]+href=\"(?:https?:)?//[^\"]+"
    r"|url\(['\"]?(?:https?:)?//[^)]+|@import[^;]+//[^;]+"
)


def read_docstring(app: Sphinx, what: str, name: str, found: object, options: object, lines: list[str]) -> None:  # noqa: PLR0917 -- as Sphinx calls it
    """Take an indented block after a paragraph for an example, as people read it, and not for a quotation."""
    lines[:] = _INDENTED_CODE.sub("::\n\n", "\n".join(lines)).splitlines()


def refuse_what_is_elsewhere(app: Sphinx, failure: Exception | None) -> None:
    """Fail the build if a page would load a script, a style, a font or a picture from another site."""
    for file in sorted(Path(app.outdir).rglob("*")):
        if failure is None and file.suffix in (".html", ".css"):
            for place in _LOADED_FROM_ELSEWHERE.findall(file.read_text(encoding="utf-8")):
                raise SphinxError(f"{file.relative_to(app.outdir)} loads {place} from elsewhere")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect both; called by Sphinx."""
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("build-finished", refuse_what_is_elsewhere)
    return {"parallel_read_safe": True}
