"""Key pairs that OpenSSH accepts."""

import subprocess
from pathlib import Path

import pytest

from gangline.engines.kubernetes.manifests.mpi import ssh_keys
from gangline.engines.kubernetes.manifests.mpi.ssh_keys import new_key_pair
from gangline.engines.kubernetes.refusals import RefusedError


def test_the_private_key_is_the_one_of_the_public_key(tmp_path: Path) -> None:
    private, public = new_key_pair("job")
    file = tmp_path / "key"
    file.write_text(private, encoding="ascii")
    file.chmod(0o600)
    derived = subprocess.run(["ssh-keygen", "-y", "-f", str(file)], capture_output=True, text=True, check=True)
    assert derived.stdout.split() == public.split() == ["ssh-ed25519", public.split()[1], "job"]
    assert new_key_pair() != new_key_pair()


def test_a_controller_without_openssh_refuses_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_keys, "_PROGRAM", "no-such-ssh-keygen")
    with pytest.raises(RefusedError, match="install OpenSSH there"):
        new_key_pair()
