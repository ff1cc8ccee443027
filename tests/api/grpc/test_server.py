"""The gRPC server in front of a team's application: the same rights, the same errors, nothing beside the table."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from aiohttp import web
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from gangline import operations
from gangline.api.ffdl.application import operations_here as ffdl_operations
from gangline.api.grpc.server import RestLink, RpcServer, check_rows
from gangline.api.grpc.trainer import SERVICE as TRAINER
from gangline.api.grpc.trainer import trainer_handler
from gangline.api.origins import telling_origin
from gangline.api.rest.application import all_operations
from gangline.model import JobId, Tenant
from gangline.model.team.access import RIGHTS_OF, Right, Role
from gangline.testing.builders import make_spec
from gangline.wire.rpc.messages import pb
from gangline.wire.rpc.methods import METHODS, Method
from gangline.wire.rpc.refusals import DETAILS
from tests.api.team import OTHER, OWN, TeamOffice
from tests.api.test_escape_matrix import NAME, OWN_NAME, SECRET, furnish

RIGHTS = {(row.method, re.sub(r":[^{}]*\}", "}", row.path)): row.right for row in all_operations()}


@asynccontextmanager
async def serving(office: TeamOffice, directory: Path, **options: Any) -> AsyncIterator[grpc.aio.Channel]:
    app = office.app(**options)
    app.middlewares.insert(0, telling_origin)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    socket = directory / "rest.sock"
    await web.UnixSite(runner, str(socket)).start()
    link = RestLink(socket)
    server = RpcServer(link, all_operations(), **{TRAINER: trainer_handler(link, ffdl_operations())})
    try:
        port = await server.start("127.0.0.1:0", None)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop()
        await runner.cleanup()


@pytest.fixture
async def office(tmp_path: Path) -> TeamOffice:
    office = TeamOffice(tmp_path)
    await furnish(office)
    return office


async def call(channel: grpc.aio.Channel, method: Method, message: Any, token: str | None) -> tuple[Any, str]:
    """Call a method and return its code and all that it said; of a stream, up to the first message."""
    metadata = () if token is None else (("authorization", f"Bearer {token}"),)
    codec = (method.request.SerializeToString, method.answer.FromString)
    try:
        if method.uploads:
            return grpc.StatusCode.OK, str(
                await channel.stream_unary(method.full_name, *codec)(iter([message]), metadata=metadata)
            )
        if method.streams:
            stream = channel.unary_stream(method.full_name, *codec)(message, metadata=metadata)
            # One that is served begins, whether or not there is anything to say.
            begun = dict(await stream.initial_metadata())
            if "gangline-version" in begun:
                stream.cancel()
                return grpc.StatusCode.OK, ""
            return await stream.code(), await stream.details()
        return grpc.StatusCode.OK, str(await channel.unary_unary(method.full_name, *codec)(message, metadata=metadata))
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details() or ""


def request_of(method: Method, tenant: Tenant, name: str) -> Any:
    fixed = {"digest": "ab" * 32, "number": "1", "alias": "best", "verb": "stop", "token": "nobody", "tenant": tenant}
    return method.request(**{place: fixed.get(place, name) for place in method.places})


async def test_nobody_gets_in_without_a_valid_token(office: TeamOffice, tmp_path: Path) -> None:
    escaped = []
    async with serving(office, tmp_path) as channel:
        for method in METHODS.values():
            if RIGHTS[method.verb, method.path] is Right.ANYONE:
                continue
            for token in (None, "gangline_000000000000_wrong"):
                code, _ = await call(channel, method, request_of(method, OWN, OWN_NAME), token)
                if code is not grpc.StatusCode.UNAUTHENTICATED:
                    escaped.append((method.name, token, code))
    assert not escaped


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER])
async def test_a_role_can_do_what_its_row_says_in_its_own_tenant_and_nothing_elsewhere(
    office: TeamOffice, tmp_path: Path, role: Role
) -> None:
    token, wrong = await office.token("somebody", role, OWN), []
    async with serving(office, tmp_path) as channel:
        for method in METHODS.values():
            right = RIGHTS[method.verb, method.path]
            for tenant in (OTHER, OWN):
                mine = right in RIGHTS_OF[role] and (tenant == OWN or "tenant" not in method.places)
                code, text = await call(channel, method, request_of(method, tenant, NAME), token)
                denied = code is grpc.StatusCode.PERMISSION_DENIED
                if denied == (mine or right is Right.ANYONE):
                    wrong.append(("decided", method.name, tenant, code, text))
                if code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE):
                    wrong.append(("failed", method.name, tenant, code, text))
                if SECRET in text.replace(NAME, "") or (code is grpc.StatusCode.OK and SECRET in text):
                    wrong.append(("leaked", method.name, tenant, code, text))
    assert not wrong, "\n".join(map(str, wrong))


async def test_a_refusal_has_the_error_with_its_facts(office: TeamOffice, tmp_path: Path) -> None:
    token, method = await office.token("m", Role.MEMBER, OWN), METHODS["CreateJob"]
    async with serving(office, tmp_path) as channel:
        ask = channel.unary_unary(method.full_name, method.request.SerializeToString, method.answer.FromString)
        message = method.request(tenant=OWN, id="j1")
        message.body.update({"metadata": {"name": "x", "tenant": OWN}, "spec": {"comand": ["true"]}})
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await ask(message, metadata=(("authorization", f"Bearer {token}"),))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    status = pb.Status.FromString(dict(caught.value.trailing_metadata() or ())[DETAILS])
    error = pb.Error()
    assert status.details[0].Unpack(error)
    assert (error.type, error.facts["suggestion"].string_value) == ("InvalidInputError", "command")


async def test_a_change_is_in_the_audit_record_with_where_it_came_from(office: TeamOffice, tmp_path: Path) -> None:
    token, method = await office.token("m", Role.MEMBER, OWN), METHODS["CancelJob"]
    async with serving(office, tmp_path) as channel:
        code, _ = await call(channel, method, method.request(tenant=OWN, job=OWN_NAME), token)
    assert code is grpc.StatusCode.OK
    (entry,) = await office.audit.read(None, before=None, limit=1)
    assert (entry.who, entry.origin, entry.path) == (
        "token:m",
        "127.0.0.1",
        f"/api/v1/tenants/{OWN}/jobs/{OWN_NAME}/cancel",
    )


async def test_watching_tells_of_a_change_and_ends_with_its_token(office: TeamOffice, tmp_path: Path) -> None:
    token, method = await office.token("m", Role.MEMBER, OWN), METHODS["WatchJobs"]
    async with serving(office, tmp_path, again_seconds=0.05) as channel:
        watch = channel.unary_stream(method.full_name, method.request.SerializeToString, method.answer.FromString)
        stream = watch(method.request(tenant=OWN), metadata=(("authorization", f"Bearer {token}"),))
        first = await stream.read()
        assert first.job.metadata.name == OWN_NAME
        spec = replace(make_spec(), name="next", tenant=OWN)
        await operations.submit(office.context("root"), JobId("j-next"), spec)
        assert (await stream.read()).job.metadata.name == "next"
        await operations.revoke_token(office.context("root"), OWN, "m")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_health_and_reflection_need_no_token(office: TeamOffice, tmp_path: Path) -> None:
    async with serving(office, tmp_path) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest(service="gangline.v1.Gangline"))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        (found,) = [answer async for answer in reflection.ServerReflectionInfo(iter([asked]))]
        assert "gangline.v1.Gangline" in {each.name for each in found.list_services_response.service}


@pytest.mark.parametrize("seconds", [2**62, -(2**62)])
async def test_a_message_that_makes_no_sense_is_refused(office: TeamOffice, tmp_path: Path, seconds: int) -> None:
    token, method = await office.token("m", Role.MEMBER, OWN), METHODS["ListJobs"]
    message = method.request(tenant=OWN)
    message.created_since.seconds = seconds
    async with serving(office, tmp_path) as channel:
        code, _ = await call(channel, method, message, token)
    assert code is grpc.StatusCode.INVALID_ARGUMENT


def test_a_method_without_a_row_does_not_start() -> None:
    rows = [row for row in all_operations() if not row.path.endswith("/cancel")]
    with pytest.raises(RuntimeError, match="CancelJob"):
        check_rows(rows)
