"""Imports what users add: scheduling plugins that settings name, and the kinds of other packages."""

import logging
from collections.abc import Callable, Mapping
from importlib import import_module

from gangline.kinds import AnyKind, all_kinds, unloadable
from gangline.scheduling import Policies, policies_from

_log = logging.getLogger(__name__)


def usable_kinds() -> tuple[AnyKind, ...]:
    """Return every kind that can be loaded, and put into the log which cannot."""
    for name, reason in unloadable().items():
        _log.error("the kind '%s' is left out; it cannot be loaded: %s", name, reason)
    return all_kinds()


def chosen_policies(settings: Mapping[str, object]) -> Policies:
    """Build the policies that settings describe; raises InvalidInputError."""
    return policies_from(settings, _find)


def _find(name: str) -> Callable[[], object]:
    module, _, attribute = name.partition(":")
    found: Callable[[], object] = getattr(import_module(module), attribute)
    return found
