"""Settings: read once, frozen, handed down as plain values.

Each setting has a default, may be written in the configuration file, and may be overruled by an environment
variable GANGLINE_<NAME>. Nothing else in Gangline reads the environment for its own behaviour.
"""

import difflib
import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from gangline.errors import InvalidInputError
from gangline.model import CodeLimits, Resources
from gangline.model.team.accounting import PRICED


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a user may set. ``gangline config`` shows each with its value and where it came from."""

    home: Path
    """Where jobs, logs, results and the database are kept."""
    runtime_directory: Path
    """Where sockets live; private to the user, gone after a reboot."""
    config_file: Path
    nodes: int = 1
    """Into how many logical nodes the local engine divides this machine."""
    database: str = ""
    """A postgresql:// address; empty means the SQLite file in ``home``."""
    tenant: str = "default"
    """The tenant that commands act for unless they name another."""
    context: str = ""
    """The kubeconfig context whose cluster commands use instead of the local service; empty means the local one."""
    log_file_mib: int = 64
    """A replica's log file is rotated at this size."""
    log_files: int = 4
    """How many log files are kept per replica, the present one included."""
    code_limit_mib: int = 200
    """The largest code archive a job may ship."""
    code_unpacked_mib: int = 300
    """How much the code of a job may be when it is unpacked."""
    code_files: int = 100_000
    """How many files, links and directories the code of a job may have."""
    upload_limit_mib: int = 102_400
    """How large the files may be that one request brings to a team's service: of a model, or of a job."""
    requests_per_second: int = 50
    """How often one person may ask a team's service in the long run; six times as often at once."""
    requests_at_once: int = 100
    """How many requests of one person may be under way at a team's service, watches included."""
    replica_processes: int = 4096
    """How many processes and threads a replica of the local engine may have."""
    kubernetes_port: int | None = None
    """The loopback port of the Kubernetes interface; unless set, a free one that is kept for the next start."""
    scheduling: Mapping[str, object] = field(default_factory=dict)
    """Rules and numbers of the scheduler by name, in place of the built-in choice; see docs/scheduling.md."""
    system_users: str = "66000-99999"
    """The users that jobs of a team's tenants run as, where the service is root's: numbers that are its alone."""
    log_format: str = "text"
    """How the service writes its log: text for people, or json, a document a line, for what collects logs."""
    trace_collector: str = ""
    """Where traces go by OpenTelemetry: the address of a collector that takes OTLP over HTTP (the extra otel)."""
    prices: Mapping[str, float] = field(default_factory=dict)
    """What an hour costs, for ``gangline usage``: gpu, cpu, and memory for a GiB."""
    openid: Mapping[str, object] = field(default_factory=dict)
    """The OpenID provider of a team's service, and the roles of its groups; see docs/team-service.md."""
    notification_networks: str = ""
    """Networks that webhooks of a team's service may reach although they are not public: 10.1.0.0/16, fd00::/8."""
    smtp: Mapping[str, object] = field(default_factory=dict)
    """The mail server by which notifications are sent; see docs/team-service.md."""
    workspaces_address: str = ""
    """The scheme and domain below which workspaces of a team's service have a host each: https://work.example.org."""
    sizes: Mapping[str, Resources] = field(default_factory=dict)
    """The user's own T-shirt sizes, beside the built-in ones."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each value came from: default, file or environment."""

    @property
    def socket(self) -> Path:
        """Where the local service listens."""
        return self.runtime_directory / "service.sock"

    @property
    def lock_file(self) -> Path:
        """Held by whoever serves this home; a service in the background says in it which process it is, and where."""
        return self.home / "service.lock"

    @property
    def log_file(self) -> Path:
        """Where the local service writes its own log."""
        return self.home / "service.log"

    @property
    def database_file(self) -> Path:
        """The SQLite database."""
        return self.home / "gangline.db"

    @property
    def kubernetes_file(self) -> Path:
        """Where the local service writes the address and the token of its Kubernetes interface."""
        return self.home / "kubernetes.json"

    @property
    def object_directory(self) -> Path:
        """Where ConfigMaps and Secrets are kept by tenant."""
        return self.home / "objects"

    @property
    def claim_directory(self) -> Path:
        """Where volumes are kept by tenant."""
        return self.home / "claims"

    @property
    def model_directory(self) -> Path:
        """Where the files of models are kept by tenant."""
        return self.home / "models"

    @property
    def code_directory(self) -> Path:
        """Where code archives are kept by digest."""
        return self.home / "code"

    @property
    def code_limits(self) -> CodeLimits:
        """How much code a job may ship."""
        return CodeLimits(
            packed_bytes=self.code_limit_mib * 2**20,
            unpacked_bytes=self.code_unpacked_mib * 2**20,
            files=self.code_files,
        )

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None, **overrides: Any) -> "Settings":
        """Read defaults, then the file, then the environment, then what the caller overrules."""
        env = os.environ if environment is None else environment
        config_file = config_path(env)
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for source, layer in (
            (str(config_file), _from_file(config_file)),
            ("environment", _from_environment(env)),
            ("caller", {name: value for name, value in overrides.items() if value is not None}),
        ):
            values.update(layer)
            sources.update(dict.fromkeys(layer, source))
        home = Path(values.pop("home", None) or _data_home(env) / "gangline").expanduser().absolute()
        runtime = values.pop("runtime_directory", None)
        return cls(
            home=home,
            runtime_directory=Path(runtime).expanduser().absolute() if runtime else _runtime_directory(env, home),
            config_file=config_file,
            sources=sources,
            **values,
        )


NAMES = tuple(item.name for item in fields(Settings) if item.name not in ("config_file", "sources"))
"""The settings a user may write, in the order they are shown."""

_WITHOUT_SECRETS = ("scheduling", "prices")
"""Mappings that are told whole; of others, which may have passwords and keys in them, only what they have is told."""
_CREDENTIALS = re.compile(r"(?<=//)\S*(?=@)|(?<=password=)[^&\s]*")


def told(settings: Settings) -> tuple[tuple[str, str, str], ...]:
    """Return each setting's name, its value in words and where it came from, for others than whoever wrote it."""
    rows = []
    for name in NAMES:
        value = getattr(settings, name)
        if isinstance(value, Mapping):
            whole = name in _WITHOUT_SECRETS
            text = ", ".join(f"{key}: {each}" if whole else str(key) for key, each in value.items())
        else:
            text = "" if value is None else _CREDENTIALS.sub("…", str(value))
        rows.append((name, text, settings.sources.get(name, "default")))
    return tuple(rows)


_MOST_WHOLE_NUMBER = 1_000_000
_MOST = {"kubernetes_port": 65535}
_WHOLE_NUMBERS = (
    "nodes",
    "log_file_mib",
    "log_files",
    "code_limit_mib",
    "code_unpacked_mib",
    "code_files",
    "upload_limit_mib",
    "requests_per_second",
    "requests_at_once",
    "replica_processes",
    "kubernetes_port",
)


def config_path(environment: Mapping[str, str] | None = None) -> Path:
    """Where the configuration file is, whether or not it can be read."""
    env = os.environ if environment is None else environment
    return Path(env.get("GANGLINE_CONFIG") or _config_home(env) / "gangline" / "config.yaml")


def read_config(path: Path) -> dict[str, object]:
    """Read a configuration file as it is written: names and values that no command accepts included."""
    if not path.exists():
        return {}
    # Most people have no such file.
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"not valid YAML: {error}", file=str(path)) from error
    except OSError as error:
        raise InvalidInputError(f"the file cannot be read: {error.strerror}", file=str(path)) from error
    if not isinstance(data or {}, dict):
        raise InvalidInputError("wrong shape", file=str(path), expected="a mapping of settings to values")
    return {str(name): value for name, value in (data or {}).items()}


def parse_setting(name: str, raw: object, *, file: str | None = None) -> Any:
    """Turn what a user wrote into a value, or refuse it with the setting's name."""
    if name not in NAMES:
        nearest = difflib.get_close_matches(name, NAMES, n=1)
        raise InvalidInputError(
            "unknown setting",
            field=name,
            file=file,
            expected=f"one of {', '.join(NAMES)}",
            suggestion=nearest[0] if nearest else None,
        )
    if name == "sizes":
        return _sizes(raw, file)
    if name == "log_format" and raw not in ("text", "json"):
        raise InvalidInputError(f"'{raw}' is not a format", field=name, file=file, expected="text or json")
    if name == "prices":
        return _prices(raw, file)
    if name in ("scheduling", "openid", "smtp"):
        # What the names stand for is looked up by whoever schedules; most commands need not load any of it.
        if not isinstance(raw, dict):
            raise InvalidInputError(
                f"{raw!r} does not fit",
                field=name,
                file=file,
                expected="a mapping of rules to names" if name == "scheduling" else "a mapping",
            )
        return {str(key): value for key, value in raw.items()}
    if name in _WHOLE_NUMBERS:
        return _whole_number(name, raw, file)
    if not isinstance(raw, str) or not raw:
        raise InvalidInputError(f"{raw!r} is not text", field=name, file=file, expected="text")
    return raw


def _whole_number(name: str, raw: object, file: str | None) -> int:
    text, most = str(raw), _MOST.get(name, _MOST_WHOLE_NUMBER)
    # Digits alone, for Unicode has some that int() refuses.
    number = int(text) if text.isascii() and text.isdigit() and not isinstance(raw, bool) else 0
    if not 1 <= number <= most:
        raise InvalidInputError(
            f"{raw!r} does not fit", field=name, file=file, expected=f"a whole number from 1 to {most}"
        )
    return number


def _prices(raw: object, file: str | None) -> dict[str, float]:
    found = raw if isinstance(raw, dict) else {"": raw}
    for name, price in found.items():
        if name not in PRICED or isinstance(price, bool) or not isinstance(price, int | float) or price < 0:
            raise InvalidInputError(
                f"{name}: {price!r} does not fit" if name else f"{price!r} does not fit",
                field="prices",
                file=file,
                expected=f"a mapping of {', '.join(PRICED)} to amounts of 0 or more",
            )
    return {str(name): float(str(price)) for name, price in found.items()}


def _sizes(raw: object, file: str | None) -> dict[str, Resources]:
    from gangline.dialects import document
    from gangline.dialects.native.amounts import read_resources

    sizes = document.plain({"sizes": raw}, file=file).fields(["sizes"])["sizes"]
    found = {name: read_resources({"resources": value}, {}) for name, value in sizes.fields().items()}
    return {name: resources for name, resources in found.items() if resources is not None}


def _from_file(path: Path) -> dict[str, Any]:
    written = read_config(path)
    try:
        return {name: parse_setting(name, value, file=str(path)) for name, value in written.items()}
    except InvalidInputError as error:
        error.add_note("'gangline config set NAME VALUE' or 'gangline config unset NAME' mends the file")
        raise


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for name in NAMES:
        variable = f"GANGLINE_{name.upper()}"
        if env.get(variable) and name not in ("sizes", "scheduling", "prices", "openid", "smtp"):
            found[name] = parse_setting(name, env[variable], file=f"environment variable {variable}")
    return found


def _user_home(env: Mapping[str, str]) -> Path:
    """Return where the user is at home; in containers users often have no name, and then only HOME tells."""
    if env.get("HOME"):
        return Path(env["HOME"])
    try:
        return Path.home()
    except RuntimeError as error:
        raise InvalidInputError("this user has no home directory", expected="one in the variable HOME") from error


def _config_home(env: Mapping[str, str]) -> Path:
    return Path(env.get("XDG_CONFIG_HOME") or _user_home(env) / ".config")


def _data_home(env: Mapping[str, str]) -> Path:
    return Path(env.get("XDG_DATA_HOME") or _user_home(env) / ".local" / "share")


def _own_temporary_directory() -> Path:
    if not hasattr(os, "getuid"):  # Windows: the directory is each user's own
        return Path(tempfile.gettempdir()) / "gangline"
    return Path(f"/tmp/gangline-{os.getuid()}")


def _runtime_directory(env: Mapping[str, str], home: Path) -> Path:
    """One directory per user and per home, so that neither two users nor two homes ever meet."""
    base = env.get("XDG_RUNTIME_DIR")
    parent = Path(base) / "gangline" if base else _own_temporary_directory()
    return parent / hashlib.sha256(str(home).encode()).hexdigest()[:8]
