"""Run the router: python -m gangline.router --table FILE --listen HOST:PORT --control SOCKET."""

import argparse
import asyncio
import importlib
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gangline.router.server import Address, Router, RouterSettings


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gangline.router", description="Lead requests to the replicas of services."
    )
    add = parser.add_argument
    add("--table", type=Path, required=True, metavar="FILE", help="the routing table, followed as it changes")
    add("--control", type=Path, required=True, metavar="SOCKET", help="where statistics and /reload are answered")
    add("--listen", type=_address, default=("127.0.0.1", 8080), metavar="HOST:PORT",
        help="where clients connect; port 0 for any (default: 127.0.0.1:8080)")  # fmt: skip
    add("--listen-tls", type=_address, metavar="HOST:PORT", help="the same with TLS, as the table says")
    add("--metrics", type=_address, metavar="HOST:PORT", help="where Prometheus finds /metrics")
    add("--token", type=Path, metavar="FILE",
        help="who knows what it holds may send tables to the address of --metrics")  # fmt: skip
    add("--first-table", type=Path, metavar="FILE", help="where to begin if --table is missing or older")
    add("--drain", type=float, default=20.0, metavar="SECONDS",
        help="how long requests under way may take when it is told to stop (default: %(default)s)")  # fmt: skip
    return parser


async def _run(settings: RouterSettings) -> None:
    router = Router(settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, router.stop)
    await router.run(lambda address: print(f"routing at http://{address}", file=sys.stderr, flush=True))  # noqa: T201


def main(arguments: Sequence[str] | None = None) -> None:
    """Route until told to stop."""
    options = _parser().parse_args(arguments)
    settings = RouterSettings(
        table=options.table,
        control=options.control,
        listen=options.listen,
        listen_tls=options.listen_tls,
        metrics=options.metrics,
        token=options.token,
        first_table=options.first_table,
        drain_seconds=options.drain,
    )
    with suppress(ImportError):  # in the extra gangline[serve]; without it everything works, more slowly
        asyncio.set_event_loop_policy(importlib.import_module("uvloop").EventLoopPolicy())
    asyncio.run(_run(settings))


if __name__ == "__main__":
    main()
