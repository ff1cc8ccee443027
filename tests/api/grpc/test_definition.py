"""The .proto follows from the table of operations, and what it has promised once it keeps."""

import pytest
from aiohttp import web

from gangline.api.grpc.definition import proto
from gangline.api.operation import get, post
from gangline.api.rest.application import all_operations
from gangline.model.team.access import Right
from gangline.model.team.token import Token
from gangline.wire.rpc.methods import METHODS
from tools import rpc


async def handler(request: web.Request) -> web.Response:
    """Do something."""
    return web.Response()


def written(query: dict[str, type], before: str = "") -> str:
    row = get(Right.READ, "/tenants/{tenant}/things", handler, query=query, answer=list[Token])
    return proto([row], rpc.numbers_in(before))


def test_the_file_is_what_the_table_says() -> None:
    assert rpc.FILE.read_text() == rpc.text(), "run python -m tools.rpc and then tools.protos"


def test_every_row_has_its_method() -> None:
    rows = {(row.method, row.path.replace(":[0-9]+", "")) for row in all_operations()} - {("GET", "/openapi.json")}
    assert rows == {(method.verb, method.path) for method in METHODS.values()}


def test_a_field_keeps_its_number_when_others_come_before_it() -> None:
    first = written({"after": str})
    assert "optional string after = 2;" in first
    then = written({"limit": int, "after": str}, first)
    assert "optional string after = 2;" in then
    assert "optional int64 limit = 3;" in then


def test_a_number_that_was_given_is_never_given_again() -> None:
    first = written({"after": str, "limit": int})
    gone = written({"after": str}, first)
    assert "reserved 3;" in gone
    again = written({"after": str, "text": str}, gone)
    assert "reserved 3;" in again
    assert "optional string text = 4;" in again


def test_choices_are_enumerations_with_their_text() -> None:
    assert 'ROLE_VIEWER = 1 [(text) = "viewer"];' in written({})


def test_two_operations_of_one_name_are_refused() -> None:
    rows = [post(Right.READ, path, handler) for path in ("/a/{x}/stop", "/a/stop")]
    with pytest.raises(TypeError, match="StopA"):
        proto(rows, {})
