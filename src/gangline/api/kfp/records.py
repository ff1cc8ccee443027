"""Handlers that are the same for records of every kind: get one, delete it, do a verb to it, answer with a page."""

from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web

from gangline import operations
from gangline.api.kfp.answers import Plain, answer
from gangline.api.kfp.requests import context_of, find
from gangline.api.operation import Handler
from gangline.kinds import Kind
from gangline.model.record import Record

Write = Callable[[web.Request, Any], Plain]


async def found(request: web.Request, kind: Kind[Any, Any, Any]) -> Record[Any, Any]:
    """Return the record that the path names."""
    return await find(request, kind, request.match_info["id"])


def getting(kind: Kind[Any, Any, Any], write: Write) -> Handler:
    """Return what answers with one record."""

    async def get(request: web.Request) -> web.Response:
        return answer(write(request, await found(request, kind)))

    return get


def deleting(kind: Kind[Any, Any, Any]) -> Handler:
    """Return what deletes one record."""

    async def delete(request: web.Request) -> web.Response:
        record = await found(request, kind)
        await operations.delete_record(context_of(request), kind, record.tenant, record.name)
        return answer()

    return delete


def doing(kind: Kind[Any, Any, Any], verb: str) -> Handler:
    """Return what does a verb of the kind to one record."""

    async def do(request: web.Request) -> web.Response:
        record = await found(request, kind)
        await operations.do_verb(context_of(request), kind, record.tenant, record.name, verb)
        return answer()

    return do


def page_answer(name: str, page: Sequence[Plain], token: str | None, total: int) -> web.Response:
    """Answer with a page of a list, and how to ask for the next."""
    return answer({name: page, "total_size": total, **({"next_page_token": token} if token else {})})
