"""Keys of object stores as they are given: in a file, in the environment or at a prompt, never as an argument."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from gangline.cli import terminal
from gangline.data.credentials import StoreCredentials
from gangline.errors import InvalidInputError

VARIABLES: Mapping[str, Mapping[str, str]] = {
    "s3": {"key": "AWS_ACCESS_KEY_ID", "secret": "AWS_SECRET_ACCESS_KEY", "token": "AWS_SESSION_TOKEN"},
    "az": {"key": "AZURE_STORAGE_ACCOUNT", "secret": "AZURE_STORAGE_KEY", "token": "AZURE_STORAGE_SAS_TOKEN"},
    "gs": {"secret": "GOOGLE_SERVICE_ACCOUNT_KEY", "token": "GOOGLE_ACCESS_TOKEN"},
}
"""The variables that each provider's own tools read."""
_FILE_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_EXPECTED = "lines NAME=VALUE or a JSON mapping with key, secret and token, or a Google service account's file"


def read_keys(scheme: str, file: str | None) -> StoreCredentials:
    """Return the keys from a file, or else from the environment, or else from whoever sits at the terminal."""
    if file is not None:
        return _from_file(scheme, file)
    given = {field: os.environ.get(name, "") for field, name in VARIABLES[scheme].items()}
    if any(given.values()):
        names = ", ".join(VARIABLES[scheme][field] for field, value in given.items() if value)
        terminal.say(f"taking the keys from the environment: {names}")
        return StoreCredentials(**given)
    if scheme == "gs" and os.environ.get(_FILE_VARIABLE):
        return _from_file(scheme, os.environ[_FILE_VARIABLE])
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"no keys were given: set {' and '.join(VARIABLES[scheme].values())}, name a file (--keys-file), "
            "or say that there are none (--no-keys)"
        )
    if scheme == "gs":
        return _from_file(scheme, click.prompt("File of the service account", err=True))
    key = click.prompt("Access key" if scheme == "s3" else "Account", err=True)
    return StoreCredentials(key=key, secret=click.prompt("Secret", hide_input=True, err=True))


def _from_file(scheme: str, file: str) -> StoreCredentials:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise InvalidInputError(f"the file of keys cannot be read: {reason}", file=file) from None
    plain = _mapping(text)
    if plain.get("type") == "service_account":
        return StoreCredentials(secret=text)
    names = {name.lower(): field for field, name in VARIABLES[scheme].items()}
    found = {names.get(name.lower(), name.lower()): value for name, value in plain.items()}
    known = {field: str(found[field]) for field in ("key", "secret", "token") if found.get(field)}
    if not known:
        # Nothing of the file is shown: what is not understood may be a key.
        raise InvalidInputError("the file holds no keys", file=file, expected=_EXPECTED)
    return StoreCredentials(**known)


def _mapping(text: str) -> Mapping[str, object]:
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}
    pairs = (line.strip().removeprefix("export ").partition("=") for line in text.splitlines())
    return {name.strip(): value.strip().strip("\"'") for name, equals, value in pairs if equals}
