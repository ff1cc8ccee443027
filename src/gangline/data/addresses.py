"""Addresses of data: one form and one meaning for inputs, outputs, checkpoints and models.

Pure. It travels to a cluster with the mover, so it needs the standard library of an old Python and nothing else.
"""

from __future__ import annotations

import re
import urllib.parse
from typing import NamedTuple

from .unpacking import PermanentError

OBJECT_STORES = ("s3", "gs", "az")
SCHEMES = ("file", "http", "https", *OBJECT_STORES, "nfs", "pvc", "job", "model")
_OTHER_NAMES = {"s3a": "s3", "gcs": "gs", "azure": "az", "abfs": "az"}
_NAME = r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?"
_MODEL = re.compile(rf"(?P<name>{_NAME})(?::(?P<version>[1-9][0-9]*)|@(?P<alias>{_NAME}))?")
_CLAIM = re.compile(_NAME)
_FORMS = {
    "s3": "s3://BUCKET/path",
    "gs": "gs://BUCKET/path",
    "az": "az://CONTAINER/path",
    "http": "http://HOST/path",
    "https": "https://HOST/path",
    "nfs": "nfs://HOST/path",
    "pvc": "pvc://CLAIM/path",
    "job": "job://NAME/results or job://NAME/checkpoints",
    "model": "model://NAME, model://NAME:VERSION or model://NAME@ALIAS",
}

_KEYS_BELONG = "keep keys in a store: gangline store add"


class AddressError(PermanentError, ValueError):
    """A text is not an address that Gangline knows."""


class Address(NamedTuple):
    """Where data is.

    ``place`` is the bucket, container, host, claim, job or model; empty for files. ``path`` is the file's path, or what
    follows the place, without slashes around it. ``is_folder`` says that the text ended in a slash.
    """

    text: str
    scheme: str
    place: str = ""
    path: str = ""
    version: str = ""
    alias: str = ""
    is_folder: bool = False

    @property
    def in_object_store(self) -> bool:
        """Whether it is reached through an object store's own interface."""
        return self.scheme in OBJECT_STORES

    @property
    def last_part(self) -> str:
        """The name by which what lies here goes."""
        return self.path.rstrip("/").rpartition("/")[2] or "download"

    @property
    def canonical(self) -> str:
        """The address as stores are compared by, whatever other name its scheme was given."""
        return f"{self.scheme}://{self.place}/{self.path}".rstrip("/")

    def local_path(self) -> str:
        """The path of a file of this machine; a relative one means something else in every directory."""
        if not self.path.startswith("/"):
            raise AddressError(f"{self.text} is a relative path; write it from the root, or use $DATA_DIR and its kin")
        return self.path

    def below(self, name: str) -> Address:
        """The address of an entry of this folder."""
        path = f"{self.path}/{name}" if self.path else name
        return self._replace(text=f"{self.text.rstrip('/')}/{name}", path=path, is_folder=False)


def scheme_of(text: str) -> str:
    """The scheme that a text is written with, known or not; ``file`` for a plain path."""
    scheme, separator, _ = text.partition("://")
    return _OTHER_NAMES.get(scheme.lower(), scheme.lower()) if separator else "file"


def parse(text: str) -> Address:
    """Read an address; raises AddressError that says what is wrong with it and what would be right."""
    scheme = scheme_of(text)
    if scheme not in SCHEMES:
        raise AddressError(f"{text}: {scheme}:// is not known; use a path or one of {', '.join(SCHEMES[1:])}")
    is_folder = text.endswith("/")
    if "://" not in text:
        return Address(text, "file", path=text, is_folder=is_folder)
    place, _, path = text.partition("://")[2].partition("/")
    if scheme == "file":
        return _file(text, place)._replace(is_folder=is_folder)
    if not place:
        raise _malformed(text, scheme)
    if "@" in place and scheme != "model":
        # What is refused may hold a key, so it is not shown: an address stands in records, logs and events.
        raise AddressError(f"{scheme}://...@... names a user or a key, and an address holds none; {_KEYS_BELONG}")
    if scheme in ("http", "https"):
        # What follows the path belongs to the request, not to the name.
        return Address(text, scheme, place, urllib.parse.unquote(urllib.parse.urlsplit(text).path), is_folder=is_folder)
    return _check(Address(text, scheme, place, path.strip("/"), is_folder=is_folder))


def _file(text: str, host: str) -> Address:
    if host not in ("", "localhost"):
        raise AddressError(f"{text} names a file of {host}; write file:///path for one of this machine")
    return Address(text, "file", path=urllib.parse.unquote(urllib.parse.urlsplit(text).path))


def _check(address: Address) -> Address:
    if ".." in address.path.split("/"):
        raise AddressError(f"{address.text} leads out of where it begins; write it without '..'")
    if address.scheme == "model":
        match = _MODEL.fullmatch(address.place)
        if match is None or address.path:
            raise _malformed(address.text, "model")
        return address._replace(place=match["name"], version=match["version"] or "", alias=match["alias"] or "")
    if address.scheme == "job" and (
        address.path.split("/")[0] not in ("results", "checkpoints") or not _CLAIM.fullmatch(address.place)
    ):
        raise _malformed(address.text, "job")
    if address.scheme == "pvc" and not _CLAIM.fullmatch(address.place):
        raise _malformed(address.text, "pvc")
    if address.scheme == "nfs":
        return address._replace(path=f"/{address.path}")
    return address


def _malformed(text: str, scheme: str) -> AddressError:
    return AddressError(f"{text} is not an address of this kind: expected {_FORMS[scheme]}")
