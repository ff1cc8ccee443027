"""The sections ``policy`` and ``data`` of a job file."""

from collections.abc import Callable, Mapping
from typing import Any

from gangline.dialects import quantities
from gangline.dialects.native import fields
from gangline.dialects.value import Value
from gangline.model import Clean, DataMove, Policy, Restart, Retry, Success


def _time(value: Value) -> float:
    return value.converted(quantities.seconds, quantities.DURATION_FORM)


_POLICY_READERS: Mapping[str, tuple[str, Callable[[Value], object]]] = {
    "max_attempts": ("max_attempts", lambda value: value.integer(1)),
    "max_replica_restarts": ("max_replica_restarts", lambda value: value.integer(0)),
    "restart": ("restart", lambda value: value.choice(Restart)),
    "retry": ("retry", lambda value: value.choice(Retry)),
    "success": ("success", lambda value: value.choice(Success)),
    "backoff": ("backoff_seconds", _time),
    "backoff_limit": ("backoff_limit_seconds", _time),
    "deadline": ("deadline_seconds", _time),
    "ttl": ("ttl_seconds", _time),
    "grace": ("grace_seconds", _time),
    "expected": ("expected_seconds", _time),
    "preemptible": ("preemptible", Value.boolean),
    "clean": ("clean", lambda value: value.choice(Clean)),
}


def read_policy(value: Value) -> Policy:
    """Read ``spec.policy``."""
    # The table above pairs each name with its reader; the pairing is what the round-trip test proves.
    arguments: dict[str, Any] = {}
    for name, given in value.fields(fields.POLICY).items():
        attribute, read = _POLICY_READERS[name]
        arguments[attribute] = read(given)
    with value.located(prefix="policy"):
        return Policy(**arguments)


def policy_to_plain(policy: Policy) -> dict[str, object]:
    """Write what differs from the defaults."""
    usual = Policy()
    plain: dict[str, object] = {}
    for name, (attribute, _) in _POLICY_READERS.items():
        setting = getattr(policy, attribute)
        if setting != getattr(usual, attribute):
            plain[name] = quantities.seconds_text(setting) if attribute.endswith("_seconds") else _bare(setting)
    return plain


def _bare(setting: object) -> object:
    return str(setting) if isinstance(setting, str) else setting


def read_data(value: Value) -> tuple[tuple[DataMove, ...], tuple[DataMove, ...]]:
    """Read ``spec.data``: what is copied in before the replicas start, and out after they succeeded."""
    given = value.fields(fields.DATA)
    inputs, outputs = (tuple(map(_move, given[name].items())) if name in given else () for name in fields.DATA)
    return inputs, outputs


def _move(value: Value) -> DataMove:
    given = value.fields(fields.DATA_MOVE)
    for name in fields.DATA_MOVE:
        if name not in given:
            raise value.missing(name, "a path or an address such as s3://bucket/folder")
    return DataMove(given["from"].text(), given["to"].text())


def data_to_plain(inputs: tuple[DataMove, ...], outputs: tuple[DataMove, ...]) -> dict[str, object]:
    """Write both lists, without the empty ones."""
    lists = {"inputs": inputs, "outputs": outputs}
    return {
        name: [{"from": move.source, "to": move.target} for move in moves] for name, moves in lists.items() if moves
    }
