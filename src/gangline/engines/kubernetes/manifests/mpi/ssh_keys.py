"""Makes a key pair with OpenSSH's own program: one per MPI job, by which its launcher logs in to its workers."""

import subprocess
import tempfile
from pathlib import Path

from gangline.engines.kubernetes.refusals import Refusal, RefusedError

_PROGRAM = "ssh-keygen"


def new_key_pair(comment: str = "gangline") -> tuple[str, str]:
    """Return a new private key and its public key, as the text of ``id_ed25519`` and of ``id_ed25519.pub``.

    Raises RefusedError on a machine without OpenSSH's client.
    """
    with tempfile.TemporaryDirectory(prefix="gangline-") as folder:
        file = Path(folder, "key")
        command = [_PROGRAM, "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(file)]
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        except FileNotFoundError as error:
            message = f"the controller has no {_PROGRAM}, which makes the keys of MPIJobs; install OpenSSH there"
            raise RefusedError(Refusal(reason="KeysMissing", message=message, permanent=True)) from error
        return file.read_text(encoding="ascii"), file.with_suffix(".pub").read_text(encoding="ascii")
