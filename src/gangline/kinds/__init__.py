"""What a kind is, and the registration of each: names, file format, columns, verbs and a pure plan.

Everything else follows from a registration: the record in every store, the custom resource, the REST routes, the verbs
of the SDK and of the command line, and the driver that runs the plan. ``docs/adding-a-kind.md`` walks through it.
Nothing here reads a clock, a file or a socket. Names are imported when they are used: ``gangline --help`` asks which
kinds there are, and needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from gangline.kinds.registry import all_kinds, kind_named, kind_of_spec, registered, unloadable

if TYPE_CHECKING:
    from gangline.kinds.derived import derived_format
    from gangline.kinds.kind import (
        AnyKind,
        Column,
        FileFormat,
        Kind,
        NewJob,
        NewRecord,
        Owned,
        Plan,
        Reader,
        Scope,
        Verb,
    )

__all__ = [
    "AnyKind",
    "Column",
    "FileFormat",
    "Kind",
    "NewJob",
    "NewRecord",
    "Owned",
    "Plan",
    "Reader",
    "Scope",
    "Verb",
    "all_kinds",
    "derived_format",
    "kind_named",
    "kind_of_spec",
    "registered",
    "unloadable",
]


def __getattr__(name: str) -> object:
    """Import what is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "derived" if name == "derived_format" else "kind"
    return getattr(import_module(f"{__name__}.{module}"), name)
