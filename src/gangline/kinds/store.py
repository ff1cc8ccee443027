"""The kind Store: an object store that the jobs of a tenant may name."""

from gangline.errors import ConflictError
from gangline.kinds.derived import derived_format
from gangline.kinds.kind import Column, Kind, Reader
from gangline.model import JobSpec
from gangline.model.kinds.data_store import DataStore
from gangline.model.record import NoStatus, Record

StoreRecord = Record[DataStore, NoStatus]

KEYS_PREFIX = "gangline-store-"
"""How the Secrets begin that are made for stores, and go with them."""


def keys_of(store: DataStore) -> tuple[str, ...]:
    """Return the Secret that was made for a store; one that somebody else made is theirs to keep."""
    return (store.keys,) if store.keys == f"{KEYS_PREFIX}{store.name}" else ()


async def check_store(before: StoreRecord | None, after: StoreRecord | None, reader: Reader) -> None:
    """Refuse a second default for the same addresses, and to delete what unfinished jobs name."""
    if after is None:
        assert before is not None
        await _check_unused(before.spec, reader)
    elif after.spec.default:
        for other in await reader.records(STORE):
            same = (other.tenant, other.spec.scheme) == (after.tenant, after.spec.scheme)
            if same and other.spec.default and other.name != after.name:
                raise ConflictError(
                    f"store '{other.name}' is the default for {other.spec.scheme}:// already; "
                    f"first run: gangline store edit {other.name} --default false"
                )


def _named(spec: JobSpec) -> set[str | None]:
    """The stores that a job names."""
    kept = {spec.checkpoints.store} if spec.checkpoints is not None else set()
    return kept | {move.store for move in (*spec.inputs, *spec.outputs)}


async def _check_unused(store: DataStore, reader: Reader) -> None:
    users = [
        job.spec.name
        for job in await reader.jobs()
        if job.spec.tenant == store.tenant and store.name in _named(job.spec)
    ]
    if users:
        raise ConflictError(
            f"store '{store.name}' is named by unfinished jobs: {', '.join(sorted(users)[:5])}; "
            "cancel them or wait for their end"
        )


STORE: Kind[DataStore, NoStatus, StoreRecord] = Kind(
    name="store",
    plural="stores",
    summary="Add, list and remove object stores.",
    description="An object store that jobs may name; its keys are in a Secret.",
    spec=DataStore,
    format=derived_format(DataStore, "Store", "Where the store is, and where its keys are."),
    answer=StoreRecord,
    editable=True,
    columns=(
        Column("ADDRESS", lambda store: store.spec.address),
        Column("ENDPOINT", lambda store: store.spec.endpoint or None),
        Column("REGION", lambda store: store.spec.region or None, wide=True),
        Column("KEYS", lambda store: f"Secret {store.spec.keys}" if store.spec.keys else "environment"),
        Column("DEFAULT", lambda store: "yes" if store.spec.default else None),
    ),
    check=check_store,
    secrets=keys_of,
)
