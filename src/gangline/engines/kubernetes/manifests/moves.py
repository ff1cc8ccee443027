"""What the movers of a job on a cluster are told: every address made into a place that they reach. Pure."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.data import addresses
from gangline.engines.addresses import check_addresses
from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.manifests.archives import Archive
from gangline.engines.kubernetes.manifests.pod import DIRECTORIES, HOME, Plain
from gangline.errors import InvalidInputError
from gangline.model import DataMove, JobSpec
from gangline.model.kinds.data_store import DataStore

ARCHIVES = f"{HOME}/archives"
CLAIMS = f"{HOME}/claims"
STORES = f"{HOME}/stores"
CACHE = f"{HOME}/cache"
WORD = f"{HOME}/word"
SCRATCH = f"{HOME}/moving"
RECEIPTS = f"{HOME}/receipts"
EXPORTS = f"{HOME}/exports"
CHECKPOINTING = f"{HOME}/checkpointing"
SOCKET = f"{CHECKPOINTING}/socket"
"""Where a program asks the container beside it for checkpoints."""
MOUNTED = ("pvc", "nfs")
"""What a kubelet mounts: a mover reads and writes it as a directory."""
STORE = "store"
"""The word by which outputs are ordered to be stored."""
_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_ALTERNATIVES = (
    "an object store (s3://, gs://, az://), a volume (pvc://CLAIM/path), an export (nfs://HOST/path) "
    "or a model (model://NAME)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobArchives:
    """The archives that lie in the cluster for one job; inputs by their place in the job's list."""

    code: Archive | None = None
    inputs: Mapping[int, Archive] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheClaim:
    """A claim of the tenant's namespace that keeps what movers fetched."""

    name: str
    most_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """Where the version lies that a move reads, or where it leaves one: on a claim, or in a store."""

    at: str
    store: str | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GangData:
    """What was found of all that a job's moves name."""

    stores: Mapping[str, DataStore] = field(default_factory=dict)
    store_of: Mapping[DataMove, str] = field(default_factory=dict)
    models: Mapping[DataMove, ModelUse] = field(default_factory=dict)
    cache: CacheClaim | None = None
    stands_for: Mapping[str, str] = field(default_factory=dict)
    """The address that lies behind one of another job's results, by the one that the job names."""
    checkpoint_store: str | None = None
    """The store that opens the address of the job's checkpoints."""

    def source_of(self, spec: JobSpec, move: DataMove) -> str:
        """Where an input lies, with its variables filled in."""
        place = expanded(move.source, spec)
        return self.stands_for.get(place, place)

    def mounted(self, spec: JobSpec) -> set[str]:
        """Every address of the job's data, models and checkpoints that is mounted."""
        places = [self.source_of(spec, move) for move in spec.inputs]
        places += [expanded(move.target, spec) for move in spec.outputs]
        places += [use.at for use in self.models.values()]
        places += [expanded(spec.checkpoints.to, spec)] if spec.checkpoints is not None else []
        places += [f"pvc://{self.cache.name}"] if self.cache is not None else []
        return {place for place in places if scheme_of(place) in MOUNTED}


def scheme_of(place: str) -> str:
    """How a place is reached; ``file`` for a path of the submitter's machine, empty for one inside the pod."""
    return "" if place.startswith("$") else addresses.scheme_of(place)


def local_inputs(spec: JobSpec) -> dict[int, str]:
    """The inputs that are paths of whoever submits, by their place in the job's list."""
    return {number: move.source for number, move in enumerate(spec.inputs) if scheme_of(move.source) == "file"}


def has_moves(spec: JobSpec) -> bool:
    """Whether anything of the job needs a mover."""
    return bool(spec.inputs or spec.outputs or spec.checkpoints)


def check_data(spec: JobSpec) -> None:
    """Refuse moves that no cluster can make. Called before a job is submitted, and again before it is launched."""
    for number, move in enumerate(spec.inputs):
        _check_inside(spec, move.target, f"data.inputs[{number}].to")
        if move.unpack and scheme_of(move.source) in MOUNTED:
            raise InvalidInputError(
                f"{move.source} is mounted, not copied",
                field=f"data.inputs[{number}].unpack",
                expected="an archive in an object store, or behind http",
            )
    for number, move in enumerate(spec.outputs):
        _check_inside(spec, move.source, f"data.outputs[{number}].from")
        _check_writable(move.target, f"data.outputs[{number}].to", ("http", "https", "job"))
    if spec.checkpoints is not None:
        _check_writable(spec.checkpoints.to, "checkpoints.to", ("http", "https", "job", "model"))
    check_addresses(spec)
    for number, source in enumerate(spec.metrics):
        if not any(f"{expanded(source.path, spec)}/".startswith(f"{place}/") for place in _shared_places(spec)):
            raise InvalidInputError(
                f"{source.path} is in none of the lead replica's directories and volumes",
                field=f"metrics[{number}].from",
                expected="$RESULT_DIR, $CHECKPOINT_DIR, or below: another container reads it",
            )


def _shared_places(spec: JobSpec) -> list[str]:
    """Every directory of the lead replica that a container beside it may read too."""
    template = json.loads(spec.role(spec.lead_role).pod_template_json or "{}")
    containers = (template.get("spec") or {}).get("containers") or ()
    mounts = [each.get("mountPath") for one in containers for each in one.get("volumeMounts") or ()]
    return [*(f"{HOME}/{folder}" for folder in DIRECTORIES.values()), *(str(at).rstrip("/") for at in mounts)]


def _check_writable(place: str, where: str, refused: tuple[str, ...]) -> None:
    if scheme_of(place) in ("file", ""):
        raise InvalidInputError(
            f"{place} is a path, and the pods of a cluster reach no other machine's disk",
            field=where,
            expected=_ALTERNATIVES,
        )
    if scheme_of(place) in refused:
        raise InvalidInputError(f"nothing can be stored at {place}", field=where, expected=_ALTERNATIVES)


def _check_inside(spec: JobSpec, place: str, where: str) -> None:
    path = expanded(place, spec)
    if not any(f"{path}/".startswith(f"{HOME}/{folder}/") for folder in DIRECTORIES.values()) or ".." in path:
        raise InvalidInputError(
            f"{place} is in none of a replica's directories", field=where, expected="$DATA_DIR, $RESULT_DIR, or below"
        )


def expanded(place: str, spec: JobSpec) -> str:
    """Return a place with the variables of every replica filled in."""
    variables = {"JOB_NAME": spec.name, **{name: f"{HOME}/{folder}" for name, folder in DIRECTORIES.items()}}
    return _REFERENCE.sub(lambda match: variables.get(match[1] or match[2], match[0]), place)


def moves_to_data(spec: JobSpec, job_id: str, job_archives: JobArchives, data: GangData) -> dict[str, str]:
    """Write the ConfigMap's content that tells the movers what to move."""
    order: Plain = {
        "writer": job_id,
        "inputs": [_input(spec, number, job_archives, job_id, data) for number in range(len(spec.inputs))],
        "outputs": [_entry(spec, move, data) for move in spec.outputs],
        "receipts": RECEIPTS if spec.labels.get(names.VOLUME) else None,
        "word": f"{WORD}/{STORE}",
        "go": STORE,
        "stores": {name: store_to_plain(store) for name, store in data.stores.items()},
        "directories": [*(f"{HOME}/{folder}" for folder in DIRECTORIES.values()), SCRATCH, CACHE, CLAIMS, EXPORTS],
        "checkpoints": _checkpoints(spec, data),
        "cache": [CACHE, spec.tenant, data.cache.most_bytes] if data.cache is not None else None,
    }
    return {"moves.json": json.dumps(order, indent=1)}


def _checkpoints(spec: JobSpec, data: GangData) -> Plain | None:
    """What the container beside the program is told that writes checkpoints to their address."""
    if spec.checkpoints is None:
        return None
    folder = f"{HOME}/{DIRECTORIES['CHECKPOINT_DIR']}"
    to = reached(expanded(spec.checkpoints.to, spec))
    return {"to": to, "store": data.checkpoint_store, "folder": folder, "socket": SOCKET}


def checkpoint_variables(spec: JobSpec) -> dict[str, str]:
    """What a program reads of where its checkpoints are also written; see ``gangline.runtime.replica``."""
    rule = spec.checkpoints
    if rule is None:
        return {}
    told = {"GANGLINE_CHECKPOINT_TO": expanded(rule.to, spec), "GANGLINE_CHECKPOINT_SOCKET": SOCKET}
    if rule.keep is not None:
        told["GANGLINE_CHECKPOINT_KEEP"] = str(rule.keep)
    if rule.every_seconds is not None:
        told["GANGLINE_CHECKPOINT_SECONDS"] = f"{rule.every_seconds:g}"
    return told


def store_to_plain(store: DataStore) -> Plain:
    """Where a store is, and where its keys are mounted: the keys themselves are in no object of ours."""
    keys = f"{STORES}/{store.name}" if store.keys else None
    return {"endpoint": store.endpoint, "region": store.region, "keys": keys}


def _entry(spec: JobSpec, move: DataMove, data: GangData) -> Plain:
    """One move, as ``gangline.data.carrying.Move`` is made of, and where the model lies that it names."""
    written, target = expanded(move.source, spec), expanded(move.target, spec)
    source = data.source_of(spec, move)
    options = [list(move.include), list(move.exclude), move.unpack]
    use = data.models.get(move)
    known = written if move in spec.inputs else target
    entry: Plain = {"move": [source, reached(target), data.store_of.get(move), *options, use and use.digest, known]}
    if use is not None:
        entry["models"] = {"at": reached(use.at), "store": use.store, "address": use.at}
    return entry


def _input(spec: JobSpec, number: int, job_archives: JobArchives, job_id: str, data: GangData) -> Plain:
    move = spec.inputs[number]
    # The job's id makes a receipt on a shared volume its own, even if a namesake left one there before.
    entry: Plain = {"job": job_id, **_entry(spec, move, data)}
    archive = job_archives.inputs.get(number)
    if archive is not None:
        return {
            **entry,
            "parts": f"{ARCHIVES}/input-{number}",
            "scratch": f"{SCRATCH}/{number}",
            "name": archive.file,
            "digest": archive.digest,
        }
    source = data.source_of(spec, move)
    if is_mounted_in_place(spec, move, source):
        return {**entry, "mounted": reached(source)}
    return {**entry, "move": [reached(source), *entry["move"][1:]]}


def is_mounted_in_place(spec: JobSpec, move: DataMove, source: str) -> bool:
    """Whether a program reads an input where it lies: it has a copy of what is put where it writes itself."""
    target = f"{expanded(move.target, spec)}/"
    own = (f"{HOME}/{DIRECTORIES[name]}/" for name in ("CHECKPOINT_DIR", "RESULT_DIR"))
    return scheme_of(source) in MOUNTED and not target.startswith(tuple(own))


def claim_of(place: str) -> tuple[str, str]:
    """Split ``pvc://CLAIM/path``."""
    address = addresses.parse(place)
    return address.place, address.path


def reached(place: str) -> str:
    """Where a mover finds a place: as it is, or where it is mounted."""
    if scheme_of(place) == "nfs":
        return export_root(place)
    if scheme_of(place) != "pvc":
        return place
    claim, path = claim_of(place)
    return f"{CLAIMS}/{claim}/{path}".rstrip("/")


def export_root(place: str) -> str:
    """Where an NFS export is mounted: whole, since nobody here knows where it begins."""
    return f"{EXPORTS}/{hashlib.sha256(addresses.parse(place).canonical.encode()).hexdigest()[:10]}"
