"""``dryRun``: everything is checked and answered, and nothing is changed."""

from aiohttp import web

from gangline.api.operation import Operation
from gangline.api.rest.context import CONTEXT, context_of
from gangline.api.rest.parameters import DRY_RUN, Parameters
from gangline.errors import InvalidInputError
from gangline.operations import rehearsing


def is_trial(request: web.Request) -> bool:
    """Whether a change is only tried."""
    return Parameters(request).parsed(DRY_RUN, _read, "All or true, or false") or False


def try_only(request: web.Request, operation: Operation) -> None:
    """Have a handler work on records that are forgotten, if its request says so."""
    if not is_trial(request):
        return
    if not operation.rehearsable:
        raise InvalidInputError("this cannot be tried", field=DRY_RUN, expected="no dry run")
    request[CONTEXT] = rehearsing(context_of(request))


def _read(text: str) -> bool:
    return {"all": True, "true": True, "1": True, "false": False, "0": False}[text.lower()]
