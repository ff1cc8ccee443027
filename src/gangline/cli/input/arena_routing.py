"""Whether ``gangline submit`` or ``serve`` is meant in Arena's way: a verb first, or ``--mode`` of early Arena."""

from collections.abc import Collection, Sequence

from gangline.dialects.arena.options import MODES, OPTIONS, VERB_NAMES, Takes, Verb
from gangline.dialects.arena.refused_verbs import refuse_verb
from gangline.dialects.arena.serve_options import REFUSED_SERVE_VERBS, SERVE_NAMES, ServeVerb
from gangline.errors import InvalidInputError

_VALUED = frozenset(
    f"--{name}" for option in OPTIONS if option.takes is not Takes.FLAG for name in (option.name, *option.old_names)
)
_MODE = "--mode"


def arena_verb(arguments: Sequence[str], valued: Collection[str] = ()) -> tuple[Verb, list[str]] | None:
    """Return the verb and the arguments without it; None if this is not a command of Arena's.

    ``valued`` are further options that take a value. Nothing past the first word that is neither an option nor the
    value of one is looked at: it begins the user's own command, whose options are not ours.
    """
    refuse_verb(arguments)
    if arguments and arguments[0] in VERB_NAMES:
        return VERB_NAMES[arguments[0]], list(arguments[1:])
    taking = _VALUED | frozenset(valued) | {_MODE}
    place = 0
    while place < len(arguments) and arguments[place].startswith("-") and arguments[place] != "--":
        name, equals, value = arguments[place].partition("=")
        width = 1 if equals or name not in taking else 2
        if name == _MODE:
            mode = value if equals else "".join(arguments[place + 1 : place + 2])
            return (MODES[mode], [*arguments[:place], *arguments[place + width :]]) if mode in MODES else None
        place += width
    return None


def arena_serve_verb(arguments: Sequence[str]) -> ServeVerb | None:
    """Return the verb of ``serve``; None if this is not a command of Arena's, but a model or a program."""
    first, flagged = arguments[0], any(word.startswith("--") for word in arguments[1:2])
    if flagged and first in REFUSED_SERVE_VERBS:
        problem, instead = "Arena's verb is not known here", REFUSED_SERVE_VERBS[first]
        raise InvalidInputError(problem, field=f"serve {first}", expected=instead)
    return SERVE_NAMES.get(first) if flagged else None
