"""Serve models: python -m gangline.serve --model mnist=./model."""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gangline.serve.batching import BatchSettings
from gangline.serve.request_log import LogSettings, check_target
from gangline.serve.settings import ServerSettings
from gangline.serve.supervisor import Supervisor, SupervisorSettings, listen, reserve_port


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gangline.serve", description="Serve models over HTTP and gRPC.")
    add = parser.add_argument
    add("--model", action="append", default=[], metavar="NAME=DIR", help="a model and the directory of its files")
    add("--repository", type=Path, metavar="DIR", help="a directory with a directory for each model")
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=8080, help="HTTP port, 0 for any (default: %(default)s)")
    add("--grpc-port", type=int, help="a port for gRPC alone, 0 for any; HTTP's has it, too")
    add("--workers", type=_count, default=1, help="worker processes (default: %(default)s)")
    add(
        "--batch",
        type=_count,
        default=1,
        metavar="ROWS",
        help="join requests up to this many rows (default: %(default)s)",
    )
    add("--latency", type=float, default=0.05, metavar="SECONDS",
        help="a batch is not made to take longer (default: %(default)s)")  # fmt: skip
    add("--timeout", type=float, default=60.0, metavar="SECONDS",
        help="when a request is given up (default: %(default)s)")  # fmt: skip
    add("--max-body", type=_count, default=256, metavar="MIB", help="largest request (default: %(default)s)")
    add("--log-to", metavar="ADDRESS", help="keep requests and answers in a directory, an object store, or at a URL")
    add("--log-sample", type=_part, default=1.0, metavar="PART", help="the part of them, by chance (default: 1, all)")
    add(
        "--log-mode", choices=("all", "request", "response"), default="all", help="which of both (default: %(default)s)"
    )
    add("--log-name", default="", metavar="NAME", help="of the service, told to a URL")
    add("--max-memory", type=_count, metavar="MIB", help="replace a worker that holds more")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number of 1 or more")
    return int(text)


def _part(text: str) -> float:
    part = float(text)
    if not 0 < part <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most 1")
    return part


def _log(options: argparse.Namespace, parser: argparse.ArgumentParser) -> LogSettings | None:
    if options.log_to is None:
        return None
    to = options.log_to if "://" in options.log_to else Path(options.log_to).absolute().as_uri()
    settings = LogSettings(to=to, sample=options.log_sample, mode=options.log_mode, name=options.log_name)
    try:
        check_target(settings)
    except ValueError as error:
        parser.error(f"--log-to {options.log_to}: {error}")
    return settings


def _models(options: argparse.Namespace, parser: argparse.ArgumentParser) -> dict[str, Path]:
    models: dict[str, Path] = {}
    if options.repository is not None:
        if not options.repository.is_dir():
            parser.error(f"{options.repository} is not a directory")
        models |= {item.name: item.absolute() for item in sorted(options.repository.iterdir()) if item.is_dir()}
    for given in options.model:
        name, equals, folder = given.partition("=")
        if not equals or not name or not Path(folder).is_dir():
            parser.error(f"--model {given}: expected NAME=DIR with a directory that exists")
        models[name] = Path(folder).absolute()
    if not models:
        parser.error("no models: use --model NAME=DIR or --repository DIR")
    return models


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until told to stop."""
    parser = _parser()
    options = parser.parse_args(arguments)
    models = _models(options, parser)
    log = _log(options, parser)
    with tempfile.TemporaryDirectory(prefix="gangline-serve-") as folder:
        asyncio.run(_serve(options, models, log, Path(folder)))


async def _serve(options: argparse.Namespace, models: dict[str, Path], log: LogSettings | None, folder: Path) -> None:
    listening = listen(options.host, options.port)
    held = None if options.grpc_port is None else reserve_port(options.host, options.grpc_port)
    settings = ServerSettings(
        models=models,
        repository=None if options.repository is None else options.repository.absolute(),
        batch=BatchSettings(max_rows=options.batch, latency_seconds=options.latency, timeout_seconds=options.timeout),
        max_body_bytes=options.max_body << 20,
        grpc_port=None if held is None else held.getsockname()[1],
        grpc_host=options.host,
        log=log,
        workers_folder=folder,
    )
    memory = None if options.max_memory is None else options.max_memory << 20
    supervisor = Supervisor(settings, SupervisorSettings(workers=options.workers, memory_bytes=memory), listening)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, supervisor.stop)
    print(f"serving {', '.join(models)} at http://{options.host}:{listening.getsockname()[1]}", file=sys.stderr)  # noqa: T201
    if settings.grpc_port is not None:
        print(f"gRPC at {options.host}:{settings.grpc_port}", file=sys.stderr)  # noqa: T201
    sys.stderr.flush()
    await supervisor.run()


if __name__ == "__main__":
    main()
