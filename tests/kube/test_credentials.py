"""Tokens, certificates and plugins, and when each is read again."""

import json
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gangline.kube import CredentialError, load_access
from gangline.kube.credentials import Credential, ExecPlugin, PluginCommand, TokenFile

from .test_kubeconfig import single

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
VERSION = "client.authentication.k8s.io/v1"


class Clock:
    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> datetime:
        return self.now


def plugin(folder: Path, status: dict[str, Any] | None, *, version: str = VERSION, code: str = "") -> Path:
    """Write a plug-in that counts its runs, records what it was told, and prints a credential."""
    script = folder / "plugin"
    document = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    script.write_text(
        f"""#!{sys.executable}
import os, sys
with open({str(folder / "runs")!r}, "a") as runs:
    runs.write(os.environ["KUBERNETES_EXEC_INFO"] + "\\n")
{code}
print({document!r}.replace("RUN", str(len(open({str(folder / "runs")!r}).readlines()))))
""",
        encoding="utf-8",
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


def runs(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "runs").read_text(encoding="utf-8").splitlines()]


async def test_token_file_is_read_again_after_a_while(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "token"
    file.write_text("one\n", encoding="utf-8")
    source = TokenFile(file, now=clock)
    assert (await source.current()).token == "one"
    file.write_text("two\n", encoding="utf-8")
    assert (await source.current()).token == "one"
    clock.now += timedelta(seconds=10)
    assert (await source.current()).token == "two"


async def test_token_file_is_read_again_when_refused(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "token"
    file.write_text("one", encoding="utf-8")
    source = TokenFile(file, now=clock)
    await source.current()
    file.write_text("two", encoding="utf-8")
    source.forget()
    assert (await source.current()).token == "two"


async def test_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialError, match=str(tmp_path / "token")):
        await TokenFile(tmp_path / "token").current()


async def test_plugin_is_asked_once_until_its_credential_expires(tmp_path: Path) -> None:
    clock = Clock()
    expiry = (BEGIN + timedelta(minutes=5)).isoformat()
    command = PluginCommand(command=str(plugin(tmp_path, {"token": "tokenRUN", "expirationTimestamp": expiry})))
    source = ExecPlugin(command, now=clock)
    assert [(await source.current()).token for _ in range(3)] == ["token1"] * 3
    clock.now += timedelta(minutes=4, seconds=45)
    assert (await source.current()).token == "token2"


async def test_plugin_is_asked_again_when_refused(tmp_path: Path) -> None:
    source = ExecPlugin(PluginCommand(command=str(plugin(tmp_path, {"token": "tokenRUN"}))))
    await source.current()
    source.forget()
    assert (await source.current()).token == "token2"


async def test_plugin_of_a_kubeconfig_learns_of_the_cluster(tmp_path: Path) -> None:
    plugin(tmp_path, {"token": "t", "clientCertificateData": "chain", "clientKeyData": "key"})
    entry = {
        "apiVersion": VERSION,
        "command": "./plugin",
        "args": ["login"],
        "env": [{"name": "REGION", "value": "north"}],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    access = load_access(path=single(tmp_path / "config", user={"exec": entry}))
    credential = await access.credentials.current()
    assert credential.token == "t"
    assert credential.certificate is not None
    assert credential.certificate.chain == b"chain"
    spec = runs(tmp_path)[0]["spec"]
    assert spec == {"interactive": False, "cluster": {"server": "https://c:6443"}}


@pytest.mark.parametrize(
    ("status", "version", "code", "message"),
    [
        pytest.param({}, VERSION, "", "neither token nor certificate", id="nothing given"),
        pytest.param(None, VERSION, "", "neither token nor certificate", id="no status"),
        pytest.param({"token": "t"}, "client.authentication.k8s.io/v1beta1", "", "speaks", id="other version"),
        pytest.param({"token": "t"}, VERSION, "sys.exit('log in first')", "log in first", id="fails"),
        pytest.param({"token": "t"}, VERSION, "print('hello')", "malformed", id="prints other things"),
    ],
)
async def test_plugin_that_gives_no_credential_says_why(
    tmp_path: Path, status: dict[str, Any] | None, version: str, code: str, message: str
) -> None:
    source = ExecPlugin(PluginCommand(command=str(plugin(tmp_path, status, version=version, code=code))))
    with pytest.raises(CredentialError, match=message):
        await source.current()


async def test_missing_plugin_shows_the_hint(tmp_path: Path) -> None:
    command = PluginCommand(command=str(tmp_path / "nothing"), install_hint="install it so")
    with pytest.raises(CredentialError, match="install it so"):
        await ExecPlugin(command).current()


def test_plugin_that_needs_a_person_says_so() -> None:
    command = PluginCommand(command="login", interactive_mode="Always")
    assert command.interactive(terminal=True)
    with pytest.raises(CredentialError, match="terminal"):
        command.interactive(terminal=False)


def test_secrets_are_not_printed() -> None:
    assert "secret" not in repr(Credential(token="secret"))
