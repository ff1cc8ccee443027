"""Elements as values, and the text that a browser reads. Whatever is put into an element is text, never markup.

``h.td("a < b", cls="wide")`` is an element. What the content security policy forbids cannot be written: event handlers
and style attributes are refused, and so are addresses of other schemes than http and https.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Union

Node = Union["Element", "Rendered", str, int, float, None, Iterable["Node"]]
Attribute = str | int | float | bool | None

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
_ADDRESSES = frozenset({"href", "src", "action", "formaction", "data-hx-get", "data-hx-post"})
_SCHEMES = ("/", "#", "?", "http://", "https://")


@dataclass(frozen=True, slots=True)
class Element:
    """One element with its attributes and children."""

    tag: str
    attributes: tuple[tuple[str, str | None], ...]
    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Rendered:
    """What ``render`` has written, to be part of a page without being written again. Never others' text."""

    text: str


class _Maker:
    """Makes elements: ``h.div(...)``. ``cls`` is class, a trailing ``_`` is dropped, other ``_`` are dashes."""

    def __getattr__(self, tag: str) -> Callable[..., Element]:
        written_tag = tag.replace("_", "-")

        def make(*children: Node, **attributes: Attribute) -> Element:
            written: list[tuple[str, str | None]] = []
            for given, value in attributes.items():
                if value is None or value is False:
                    continue
                name, text = _attribute_name(given), None if value is True else str(value)
                if name in _ADDRESSES:
                    _check_address(name, text)
                written.append((name, text))
            return Element(written_tag, tuple(written), children)

        setattr(self, tag, make)  # a large page has thousands of each
        return make


h = _Maker()


def render(node: Node) -> str:
    """Write a node and everything in it."""
    parts: list[str] = []
    _write(node, parts)
    return "".join(parts)


def document(node: Node) -> str:
    """Write a whole page."""
    return f"<!doctype html>\n{render(node)}\n"


@cache
def _attribute_name(given: str) -> str:
    name = "class" if given == "cls" else given.removesuffix("_").replace("_", "-")
    if name.startswith("on") or name == "style":
        raise ValueError(f"the content security policy forbids the attribute '{name}'")
    return name


def _check_address(name: str, text: str | None) -> None:
    if text is not None and not text.startswith(_SCHEMES):
        raise ValueError(f"'{text}' is not an address for the attribute '{name}'")


def _escaped(text: str) -> str:
    """The same as ``escape``: most values are short words that have nothing to escape."""
    return text if text.isalnum() else escape(text)


def _write(node: Node, parts: list[str]) -> None:
    if node is None:
        return
    if isinstance(node, Element):
        parts.append(f"<{node.tag}")
        for name, text in node.attributes:
            parts.append(f" {name}" if text is None else f' {name}="{_escaped(text)}"')
        parts.append(">")
        if node.tag in _VOID:
            return
        for child in node.children:
            _write(child, parts)
        parts.append(f"</{node.tag}>")
    elif isinstance(node, str):
        parts.append(escape(node, quote=False))
    elif isinstance(node, Rendered):
        parts.append(node.text)
    elif isinstance(node, int | float):
        parts.append(str(node))
    else:
        for child in node:
            _write(child, parts)
