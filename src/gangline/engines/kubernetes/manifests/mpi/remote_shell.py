"""The remote shell of an MPI job: how ``mpirun`` in the launcher starts its processes in the workers.

``gangline.runtime.remote_shell`` travels with the job in a Secret, beside a token that only the job's replicas get.
Every worker runs it around its own command; the launcher finds it in ``mpirun``'s own variables. A job whose workers
run sshd has another way and gets none of this.
"""

from importlib import resources

from gangline.engines.kubernetes.manifests.job_secret import new_secret, secret_staging
from gangline.engines.kubernetes.manifests.pod import HOME, Plain, Staging
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
    return new_secret(metadata, {"remote_shell.py": program, "remote-shell": agent.encode()})


def shell_staging(shared: str) -> Staging:
    """Write what every replica of the job mounts: executable, for mpirun calls it as a program."""
    return secret_staging(shell_name(shared), volume=_VOLUME, folder=FOLDER, mode=0o555)


def wrapper(spec: JobSpec, role: RoleName) -> tuple[str, ...]:
    """The words before a replica's command that make it answer; the launcher answers nobody."""
    return (PROGRAM, "serve") if has_shell(spec) and role != _LAUNCHER else ()
