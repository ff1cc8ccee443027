"""TLS: certificates as the table names them, chosen by the name that the client asks for."""

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest

from gangline.model.routing import Backend, Certificate, RoutingTable
from tests.router.conftest import Routed, service


def _certificate(folder: Path, name: str) -> Certificate:
    files = Certificate(certificate=str(folder / f"{name}.pem"), key=str(folder / f"{name}.key"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
         f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", files.key, "-out", files.certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return files


async def test_each_service_shows_its_own_certificate(tmp_path: Path, free_port: int) -> None:
    routed = Routed(tmp_path)
    await routed.start(listen_tls=("127.0.0.1", free_port))
    try:
        own = _certificate(tmp_path, "digits.localhost")
        everybody = _certificate(tmp_path, "letters.localhost")
        backend = await routed.backend()
        table = RoutingTable(tls=everybody)
        await routed.route(service(backend, tls=own), service(backend, name="letters"), table=table)
        for name, files in (("digits.localhost", own), ("letters.localhost", everybody)):
            context = ssl.create_default_context(cafile=files.certificate)
            reader, writer = await asyncio.open_connection("127.0.0.1", free_port, ssl=context, server_hostname=name)
            writer.write(f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
            assert (await reader.read()).endswith(b"one")
            writer.close()
            await writer.wait_closed()
    finally:
        await routed.stop()


async def test_calls_of_grpc_pass_with_tls_and_others_are_offered_http_1(routed: Routed, free_port: int) -> None:
    import grpc

    async def answer(message: bytes, _: object) -> bytes:
        return message

    backend = grpc.aio.server()
    handler = {"Once": grpc.unary_unary_rpc_method_handler(answer)}
    backend.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handler),))
    address = f"127.0.0.1:{backend.add_insecure_port('127.0.0.1:0')}"
    await backend.start()
    own = await asyncio.to_thread(_certificate, routed.table.parent, "digits.localhost")
    await routed.route(service(Backend(address=address), port=free_port, tls=own))
    trusted = grpc.ssl_channel_credentials(await asyncio.to_thread(Path(own.certificate).read_bytes))
    options = [("grpc.default_authority", "digits.localhost"), ("grpc.ssl_target_name_override", "digits.localhost")]
    async with grpc.aio.secure_channel(f"127.0.0.1:{free_port}", trusted, options=options) as channel:
        assert await channel.unary_unary("/test.Echo/Once")(b"x") == b"x"
    await backend.stop(None)
    context = ssl.create_default_context(cafile=own.certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await asyncio.open_connection("127.0.0.1", free_port, ssl=context, server_hostname="digits.localhost")
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
    writer.close()
    await writer.wait_closed()


async def test_a_certificate_that_cannot_be_read_harms_no_other_service(routed: Routed, free_port: int) -> None:
    backend = await routed.backend()
    missing = service(backend, name="letters", port=free_port, tls=Certificate(certificate="/no/file", key="/no/key"))
    seen = await routed.route(missing, service(backend))
    assert seen.problem.startswith("service letters: certificate:")
    assert await routed.get() == (200, "one")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", free_port, ssl=context, server_hostname="letters.localhost")
