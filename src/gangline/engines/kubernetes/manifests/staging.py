"""What brings a job's code and data into its pods and takes its results out of them. Pure.

Code is unpacked by an init container with nothing but a shell and ``tar`` or Python, within limits. Data is moved by
``gangline.data.pod_mover`` in Gangline's own image: inputs in an init container of every replica, outputs in one beside
the lead replica's program, which waits until the engine gives its word. docs/kubernetes.md says what a user sees of it.
"""

import hashlib
from collections.abc import Iterable

from gangline.data import addresses
from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.manifests import moves
from gangline.engines.kubernetes.manifests.archives import PART, Archive
from gangline.engines.kubernetes.manifests.moves import GangData, JobArchives, claim_of, expanded, reached, scheme_of
from gangline.engines.kubernetes.manifests.pod import HOME, Plain, Staging
from gangline.model import CodeLimits, DataMove, JobSpec

INPUTS_CONTAINER = "gangline-inputs"
OUTPUTS_CONTAINER = "gangline-outputs"
CHECKPOINTS_CONTAINER = "gangline-checkpoints"
OUTPUTS_WORD = f"{names.DOMAIN}/outputs"
"""The annotation by which a pod is told to store its results; the kubelet carries it into the pod as a file."""
MOVES = f"{HOME}/moves"
_UNPACK = """\
refuse() {{ echo "the code cannot be unpacked: the archive holds more than $1" >&2; exit 1; }}
if command -v tar && command -v gzip; then
  unpacked() {{ cat {parts} | gzip -dc | head -c {most}; }}
  files=$(unpacked | tar -tf - | wc -l)
  [ "$files" -le {files} ] || refuse "{files} files"
  [ "$(unpacked | wc -c)" -le $(({size} + (files + 1) * {header})) ] || refuse "{mib:g} MiB when it is unpacked"
  unpacked | tar -xf - -C {target}
else
  cat {parts} | python3 -c "
import sys, tarfile
left, files = {size}, {files}
with tarfile.open(fileobj=sys.stdin.buffer, mode='r|gz') as archive:
    for member in archive:
        left, files = left - member.size, files - 1
        if left < 0 or files < 0:
            sys.exit('the code cannot be unpacked: the archive holds more than {files} files or {mib:g} MiB')
        archive.extract(member, '{target}')
"
fi >/dev/null
"""
"""Any shell with tar and gzip, or Python; a few bytes can be unpacked to very many. A tar adds headers to each file."""
_HEADER_BYTES = 4096


def gang_to_staging(
    spec: JobSpec, shared: str, job_archives: JobArchives, data: GangData, *, mover_image: str | None
) -> Staging:
    """Write what surrounds every replica's program; ``shared`` is the name of what its job shares."""
    staging = Staging()
    if job_archives.code is not None:
        staging += _unpacking(job_archives.code)
    if not moves.has_moves(spec):
        return staging
    if spec.inputs:
        staging += _fetching(spec, job_archives, data, mover_image)
    if spec.checkpoints is not None:
        staging += _checkpointing(spec, data, mover_image)
    if spec.outputs:
        staging += _storing(spec, data, mover_image)
    told: Plain = {"name": "gangline-moves", "configMap": {"name": f"{shared}-moves"}}
    keys = [keys_volume(store.name, store.keys) for store in data.stores.values() if store.keys]
    places = {volume["name"]: volume for volume in map(place_to_volume, sorted(data.mounted(spec)))}
    return staging + Staging(volumes=(told, *places.values(), *keys))


def _unpacking(code: Archive) -> Staging:
    volumes, mounts = _parts("code", code)
    target = {"name": "gangline-scratch", "mountPath": f"{HOME}/code", "subPath": "code"}
    script = unpack_script(f"{moves.ARCHIVES}/code/*/{PART}", f"{HOME}/code", CodeLimits())
    unpack: Plain = {
        "name": "gangline-code",
        "command": ["sh", "-c", script],
        "volumeMounts": [*mounts, target],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return Staging(volumes=tuple(volumes), unpack=(unpack,))


def unpack_script(parts: str, target: str, limits: CodeLimits) -> str:
    """Write what a shell does to unpack the parts of an archive, as far as the limits allow."""
    size, files = limits.unpacked_bytes, limits.files
    most = size + (files + 2) * _HEADER_BYTES
    return _UNPACK.format(
        parts=parts, target=target, size=size, files=files, most=most, mib=size / 2**20, header=_HEADER_BYTES
    )


def _fetching(spec: JobSpec, job_archives: JobArchives, data: GangData, image: str | None) -> Staging:
    volumes: list[Plain] = []
    mounts: list[Plain] = [{"name": "gangline-scratch", "mountPath": moves.SCRATCH, "subPath": "moving"}]
    mounted: list[Plain] = []
    for number, archive in job_archives.inputs.items():
        more_volumes, more_mounts = _parts(f"input-{number}", archive)
        volumes, mounts = volumes + more_volumes, mounts + more_mounts
    for move in spec.inputs:
        source = data.source_of(spec, move)
        if scheme_of(source) in moves.MOUNTED:
            mounts.append(place_mount(source, read_only=True))
        if moves.is_mounted_in_place(spec, move, source):
            where = {**place_mount(source, read_only=True), "mountPath": expanded(move.target, spec)}
            path = claim_of(source)[1] if scheme_of(source) == "pvc" else ""
            mounted.append({**where, "subPath": path} if path else where)
    if spec.labels.get(names.VOLUME):
        folder = f"{spec.name}/receipts"
        mounts.append({"name": "gangline-volume", "mountPath": moves.RECEIPTS, "subPath": folder})
    if data.cache is not None:
        mounts.append({"name": _volume_name(f"pvc://{data.cache.name}"), "mountPath": moves.CACHE})
    mounts += _reaching(spec.inputs, data, read_only=True)
    mover = _mover(INPUTS_CONTAINER, "inputs", mounts, image)
    return Staging(volumes=tuple(volumes), mounts=tuple(mounted), before=(mover,))


def _storing(spec: JobSpec, data: GangData, image: str | None) -> Staging:
    word: Plain = {"path": moves.STORE, "fieldRef": {"fieldPath": f"metadata.annotations['{OUTPUTS_WORD}']"}}
    volume: Plain = {"name": "gangline-word", "downwardAPI": {"items": [word]}}
    targets = sorted(expanded(move.target, spec) for move in spec.outputs)
    mounts = [
        {"name": "gangline-word", "mountPath": moves.WORD},
        *(place_mount(place, read_only=False) for place in targets if scheme_of(place) in moves.MOUNTED),
        *_reaching(spec.outputs, data, read_only=False),
    ]
    return Staging(volumes=(volume,), after=(_mover(OUTPUTS_CONTAINER, "outputs", mounts, image),))


def _checkpointing(spec: JobSpec, data: GangData, image: str | None) -> Staging:
    """Put a container beside every replica's program that writes its checkpoints to their address, and finds them."""
    assert spec.checkpoints is not None
    meeting: Plain = {"name": "gangline-scratch", "mountPath": moves.CHECKPOINTING, "subPath": "checkpointing"}
    mounts = [meeting]
    place = expanded(spec.checkpoints.to, spec)
    if scheme_of(place) in moves.MOUNTED:
        mounts.append(place_mount(place, read_only=False))
    name = data.checkpoint_store
    if name is not None and data.stores[name].keys:
        mounts.append(keys_mount(name))
    container = {
        **_mover(CHECKPOINTS_CONTAINER, "", mounts, image),
        "command": ["python3", "-I", "-m", "gangline.runtime.checkpoint_sidecar", f"{MOVES}/moves.json"],
        # A sidecar: it is there before the program, is started again if it ends, and is stopped after the program.
        "restartPolicy": "Always",
    }
    return Staging(mounts=(meeting,), before=(container,))


def _reaching(wanted: Iterable[DataMove], data: GangData, *, read_only: bool) -> list[Plain]:
    """Mount the keys of the stores that some moves need, and the claim with models. The program has neither."""
    wanted = tuple(wanted)
    used = [data.models[move] for move in wanted if move in data.models]
    stores = {data.store_of[move] for move in wanted if move in data.store_of}
    stores |= {use.store for use in used if use.store is not None}
    mounts = [place_mount(use.at, read_only=read_only) for use in used if scheme_of(use.at) == "pvc"]
    for name in sorted(stores):
        if data.stores[name].keys:
            mounts.append(keys_mount(name))
    return mounts


def keys_mount(store: str) -> Plain:
    """Mount the keys of a store where movers look for them."""
    return {"name": _keys_name(store), "mountPath": f"{moves.STORES}/{store}", "readOnly": True}


def keys_volume(store: str, secret: str) -> Plain:
    """Write the volume of the Secret that has a store's keys."""
    return {"name": _keys_name(store), "secret": {"secretName": secret, "defaultMode": 0o444}}


def _keys_name(store: str) -> str:
    return f"gangline-keys-{hashlib.sha256(store.encode()).hexdigest()[:10]}"


def _mover(name: str, kind: str, mounts: list[Plain], image: str | None) -> Plain:
    container: Plain = {
        "name": name,
        # Isolated: variables for the program's own Python mean nothing to this one.
        "command": ["python3", "-I", "-m", "gangline.data.pod_mover", kind, f"{MOVES}/moves.json"],
        "volumeMounts": [*unique_mounts(mounts), {"name": "gangline-moves", "mountPath": MOVES}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return {**container, "image": image} if image else container


def place_mount(place: str, *, read_only: bool) -> Plain:
    """Mount a claim, or an NFS export, where movers look for it."""
    at = reached(place) if scheme_of(place) == "nfs" else f"{moves.CLAIMS}/{claim_of(place)[0]}"
    return {"name": _volume_name(place), "mountPath": at, "readOnly": read_only}


def place_to_volume(place: str) -> Plain:
    """Write the volume of a claim, or of an NFS export."""
    if scheme_of(place) == "nfs":
        address = addresses.parse(place)
        return {"name": _volume_name(place), "nfs": {"server": address.place, "path": address.path}}
    return {"name": _volume_name(place), "persistentVolumeClaim": {"claimName": claim_of(place)[0]}}


def _volume_name(place: str) -> str:
    """A claim's name may be longer, and may hold other characters, than that of a volume."""
    if scheme_of(place) == "nfs":
        return f"gangline-export-{reached(place).rpartition('/')[2]}"
    return f"gangline-claim-{hashlib.sha256(claim_of(place)[0].encode()).hexdigest()[:10]}"


def _parts(kind: str, archive: Archive) -> tuple[list[Plain], list[Plain]]:
    volumes: list[Plain] = []
    mounts: list[Plain] = []
    for number, name in enumerate(archive.part_names()):
        volumes.append({"name": f"gangline-{kind}-{number}", "configMap": {"name": name}})
        mounts.append({"name": f"gangline-{kind}-{number}", "mountPath": f"{moves.ARCHIVES}/{kind}/{number:03}"})
    return volumes, mounts


def unique_mounts(mounts: Iterable[Plain]) -> list[Plain]:
    """Leave one mount at every path."""
    return list({mount["mountPath"]: mount for mount in mounts}.values())
