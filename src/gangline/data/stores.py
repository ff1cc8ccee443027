"""Object stores behind one small class: list, read a range, write whole, and errors that say what helps.

obstore speaks to the store and is imported when the first one is opened; its types and its errors end here.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from .addresses import Address
from .credentials import OF_THE_ENVIRONMENT, StoreCredentials
from .lanes import StoreError, persist
from .unpacking import PermanentError

T = TypeVar("T")

PART_BYTES = 8 << 20
_PIECE_BYTES = 512 << 10
"""How much of an answer is handed over at a time: small enough for memory to be used again at once."""
_MOST_PARTS = 9_000
_UPLOAD_BYTES = 48 << 20
"""How much of one upload may be in memory; more of it at a time for each part that is larger than usual."""
_INNER_RETRIES = 3
_CONNECT_SECONDS = 10
_WORTH_ANOTHER_TRY = (408, 409, 425, 429)


class MissingError(PermanentError):
    """There is nothing at an address."""


class ChangedError(OSError):
    """What is at an address is not what it was when it was looked at."""


class TakenError(PermanentError):
    """Something is there already."""


class Entry(NamedTuple):
    """An object of a folder, by its path below it."""

    name: str
    size: int
    e_tag: str
    modified: float
    state: str = ""
    """What a write names that must not overwrite another state; lists do not tell it."""


@dataclass(frozen=True, slots=True)
class Folder:
    """What lies below one address of an object store. Every call is tried again for as long as patience lasts."""

    address: Address
    store: Any
    patience_seconds: float

    @classmethod
    def open(
        cls,
        address: Address,
        credentials: StoreCredentials = OF_THE_ENVIRONMENT,
        *,
        patience_seconds: float = 120.0,
    ) -> "Folder":
        """Prepare to speak to the store; nothing is asked of it yet."""
        with _failures_of(address.text):
            return cls(address, _connect(address, credentials), patience_seconds)

    def parent(self) -> "Folder":
        """The folder that this lies in."""
        above = self.address._replace(
            text=self.address.text.rstrip("/").rpartition("/")[0],
            path=self.address.path.rpartition("/")[0],
            is_folder=True,
        )
        return replace(self, address=above)

    def entries(self) -> list[Entry]:
        """Every object below the address."""
        return self._persist(lambda: list(self._listed()))

    def head(self, name: str = "") -> Entry | None:
        """What is known of one object; None if it does not exist. Without a name, of the address itself."""
        import obstore

        try:
            meta = self._persist(lambda: obstore.head(self.store, self._key(name)), name)
        except MissingError:
            return None
        return _entry(meta, name)

    def read(self, name: str, start: int, end: int, e_tag: str = "") -> memoryview:
        """Read a range of an object; raises ChangedError if it is no longer the one with the tag."""
        import obstore

        def fetch() -> memoryview:
            options: Any = {"if_match": f'"{e_tag}"'} if e_tag else {}
            if end > start:
                options["range"] = (start, end)
            data = memoryview(obstore.get(self.store, self._key(name), options=options).bytes())
            if len(data) != end - start:
                raise StoreError(f"{self._text(name)}: {len(data)} bytes came, not {end - start}")
            return data

        return self._persist(fetch, name)

    def read_pieces(self, name: str, start: int, end: int, e_tag: str = "") -> Iterator[memoryview]:
        """Read a range as it comes, in pieces of any size. Not tried again: whoever reads knows how far it came."""
        import obstore

        options: Any = {"range": (start, end), **({"if_match": f'"{e_tag}"'} if e_tag else {})}
        with _failures_of(self._text(name)):
            for piece in obstore.get(self.store, self._key(name), options=options).stream(min_chunk_size=_PIECE_BYTES):
                start += len(piece)
                if start > end:
                    raise StoreError(f"{self._text(name)}: more came than was asked for")
                yield memoryview(piece)
        if start != end:
            raise StoreError(f"{self._text(name)}: the answer ended {end - start} bytes early")

    def read_small(self, name: str) -> tuple[bytes, Entry]:
        """Read a whole object that is known to be small, and what is known of it."""
        import obstore

        def fetch() -> tuple[bytes, Entry]:
            answer = obstore.get(self.store, self._key(name))
            return bytes(answer.bytes()), _entry(answer.meta, name)

        return self._persist(fetch, name)

    def write(self, name: str, data: bytes, *, mode: str | None = None) -> str:
        """Store an object whole; returns its state. ``mode`` is 'create' or the state that it must still have."""
        import obstore

        wanted: Any = mode if mode in (None, "create") else _update(str(mode))
        put = lambda: obstore.put(self.store, self._key(name), data, mode=wanted, use_multipart=False)  # noqa: E731
        return _state(self._persist(put, name))

    def write_large(self, name: str, chunks: Iterator[bytes], size: int) -> str:
        """Store an object from its chunks: seen whole or not at all. Not tried again: chunks are read once."""
        import obstore

        part = max(PART_BYTES, -(-size // _MOST_PARTS))
        with _failures_of(self._text(name)):
            result = obstore.put(
                self.store,
                self._key(name),
                chunks,
                chunk_size=part,
                max_concurrency=max(1, min(4, _UPLOAD_BYTES // part)),
            )
        return _tag(result)

    def delete(self, names: list[str]) -> None:
        """Remove objects; what is not there is no error."""
        import obstore

        if names:
            with contextlib.suppress(MissingError):
                self._persist(lambda: obstore.delete(self.store, [self._key(name) for name in names]))

    def _persist(self, action: Callable[[], T], name: str = "") -> T:
        def guarded() -> T:
            with _failures_of(self._text(name)):
                return action()

        return persist(guarded, self.patience_seconds)

    def _listed(self) -> Iterator[Entry]:
        import obstore

        prefix = f"{self.address.path}/" if self.address.path else ""
        for batch in obstore.list(self.store, prefix or None, chunk_size=1000):
            for meta in batch:
                if meta["path"].startswith(prefix) and not meta["path"].endswith("/"):
                    yield _entry(meta, meta["path"][len(prefix) :])

    def _key(self, name: str) -> str:
        return "/".join(part for part in (self.address.path, name) if part)

    def _text(self, name: str) -> str:
        return "/".join(part for part in (self.address.text.rstrip("/"), name) if part)


def _entry(meta: Any, name: str) -> Entry:
    return Entry(name, meta["size"], _tag(meta), meta["last_modified"].timestamp(), _state(meta))


def _tag(meta: Any) -> str:
    """The tag of an object, without quotation marks, which some stores leave out in some answers."""
    return (meta["e_tag"] or "").strip('"')


def _state(meta: Any) -> str:
    """What a write goes by: the tag, with the number by which Google counts states; its lists do not have that."""
    version = meta["version"] or ""
    return f"{_tag(meta)}#{version}" if version.isdigit() else _tag(meta)


def tag_of(state: str) -> str:
    """The tag by which lists tell a state."""
    return state.partition("#")[0]


def _update(state: str) -> dict[str, str]:
    e_tag, _, version = state.partition("#")
    return {"e_tag": f'"{e_tag}"', **({"version": version} if version else {})}


def _connect(address: Address, credentials: StoreCredentials) -> Any:
    from obstore import store

    if address.scheme == "s3" and not credentials.endpoint:
        credentials = replace(credentials, endpoint=_endpoint_of_the_environment())
    shared: Any = {
        "client_options": {
            "allow_http": credentials.endpoint.startswith("http://"),
            "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
            # Of the whole answer, which for a slow store is a chunk or a part.
            "timeout": timedelta(seconds=300),
            "read_timeout": timedelta(seconds=60),
        },
        "retry_config": {"max_retries": _INNER_RETRIES, "retry_timeout": timedelta(seconds=30)},
    }
    if address.scheme == "s3":
        return store.S3Store(address.place, **_s3(credentials), **shared)
    if address.scheme == "gs":
        return store.GCSStore(address.place, **_gs(credentials), **shared)
    return store.AzureStore(address.place, **_az(credentials), **shared)


def _endpoint_of_the_environment() -> str:
    """The server that the AWS command line would use; obstore refuses one without encryption unless it is told."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def _s3(credentials: StoreCredentials) -> dict[str, Any]:
    given: dict[str, Any] = {"endpoint": credentials.endpoint, "region": credentials.region}
    if credentials.endpoint and not credentials.region:
        given["region"] = "us-east-1"
    if credentials.key:
        # A provider, so that a session token of the environment is not mixed with a key that was given.
        identity = {
            "access_key_id": credentials.key,
            "secret_access_key": credentials.secret,
            "token": credentials.token or None,
            "expires_at": None,
        }
        given["credential_provider"] = lambda: identity
    return {name: value for name, value in given.items() if value}


def _gs(credentials: StoreCredentials) -> dict[str, Any]:
    given: dict[str, Any] = {"base_url": credentials.endpoint, "service_account_key": credentials.secret}
    if credentials.token:
        given["credential_provider"] = lambda: {"token": credentials.token, "expires_at": None}
    return {name: value for name, value in given.items() if value}


def _az(credentials: StoreCredentials) -> dict[str, Any]:
    given = {
        "endpoint": credentials.endpoint,
        "account_name": credentials.key,
        "account_key": credentials.secret,
        "sas_key": credentials.token,
    }
    return {name: value for name, value in given.items() if value}


@contextlib.contextmanager
def _failures_of(where: str) -> Iterator[None]:
    """Turn the library's errors into ours: what is worth another try, and what never is."""
    try:
        from obstore import exceptions as theirs
    except ImportError as error:
        raise PermanentError(f"{where}: object stores need an extra: pip install 'gangline[data]'") from error
    try:
        yield
    except (PermanentError, StoreError):
        raise
    except (theirs.PermissionDeniedError, theirs.UnauthenticatedError) as error:
        raise PermanentError(f"{where}: the store refuses the key, or the key may not do this: {_say(error)}") from None
    except theirs.AlreadyExistsError as error:
        raise TakenError(f"{where}: {_say(error)}") from None
    except FileNotFoundError as error:
        if error.errno is not None:
            raise  # a file of this machine that is to be stored
        raise MissingError(f"{where}: there is nothing there: {_say(error)}") from None
    except theirs.PreconditionError as error:
        raise ChangedError(f"{where}: {_say(error)}") from None
    except (theirs.InvalidPathError, theirs.NotSupportedError, theirs.UnknownConfigurationKeyError) as error:
        raise PermanentError(f"{where}: {_say(error)}") from None
    except theirs.BaseError as error:
        raise _generic(where, error) from None
    except ValueError as error:
        raise PermanentError(f"{where!r} cannot be a name in an object store: {_say(error)}") from None


def _generic(where: str, error: Exception) -> Exception:
    """The library tells some refusals by their status alone, those of lists among them."""
    if "builder error" in str(error):
        return PermanentError(f"{where}: HTTPS cannot be spoken here: install the system's CA certificates")
    status = re.search(r"status code: (\d+)", str(error))
    code = int(status[1]) if status else 0
    if code in (401, 403):
        return PermanentError(f"{where}: the store refuses the key, or the key may not do this: {_say(error)}")
    if code == 404:
        return MissingError(f"{where}: there is nothing there: {_say(error)}")
    if 400 <= code < 500 and code not in _WORTH_ANOTHER_TRY:
        return PermanentError(f"{where}: {_say(error)}")
    return StoreError(f"{where}: {_say(error)}")


def _say(error: Exception) -> str:
    """What the library says, in a line: it appends its own structures, and whole answers of the server."""
    text = str(error).split("\n\n", maxsplit=1)[0]
    if answered := re.search(r"status code: (.*)", text, flags=re.DOTALL):
        code = re.search(r"<Code>(\w+)</Code>", text)
        text = f"it answered {answered[1].partition('<')[0].rstrip(': ')}{f' ({code[1]})' if code else ''}"
    text = re.sub(r", after \d+ retries, max_retries: \d+, retry_timeout: \S+", "", text)
    return " ".join(text.split())[:300]
