"""What brings a job's code and data into its pods and takes its results out of them. Pure.

Code is unpacked by an init container with nothing but a shell and ``tar`` or Python. Data is moved by
``gangline.runtime.moving``, which travels with the job and needs ``python3``: inputs in an init container of every
replica, outputs in a container beside the lead replica's program, which waits until the engine gives its word. docs/
kubernetes.md says what a user sees of it.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources

from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.archives import PART, Archive
from gangline.engines.kubernetes.pod import DIRECTORIES, HOME, Plain, Staging
from gangline.errors import InvalidInputError
from gangline.model import JobSpec

INPUTS_CONTAINER = "gangline-inputs"
OUTPUTS_CONTAINER = "gangline-outputs"
OUTPUTS_WORD = f"{names.DOMAIN}/outputs"
"""The annotation by which a pod is told to store its results; the kubelet carries it into the pod as a file."""
STORE = "store"
_ARCHIVES = f"{HOME}/archives"
_CLAIMS = f"{HOME}/claims"
_MOVES = f"{HOME}/moves"
_WORD = f"{HOME}/word"
_SCRATCH = f"{HOME}/moving"
_RECEIPTS = f"{HOME}/receipts"
_UNPACK = (
    "cat {parts} | tar -xzf - -C {target} || cat {parts} | python3 -c"
    " \"import sys, tarfile; tarfile.open(fileobj=sys.stdin.buffer, mode='r|gz').extractall('{target}')\""
)
_MOVER = ("moving.py", "trees.py", "unpacking.py")
_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_ALTERNATIVES = "an object store (s3://, gs://), or a volume (pvc://CLAIM/path)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """The archives that lie in the cluster for one job; inputs by their place in the job's list."""

    code: Archive | None = None
    inputs: Mapping[int, Archive] = field(default_factory=dict)


def scheme_of(place: str) -> str:
    """How a place is reached; ``file`` for a path of the submitter's machine, empty for one inside the pod."""
    if place.startswith("$"):
        return ""
    scheme, separator, _ = place.partition("://")
    return scheme.lower() if separator else "file"


def local_inputs(spec: JobSpec) -> dict[int, str]:
    """The inputs that are paths of whoever submits, by their place in the job's list."""
    return {number: move.source for number, move in enumerate(spec.inputs) if scheme_of(move.source) == "file"}


def check_data(spec: JobSpec) -> None:
    """Refuse moves that no cluster can make. Called before a job is submitted, and again before it is launched."""
    for number, move in enumerate(spec.inputs):
        _check_inside(spec, move.target, f"data.inputs[{number}].to")
    for number, move in enumerate(spec.outputs):
        where = f"data.outputs[{number}].to"
        _check_inside(spec, move.source, f"data.outputs[{number}].from")
        if scheme_of(move.target) in ("file", ""):
            raise InvalidInputError(
                f"{move.target} is a path, and the pods of a cluster reach no other machine's disk",
                field=where,
                expected=_ALTERNATIVES,
            )
        if scheme_of(move.target) in ("http", "https"):
            raise InvalidInputError(f"nothing can be stored at {move.target}", field=where, expected=_ALTERNATIVES)


def _check_inside(spec: JobSpec, place: str, where: str) -> None:
    path = _expanded(place, spec)
    if not any(f"{path}/".startswith(f"{HOME}/{folder}/") for folder in DIRECTORIES.values()) or ".." in path:
        raise InvalidInputError(
            f"{place} is in none of a replica's directories", field=where, expected="$DATA_DIR, $RESULT_DIR, or below"
        )


def _expanded(place: str, spec: JobSpec) -> str:
    variables = {"JOB_NAME": spec.name, **{name: f"{HOME}/{folder}" for name, folder in DIRECTORIES.items()}}
    return _REFERENCE.sub(lambda match: variables.get(match[1] or match[2], match[0]), place)


# What travels ----------------------------------------------------------------------------------------------


def moves_to_data(spec: JobSpec, job_id: str, stock: Stock) -> dict[str, str]:
    """Write the ConfigMap's content that tells the movers what to move, and the mover itself."""
    order = {
        "job": job_id,
        "inputs": [_input(spec, number, stock, job_id) for number in range(len(spec.inputs))],
        "outputs": [
            {"from": _expanded(move.source, spec), "to": _claimed(_expanded(move.target, spec))}
            for move in spec.outputs
        ],
        "receipts": _RECEIPTS if spec.labels.get(names.VOLUME) else None,
        "word": f"{_WORD}/{STORE}",
        "go": STORE,
    }
    runtime = resources.files("gangline.runtime")
    programs = {name: runtime.joinpath(name).read_text(encoding="utf-8") for name in _MOVER}
    return {**programs, "moves.json": json.dumps(order, indent=1)}


def _input(spec: JobSpec, number: int, stock: Stock, job_id: str) -> Plain:
    move = spec.inputs[number]
    # The job's id makes a receipt on a shared volume its own, even if a namesake left one there before.
    entry: Plain = {"job": job_id, "from": _expanded(move.source, spec), "to": _expanded(move.target, spec)}
    archive = stock.inputs.get(number)
    if archive is not None:
        return {
            **entry,
            "parts": f"{_ARCHIVES}/input-{number}",
            "scratch": f"{_SCRATCH}/{number}",
            "name": archive.file,
            "digest": archive.digest,
        }
    if scheme_of(move.source) == "pvc":
        return {**entry, "mounted": _claimed(entry["from"])}
    return entry


def _claim(place: str) -> tuple[str, str]:
    """Split ``pvc://CLAIM/path``."""
    claim, _, path = place.partition("://")[2].partition("/")
    return claim, path.strip("/")


def _claimed(place: str) -> str:
    """Where a mover finds a place: as it is, or below the mounted claim."""
    if scheme_of(place) != "pvc":
        return place
    claim, path = _claim(place)
    return f"{_CLAIMS}/{claim}/{path}".rstrip("/")


# What stands in the pods -----------------------------------------------------------------------------------


def gang_to_staging(spec: JobSpec, shared: str, stock: Stock, *, mover_image: str | None) -> Staging:
    """Write what surrounds every replica's program; ``shared`` is the name of what its job shares."""
    staging = Staging()
    if stock.code is not None:
        staging += _unpacking(stock.code)
    if spec.inputs:
        staging += _fetching(spec, stock, mover_image)
    if spec.outputs:
        staging += _storing(spec, mover_image)
    if spec.inputs or spec.outputs:
        claims = moved_claims(spec)
        moves: Plain = {"name": "gangline-moves", "configMap": {"name": f"{shared}-moves"}}
        staging += Staging(volumes=(moves, *map(_claim_to_volume, sorted(claims))))
    return staging


def moved_claims(spec: JobSpec) -> set[str]:
    """Name the claims that data comes from or goes to: every replica mounts them."""
    places = [*(move.source for move in spec.inputs), *(move.target for move in spec.outputs)]
    return {_claim(_expanded(place, spec))[0] for place in places if scheme_of(place) == "pvc"}


def _unpacking(code: Archive) -> Staging:
    volumes, mounts = _parts("code", code)
    target = {"name": "gangline-scratch", "mountPath": f"{HOME}/code", "subPath": "code"}
    script = _UNPACK.format(parts=f"{_ARCHIVES}/code/*/{PART}", target=f"{HOME}/code")
    unpack: Plain = {"name": "gangline-code", "command": ["sh", "-c", script], "volumeMounts": [*mounts, target]}
    return Staging(volumes=tuple(volumes), unpack=(unpack,))


def _fetching(spec: JobSpec, stock: Stock, image: str | None) -> Staging:
    volumes: list[Plain] = []
    mounts: list[Plain] = [{"name": "gangline-scratch", "mountPath": _SCRATCH, "subPath": "moving"}]
    mounted: list[Plain] = []
    for number, archive in stock.inputs.items():
        more_volumes, more_mounts = _parts(f"input-{number}", archive)
        volumes, mounts = volumes + more_volumes, mounts + more_mounts
    for move in spec.inputs:
        if scheme_of(move.source) == "pvc":
            claim, path = _claim(_expanded(move.source, spec))
            mounts.append(_claim_mount(claim, read_only=True))
            where = {"name": _claim_volume(claim), "mountPath": _expanded(move.target, spec), "readOnly": True}
            mounted.append({**where, "subPath": path} if path else where)
    if spec.labels.get(names.VOLUME):
        folder = f"{spec.name}/receipts"
        mounts.append({"name": "gangline-volume", "mountPath": _RECEIPTS, "subPath": folder})
    mover = _mover(INPUTS_CONTAINER, "inputs", mounts, image)
    return Staging(volumes=tuple(volumes), mounts=tuple(mounted), before=(mover,))


def _storing(spec: JobSpec, image: str | None) -> Staging:
    word: Plain = {"path": STORE, "fieldRef": {"fieldPath": f"metadata.annotations['{OUTPUTS_WORD}']"}}
    volume: Plain = {"name": "gangline-word", "downwardAPI": {"items": [word]}}
    claims = {_claim(move.target)[0] for move in spec.outputs if scheme_of(move.target) == "pvc"}
    mounts = [
        {"name": "gangline-word", "mountPath": _WORD},
        *(_claim_mount(claim, read_only=False) for claim in sorted(claims)),
    ]
    return Staging(volumes=(volume,), after=(_mover(OUTPUTS_CONTAINER, "outputs", mounts, image),))


def _mover(name: str, kind: str, mounts: list[Plain], image: str | None) -> Plain:
    container: Plain = {
        "name": name,
        "command": ["python3", f"{_MOVES}/moving.py", kind, f"{_MOVES}/moves.json"],
        "volumeMounts": [*_unique(mounts), {"name": "gangline-moves", "mountPath": _MOVES}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return {**container, "image": image} if image else container


def _claim_mount(claim: str, *, read_only: bool) -> Plain:
    return {"name": _claim_volume(claim), "mountPath": f"{_CLAIMS}/{claim}", "readOnly": read_only}


def _claim_to_volume(claim: str) -> Plain:
    return {"name": _claim_volume(claim), "persistentVolumeClaim": {"claimName": claim}}


def _claim_volume(claim: str) -> str:
    """A claim's name may be longer, and may hold other characters, than that of a volume."""
    return f"gangline-claim-{hashlib.sha256(claim.encode()).hexdigest()[:10]}"


def _parts(kind: str, archive: Archive) -> tuple[list[Plain], list[Plain]]:
    volumes: list[Plain] = []
    mounts: list[Plain] = []
    for number, name in enumerate(archive.part_names()):
        volumes.append({"name": f"gangline-{kind}-{number}", "configMap": {"name": name}})
        mounts.append({"name": f"gangline-{kind}-{number}", "mountPath": f"{_ARCHIVES}/{kind}/{number:03}"})
    return volumes, mounts


def _unique(mounts: list[Plain]) -> list[Plain]:
    return list({mount["mountPath"]: mount for mount in mounts}.values())
