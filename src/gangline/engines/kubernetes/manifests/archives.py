"""Files that travel with a job: packed where they are, sent in parts as ConfigMaps, found again by their first part.

A cluster gives a submitter no place to put files but its API, and one object holds a megabyte. So an archive is cut
into immutable ConfigMaps that belong to the job. The first part tells how many there are and is written last: whoever
sees it sees a whole archive. The others are named by the digest of the whole, so that a second try with changed files
never mixes with the first.
"""

import base64
import gzip
import hashlib
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

from gangline.data.trees import Entry, Tree
from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.manifests.pod import Plain
from gangline.errors import EngineError
from gangline.kube import ConfigMap

PART = "part"
"""The key under which a ConfigMap holds its piece."""
LIMIT_BYTES = 64 << 20
_PART_BYTES = 720 * 1024
"""As large as a request may be whose encoded body stays below a megabyte."""
_DIGEST = f"{names.DOMAIN}/digest"
_PARTS = f"{names.DOMAIN}/parts"
_FILE = f"{names.DOMAIN}/file"


class TooLargeError(EngineError):
    """More than fits into a cluster's API."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} has more than {LIMIT_BYTES >> 20} MiB compressed; put it where the cluster can fetch it"
            " (s3://, https://), on a volume (pvc://CLAIM/path), or into the image"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """An archive in the cluster. ``file`` is set if it holds one file and not the content of a directory."""

    name: str
    digest: str
    parts: int
    file: str = ""

    def part_names(self) -> list[str]:
        """Name the ConfigMaps in the order of their pieces."""
        return [self.name, *(f"{self.name}-{self.digest[:12]}-{number}" for number in range(1, self.parts))]


def pack(path: Path) -> bytes:
    """Pack a file, or what is in a directory by the rules of ``Tree``; the same files always give the same bytes."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", dereference=True) as archive,
    ):
        tree = Tree(path) if path.is_dir() else [Entry(path.name, path)]
        for entry in tree:
            _add(archive, entry)
            if buffer.tell() > LIMIT_BYTES:
                raise TooLargeError(str(path))
    if len(buffer.getvalue()) > LIMIT_BYTES:
        raise TooLargeError(str(path))
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, entry: Entry) -> None:
    """Add a file, a directory or a link that whoever unpacks it owns."""
    if entry.link is not None:
        link = tarfile.TarInfo(entry.name)
        link.type, link.linkname, link.mode = tarfile.SYMTYPE, entry.link, 0o777
        archive.addfile(link)
    else:
        archive.add(entry.path, arcname=entry.name, recursive=False, filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = int(member.mtime)
    member.mode |= 0o600 if member.isfile() else 0o700
    return member


def archive_to_config_maps(content: bytes, metadata: Plain, *, file: str = "") -> tuple[Archive, list[Plain]]:
    """Cut an archive into ConfigMaps, in the order to send them: the first part, which has ``metadata``, comes last."""
    if len(content) > LIMIT_BYTES:
        raise TooLargeError(metadata["name"])
    pieces = [content[start : start + _PART_BYTES] for start in range(0, len(content), _PART_BYTES)]
    digest = hashlib.sha256(content).hexdigest()
    archive = Archive(name=metadata["name"], digest=digest, parts=len(pieces), file=file)
    notes = {_DIGEST: digest, _PARTS: str(archive.parts), _FILE: file}
    bodies = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**metadata, "name": name, "annotations": notes},
            "immutable": True,
            "binaryData": {PART: base64.b64encode(piece).decode()},
        }
        for name, piece in zip(archive.part_names(), pieces, strict=True)
    ]
    return archive, bodies[::-1]


def config_map_to_archive(first: ConfigMap) -> Archive:
    """Read what the first part says of the whole."""
    notes = first.metadata.annotations
    return Archive(
        name=first.metadata.name,
        digest=notes.get(_DIGEST, ""),
        parts=int(notes.get(_PARTS, "1")),
        file=notes.get(_FILE, ""),
    )
