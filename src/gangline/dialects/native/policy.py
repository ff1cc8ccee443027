"""The sections ``policy`` and ``data`` of a job file."""

from collections.abc import Callable, Mapping
from typing import Any

from gangline.dialects import quantities
from gangline.dialects.native import fields
from gangline.dialects.value import Value
from gangline.model import (
    Clean,
    DataMove,
    NanAction,
    NanRule,
    Policy,
    Restart,
    Retry,
    Sizing,
    StallAction,
    StallRule,
    Success,
)
from gangline.model.jobs.spec import CheckpointRule


def _time(value: Value) -> float:
    return value.converted(quantities.seconds, quantities.DURATION_FORM)


def _stall(value: Value) -> StallRule:
    """Read a time, or a time and what to do then."""
    if not isinstance(value.data, Mapping):
        return StallRule(after_seconds=_time(value))
    given = value.fields(fields.STALLED)
    if "after" not in given:
        raise value.missing("after", "how long, such as 10m")
    action = given["action"].choice(StallAction) if "action" in given else StallAction.TELL
    return StallRule(after_seconds=_time(given["after"]), action=action)


def _nan(value: Value) -> NanRule:
    """Read what to do, or that and of which metric."""
    if not isinstance(value.data, Mapping):
        return NanRule(action=value.choice(NanAction))
    given = value.fields(fields.NAN)
    if "action" not in given:
        raise value.missing("action", f"one of {', '.join(NanAction)}")
    metric = given["metric"].text() if "metric" in given else None
    return NanRule(action=given["action"].choice(NanAction), metric=metric)


_POLICY_READERS: Mapping[str, tuple[str, Callable[[Value], object]]] = {
    "max_attempts": ("max_attempts", lambda value: value.integer(1)),
    "max_replica_restarts": ("max_replica_restarts", lambda value: value.integer(0)),
    "restart": ("restart", lambda value: value.choice(Restart)),
    "retry": ("retry", lambda value: value.choice(Retry)),
    "success": ("success", lambda value: value.choice(Success)),
    "backoff": ("backoff_seconds", _time),
    "backoff_factor": ("backoff_factor", lambda value: value.converted(float, "a number, such as 1.5")),
    "backoff_limit": ("backoff_limit_seconds", _time),
    "retry_for": ("retry_for_seconds", _time),
    "deadline": ("deadline_seconds", _time),
    "ttl": ("ttl_seconds", _time),
    "grace": ("grace_seconds", _time),
    "expected": ("expected_seconds", _time),
    "preemptible": ("preemptible", Value.boolean),
    "clean": ("clean", lambda value: value.choice(Clean)),
    "replicas": ("replicas", lambda value: value.choice(Sizing)),
    "stalled": ("stalled", _stall),
    "nan": ("nan", _nan),
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
    if isinstance(setting, StallRule):
        after = quantities.seconds_text(setting.after_seconds)
        return after if setting.action is StallAction.TELL else {"after": after, "action": setting.action.value}
    if isinstance(setting, NanRule):
        action = setting.action.value
        return action if setting.metric is None else {"action": action, "metric": setting.metric}
    return str(setting) if isinstance(setting, str) else setting


def read_data(value: Value) -> tuple[tuple[DataMove, ...], tuple[DataMove, ...]]:
    """Read ``spec.data``: what is copied in before the replicas start, and out after they succeeded."""
    given = value.fields(fields.DATA)
    inputs, outputs = (tuple(map(_move, given[name].items())) if name in given else () for name in fields.DATA)
    return inputs, outputs


def _move(value: Value) -> DataMove:
    given = value.fields(fields.DATA_MOVE)
    for name in ("from", "to"):
        if name not in given:
            raise value.missing(name, "a path or an address such as s3://bucket/folder")
        if not given[name].text():
            raise given[name].wrong("it is empty", expected="a path or an address such as s3://bucket/folder")
    include, exclude = (_patterns(given.get(name)) for name in ("include", "exclude"))
    return DataMove(
        given["from"].text(),
        given["to"].text(),
        store=given["store"].text() if "store" in given else None,
        include=include,
        exclude=exclude,
        unpack="unpack" in given and given["unpack"].boolean(),
    )


_ONLY_READ = ("http", "https", "job", "model")
"""Schemes of addresses at which nothing appears file by file."""


def read_checkpoints(value: Value) -> CheckpointRule:
    """Read ``spec.checkpoints``."""
    given = value.fields(fields.CHECKPOINTS)
    if "to" not in given:
        raise value.missing("to", "a path or an address such as s3://bucket/$JOB_NAME")
    with value.located(prefix="checkpoints"):
        return CheckpointRule(
            to=_checkpoint_address(given["to"]),
            store=given["store"].text() if "store" in given else None,
            keep=given["keep"].integer(1) if "keep" in given else None,
            every_seconds=_time(given["every"]) if "every" in given else None,
        )


def _checkpoint_address(value: Value) -> str:
    """An address that can be written while a program runs. Told now: the program would only say so beside its work."""
    text, expected = value.text(), "a path from the root, pvc://CLAIM/path or an address such as s3://bucket/$JOB_NAME"
    scheme, separator, rest = text.partition("://")
    if separator and scheme.lower() in _ONLY_READ:
        raise value.wrong(f"checkpoints cannot be written to {scheme}://", expected=expected)
    if not (rest.strip("/") if separator else text.startswith(("/", "$"))):
        raise value.wrong(f"'{text}' is not a place for checkpoints", expected=expected)
    return text


def checkpoints_to_plain(rule: CheckpointRule) -> dict[str, object]:
    """Write what is said."""
    every = None if rule.every_seconds is None else quantities.seconds_text(rule.every_seconds)
    plain = {"to": rule.to, "store": rule.store, "keep": rule.keep, "every": every}
    return {name: setting for name, setting in plain.items() if setting is not None}


def _patterns(value: Value | None) -> tuple[str, ...]:
    return tuple(item.text() for item in value.items()) if value else ()


def data_to_plain(inputs: tuple[DataMove, ...], outputs: tuple[DataMove, ...]) -> dict[str, object]:
    """Write both lists, without the empty ones."""
    lists = {"inputs": inputs, "outputs": outputs}
    return {name: [_move_to_plain(move) for move in moves] for name, moves in lists.items() if moves}


def _move_to_plain(move: DataMove) -> dict[str, object]:
    options = {
        "store": move.store,
        "include": list(move.include),
        "exclude": list(move.exclude),
        "unpack": move.unpack,
    }
    return {"from": move.source, "to": move.target, **{name: value for name, value in options.items() if value}}
