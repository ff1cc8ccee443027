"""TensorBoard as a workspace runs it: over the event files of its jobs, for whoever comes through the gateway alone."""

import hmac
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TOKEN = os.environ.pop("GANGLINE_WORKSPACE_TOKEN", "")


def guarded(application: Any) -> Any:
    """Make a WSGI application refuse every request that does not come through the gateway."""

    def guard(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        shown = str(environ.get("HTTP_AUTHORIZATION", ""))
        if hmac.compare_digest(shown.encode(), f"token {TOKEN}".encode()):
            answer: Iterable[bytes] = application(environ, start_response)
            return answer
        start_response("403 Forbidden", [("Content-Type", "text/plain")])
        return [b"open it with gangline tensorboard\n"]

    return guard


def link_logs(folder: Path, given: list[str]) -> None:
    """Show further directories beside those of jobs, by their last names."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.is_symlink():
            old.unlink()
    for number, text in enumerate(given):
        place = Path(os.path.expandvars(text)).absolute()
        link = folder / (place.name or "root")
        (folder / f"{link.name}-{number}" if os.path.lexists(link) else link).symlink_to(place)


def main() -> None:
    """Run TensorBoard until it is told to stop."""
    try:
        from tensorboard import program
    except ImportError as error:
        print(f"TensorBoard cannot be imported in {sys.prefix}: {error}; try: pip install tensorboard", file=sys.stderr)
        raise SystemExit(127) from error
    directory = Path(os.environ["GANGLINE_WORKSPACE"])
    link_logs(directory / "logs", json.loads(os.environ.get("GANGLINE_WORKSPACE_LOGS") or "[]"))

    def server(application: Any, flags: Any) -> Any:
        return program.WerkzeugServer(guarded(application), flags)

    board = program.TensorBoard(server_class=server)
    board.configure(
        logdir=str(directory),
        host=os.environ["HOST"],
        port=int(os.environ["PORT"]),
        reload_interval=5,
        reload_multifile=True,
        load_fast="false",
    )
    board.main()


if __name__ == "__main__":
    if not TOKEN:
        raise SystemExit("the token of the gateway is missing")
    main()
