"""``Idempotency-Key``: a request that is sent again, because its answer was lost, is answered and not done again.

The key belongs to whoever sent it. What succeeded is answered as it was for a day; what failed may be sent again. A
request that died with its service is taken over by the next one with its key: what it makes has an id that follows from
the key, so that it is made once.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus

from aiohttp import web

from gangline.api.bodies import BODY_HASH, body_chunks, whole_body
from gangline.api.identity import account_of
from gangline.api.operation import IDENTITY, Operation
from gangline.api.rest.context import context_of
from gangline.errors import ConflictError, InvalidInputError, KeyReusedError, RequestUnderWayError, StorageError
from gangline.model import Clock
from gangline.storage.answers import KeptAnswer, KeptAnswers

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
"""Says in an answer that it was given before."""

_MOST_CHARACTERS = 255
_KEPT_SECONDS = 86_400.0
_LEASE_SECONDS = 15.0
"""How long after the death of a service its requests may be taken over."""
_MOST_KEPT_CHARACTERS = 1 << 20
_log = logging.getLogger(__name__)

Answering = Callable[[], Awaitable[web.StreamResponse]]


def id_of_key(request: web.Request) -> str | None:
    """Return the id of what a request with a key makes; always the same for the same sender and key."""
    key = request.headers.get(HEADER)
    whole = f"{_sender(request)}\n{key}".encode()
    return None if key is None else f"k{hashlib.sha256(whole).hexdigest()[:20]}"


async def answer_once(
    request: web.Request, operation: Operation, answering: Answering, answers: KeptAnswers
) -> web.StreamResponse:
    """Answer a request, or give the answer again that it had before."""
    key = request.headers.get(HEADER)
    if key is None or context_of(request).rehearsal:
        return await answering()
    if not (0 < len(key) <= _MOST_CHARACTERS and key.isascii() and key.isprintable()):
        raise InvalidInputError("unfit", field=HEADER, expected=f"1 to {_MOST_CHARACTERS} printable ASCII characters")
    head = f"{request.method} {request.path_qs}"
    streamed = operation.body is bytes
    if streamed:
        request[BODY_HASH] = hashlib.sha256()
    digest = head if streamed else f"{head} {hashlib.sha256(await whole_body(request)).hexdigest()}"
    now = context_of(request).clock.now()
    wanted = KeptAnswer(who=_sender(request), key=key, at=now, until=now + _LEASE_SECONDS, digest=digest)
    known = await answers.begin(wanted, since=now - _KEPT_SECONDS)
    if known is not None:
        return await _again(request, known, digest, streamed=streamed)
    return await _first(request, wanted, answering, answers)


async def _first(
    request: web.Request, wanted: KeptAnswer, answering: Answering, answers: KeptAnswers
) -> web.StreamResponse:
    renewing = asyncio.create_task(_renew(wanted, answers, context_of(request).clock))
    response: web.StreamResponse | None = None
    try:
        response = await answering()
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])
        # Whoever has the answer need not be refused because it cannot be kept.
        with suppress(StorageError):
            if response is None or response.status >= HTTPStatus.MULTIPLE_CHOICES:
                await answers.give_up(wanted.who, wanted.key)
            else:
                await answers.finish(_kept(request, wanted, response))
    return response


async def _renew(wanted: KeptAnswer, answers: KeptAnswers, clock: Clock) -> None:
    while True:
        await asyncio.sleep(_LEASE_SECONDS / 3)
        try:
            await answers.finish(replace(wanted, until=clock.now() + _LEASE_SECONDS))
        except StorageError as error:
            _log.warning("the key of a request that lasts could not be kept: %s", error)


def _kept(request: web.Request, wanted: KeptAnswer, response: web.StreamResponse) -> KeptAnswer:
    body = response.body if isinstance(response, web.Response) else None
    text = body.decode() if isinstance(body, bytes) else "" if response.status == HTTPStatus.NO_CONTENT else None
    secret = request.match_info.route.resource is not None and "tokens" in request.path.split("/")
    if secret or (text is not None and len(text) > _MOST_KEPT_CHARACTERS):
        text = None
    digest = f"{wanted.digest} {request[BODY_HASH].hexdigest()}" if BODY_HASH in request else wanted.digest
    return replace(wanted, digest=digest, status=response.status, content_type=response.content_type, body=text)


async def _again(request: web.Request, known: KeptAnswer, digest: str, *, streamed: bool) -> web.Response:
    """Give an answer again, if the request is the same to the last byte."""
    if streamed and known.status is not None:
        async for _ in body_chunks(request):
            pass
        digest = f"{digest} {request[BODY_HASH].hexdigest()}"
    if known.digest != digest:
        raise KeyReusedError(f"this {HEADER} was used for another request; take a new one")
    if known.status is None:
        raise RequestUnderWayError("this very request is being handled; ask again in a second")
    if known.body is None:
        raise ConflictError("this request was done before, and its answer is not kept")
    headers = {REPLAYED: "true"} | ({"Content-Type": known.content_type} if known.body else {})
    return web.Response(body=known.body.encode(), status=known.status, headers=headers)


def _sender(request: web.Request) -> str:
    identity = request.get(IDENTITY)
    return context_of(request).caller.name if identity is None else account_of(identity)
