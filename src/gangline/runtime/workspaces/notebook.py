"""JupyterLab as a workspace runs it: in the workspace's directory, for whoever comes through the gateway alone.

JupyterLab writes its own token into its pages, so it has none: every request must show the gateway's, which no browser
ever sees. The gateway has checked origin and session before.
"""

import hmac
import os
import shutil
import sys
from pathlib import Path
from typing import Any

TOKEN = os.environ.pop("GANGLINE_WORKSPACE_TOKEN", "")  # kernels and terminals do not get it


def bring_code(directory: Path) -> None:
    """Copy the code of the job into the workspace; what somebody has changed there stays."""
    for source in sorted(Path().rglob("*")):
        target = directory / source
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif not os.path.lexists(target):
            shutil.copy2(source, target)


def main() -> None:
    """Run JupyterLab until it is told to stop."""
    try:
        from jupyter_server.auth.identity import IdentityProvider, User
        from jupyterlab.labapp import LabApp
    except ImportError as error:
        print(f"JupyterLab cannot be imported in {sys.prefix}: {error}; try: pip install jupyterlab", file=sys.stderr)
        raise SystemExit(127) from error

    class Gateway(IdentityProvider):  # type: ignore[misc]  # of whatever version the user has
        """Knows one visitor: the gateway."""

        token = ""

        def get_user(self, handler: Any) -> Any:
            shown = handler.request.headers.get("Authorization", "")
            return User(username="owner") if hmac.compare_digest(shown, f"token {TOKEN}") else None

        def is_token_authenticated(self, handler: Any) -> bool:
            return True

        def should_check_origin(self, handler: Any) -> bool:
            return False

    directory = Path(os.environ["GANGLINE_WORKSPACE"])
    os.environ.setdefault("JUPYTER_CONFIG_DIR", str(directory / ".jupyter"))
    bring_code(directory)
    os.chdir(directory)
    sys.modules["__main__"].Gateway = Gateway  # type: ignore[attr-defined]  # where an option can name it
    options = {
        "ServerApp.identity_provider_class": "__main__.Gateway",
        "ServerApp.ip": os.environ["HOST"],
        "ServerApp.port": os.environ["PORT"],
        "ServerApp.port_retries": 0,
        "ServerApp.open_browser": False,
        "ServerApp.allow_root": True,
        "ServerApp.allow_remote_access": True,
        "ServerApp.root_dir": directory,
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
    }
    LabApp.launch_instance(argv=[f"--{name}={value}" for name, value in options.items()])


if __name__ == "__main__":
    if not TOKEN:
        raise SystemExit("the token of the gateway is missing")
    main()
