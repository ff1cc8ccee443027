"""The remote shell of an MPI job: how ``mpirun`` in the launcher starts its processes in the workers.

``gangline.runtime.remote_shell`` travels with the job in a Secret, beside a token that only the job's replicas get.
Every worker runs it around its own command; the launcher finds it in ``mpirun``'s own variables. A job whose workers
run sshd has another way and gets none of this. Pure, but for the token, which is drawn.
"""

import base64
import secrets
from importlib import resources

from gangline.engines.kubernetes.pod import HOME, Plain, Staging
from gangline.model import Framework, JobSpec, RoleName

FOLDER = f"{HOME}/shell"
PROGRAM = f"{FOLDER}/remote-shell"
"""What ``mpirun`` calls in place of ssh; with ``serve`` before their command, workers answer it."""
_VOLUME = "gangline-shell"
_LAUNCHER = RoleName("launcher")


def has_shell(spec: JobSpec) -> bool:
    """Whether a job's launcher reaches its workers by the remote shell of this module."""
    return spec.framework is Framework.MPI and not any(
        role.command and role.command[0].rpartition("/")[2] == "sshd" for role in spec.roles
    )


def shell_name(shared: str) -> str:
    """Name the Secret of a job; ``shared`` is the name of what its replicas share."""
    return f"{shared}-shell"


def shell_secret(metadata: Plain) -> Plain:
    """Write the Secret with the program and a new token. Creating it a second time must change nothing."""
    program = resources.files("gangline.runtime").joinpath("remote_shell.py").read_bytes()
    # A script of two lines, since not every image knows where its Python is.
    agent = f'#!/bin/sh\nexec python3 {FOLDER}/remote_shell.py "$@"\n'
    content = {
        "remote_shell.py": program,
        "remote-shell": agent.encode(),
        "token": secrets.token_hex(32).encode(),
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "immutable": True,
        "data": {name: base64.b64encode(value).decode() for name, value in content.items()},
    }


def shell_staging(shared: str) -> Staging:
    """Write what every replica of the job mounts."""
    # Executable, for mpirun calls it as a program; whoever is in the pod may read it, and nobody else is.
    secret = {"secretName": shell_name(shared), "defaultMode": 0o555}
    return Staging(
        volumes=({"name": _VOLUME, "secret": secret},),
        mounts=({"name": _VOLUME, "mountPath": FOLDER, "readOnly": True},),
    )


def wrapper(spec: JobSpec, role: RoleName) -> tuple[str, ...]:
    """The words before a replica's command that make it answer; the launcher answers nobody."""
    return (PROGRAM, "serve") if has_shell(spec) and role != _LAUNCHER else ()
