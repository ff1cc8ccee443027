"""What kinds are called on the pages: words of English, made from the name that their files have."""

import re

from gangline.kinds import AnyKind

_OTHERWISE = {
    "experiment": "Katib experiment",
    "runexperiment": "run group",
    "templateversion": "template version",
    "schedule": "pipeline schedule",
}
"""Kinds whose name is not a word, or would be taken for another page's."""


def one_of(kind: AnyKind) -> str:
    """One of a kind, as in a sentence: ``inference service``."""
    parts = re.findall(r"[A-Z]?[^A-Z]+|[A-Z]+", kind.object_kind)
    return _OTHERWISE.get(kind.name) or " ".join(parts).lower()


def many_of(kind: AnyKind) -> str:
    """Several of them: ``inference services``. Only the last word has a plural."""
    one = one_of(kind)
    last = one.rpartition(" ")[2]
    ending = kind.plural.rpartition(last)[2] if last in kind.plural else "s"
    return one + ending


def title_of(kind: AnyKind) -> str:
    """The heading of its pages."""
    many = many_of(kind)
    return many[0].upper() + many[1:]


def command_of(kind: AnyKind) -> tuple[str, ...]:
    """The words of its commands, after ``gangline``."""
    return tuple((kind.command or kind.name).split())
