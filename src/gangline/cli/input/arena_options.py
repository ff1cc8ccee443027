"""The tables of Arena's flags as options of click."""

from collections.abc import Callable
from typing import Any

import click

from gangline.dialects.arena import Option, Refused, Takes
from gangline.errors import InvalidInputError

Command = Callable[..., Any]


def bound(option: Option) -> Callable[[Command], Command]:
    """Return what gives a command an option of the table."""
    names = [f"--{name}" for name in (option.name, *option.old_names)]
    if option.short:
        names.insert(0, f"-{option.short}")
    return click.option(
        parameter_of(option),
        *names,
        help=f"{option.help[0].upper()}{option.help[1:]}.",
        # None, not False: an option that is expressly no flag may leave out its value, and reads -1 as an option.
        is_flag=True if option.takes is Takes.FLAG else None,
        multiple=option.takes is Takes.MANY,
        type=click.INT if option.takes is Takes.WHOLE else None,
        metavar=None if option.takes in (Takes.FLAG, Takes.WHOLE) else "TEXT",
    )


def refusing(flag: Refused) -> Callable[[Command], Command]:
    """Return what has a command refuse a flag, with what to use instead."""

    def refuse(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
        if is_given(value):
            raise InvalidInputError("Arena's flag is not known here", field=f"--{flag.name}", expected=flag.instead)

    return click.option(
        f"--{flag.name}",
        hidden=True,
        expose_value=False,
        callback=refuse,
        is_flag=True if flag.takes is Takes.FLAG else None,
        multiple=flag.takes is Takes.MANY,
    )


def is_given(value: object) -> bool:
    """Whether an option was on the command line; 0 is a value, though it equals False."""
    return value is not None and value is not False and value != ()


def parameter_of(option: Option) -> str:
    """Return the name by which click hands an option over."""
    return f"arena_{option.name.replace('-', '_')}"
