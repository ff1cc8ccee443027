"""The data stores of a manifest: moves of data, and stores that keep the keys which the manifest has in clear text."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gangline.dialects.value import Value
from gangline.model import DataMove
from gangline.model.kinds.data_store import DataStore

_FIELDS = ("id", "type", "training_data", "training_results", "connection")
_OBJECT_STORES = ("mount_cos", "s3_datastore")
_SWIFT = ("swift_datastore", "softlayer_objectstore", "bluemix_objectstore")
_TYPES = (*_OBJECT_STORES, "mount_volume", "inmem_datastore", *_SWIFT)
_KEYS_PREFIX = "gangline-store-"
"""How the Secrets are called that go with their stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataStores:
    """What the data stores say."""

    inputs: tuple[DataMove, ...] = ()
    outputs: tuple[DataMove, ...] = ()
    stores: tuple[DataStore, ...] = ()
    secrets_json: tuple[str, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()


def read_data_stores(values: Sequence[Value]) -> DataStores:
    """Translate ``data_stores``. Keys go into a Secret of the tenant and nowhere else."""
    found = [_store(value) for value in values]
    return DataStores(
        inputs=tuple(move for each in found for move in each.inputs),
        outputs=tuple(move for each in found for move in each.outputs),
        stores=tuple(store for each in found for store in each.stores),
        secrets_json=tuple(secret for each in found for secret in each.secrets_json),
        notes=tuple(note for each in found for note in each.notes),
    )


def _store(value: Value) -> DataStores:
    store = value.fields(_FIELDS)
    connection = store["connection"].strings() if "connection" in store else {}
    kind = store["type"].one_of(_TYPES) if "type" in store else _OBJECT_STORES[0]
    if kind in _SWIFT:
        expected = "s3_datastore with the S3 interface of the same server"
        raise store["type"].wrong(f"Gangline does not speak Swift ({kind})", expected=expected)
    if kind == "inmem_datastore":
        return DataStores(notes=("data_stores: inmem_datastore holds no data; results stay with the job",))
    if kind == "mount_volume":
        return _moves(store, _volume(value, connection), None)
    kept, secret = _kept(connection)
    moves = _moves(store, "s3://", kept.name if kept else None)
    if kept is None:
        return moves
    note = f"data_stores: the keys are kept in store '{kept.name}', not in the job"
    return DataStores(inputs=moves.inputs, outputs=moves.outputs, stores=(kept,), secrets_json=(secret,), notes=(note,))


def _moves(store: Mapping[str, Value], root: str, name: str | None) -> DataStores:
    inputs, outputs = [], []
    if "training_data" in store:
        inputs.append(DataMove(f"{root}{_container(store['training_data'])}", "$DATA_DIR", store=name))
    if "training_results" in store:
        target = f"{root}{_container(store['training_results'])}/$JOB_NAME"
        outputs.append(DataMove("$RESULT_DIR", target, store=name))
    return DataStores(inputs=tuple(inputs), outputs=tuple(outputs))


def _volume(value: Value, connection: Mapping[str, str]) -> str:
    """Where a mounted volume is: a directory of the host, or a claim by its name."""
    if path := connection.get("path"):
        return f"{path.rstrip('/')}/"
    if name := connection.get("name"):
        return f"pvc://{name}/"
    raise value.missing("connection.path", "the directory of the host, or connection.name of a volume")


def _container(value: Value) -> str:
    given = value.fields(("container",))
    if "container" not in given:
        raise value.missing("container", "the bucket or folder")
    return given["container"].text()


def _kept(connection: Mapping[str, str]) -> tuple[DataStore | None, str]:
    """The store for a connection, the same for every manifest with the same account, and the Secret with its keys."""
    endpoint, user = connection.get("auth_url", ""), connection.get("user_name", "")
    keys = {"key": user, "secret": connection.get("password", "")}
    if not any((endpoint, *keys.values())):
        return None, ""
    name = f"ffdl-{hashlib.sha256(f'{endpoint}|{user}'.encode()).hexdigest()[:10]}"
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{_KEYS_PREFIX}{name}"},
        "stringData": {field: text for field, text in keys.items() if text},
    }
    kept = DataStore(
        name=name,
        address="s3://",
        endpoint=endpoint,
        region=connection.get("region", ""),
        keys=f"{_KEYS_PREFIX}{name}",
    )
    return kept, json.dumps(secret)
