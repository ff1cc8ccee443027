"""Clusters by the names a user's kubeconfig gives them, and their refusals in the platform's own words."""

import os
from collections.abc import Mapping

from gangline.errors import GanglineError, InvalidInputError, PermissionDeniedError, StorageError, UnreachableError
from gangline.kube import (
    AnswerError,
    ApiError,
    ClusterAccess,
    CredentialError,
    ForbiddenError,
    KubeClient,
    KubeconfigError,
    KubeError,
    NotFoundError,
    RetryPolicy,
    UnauthorizedError,
    in_cluster_access,
    load_access,
)
from gangline.kube import UnreachableError as KubeUnreachableError

_IMPATIENT = RetryPolicy(attempts=3, first_seconds=0.2, longest_seconds=1.0)
"""A person waits for the answer: an absent server is told after seconds, not after half a minute."""


def access_of(context: str, environment: Mapping[str, str] | None = None) -> ClusterAccess:
    """Return the way into the cluster of that context, or of the current one; raises InvalidInputError."""
    env = os.environ if environment is None else environment
    try:
        return load_access(context=context or None, environment=env)
    except (KubeconfigError, CredentialError) as error:
        raise InvalidInputError(
            str(error), field="--context", expected="a context of your kubeconfig (kubectl config get-contexts)"
        ) from error


def access_of_this_pod() -> ClusterAccess:
    """Return the way into the cluster that this pod runs in; raises GanglineError outside of one."""
    return in_cluster_access()


def namespace_of(context: str) -> str:
    """Return the namespace that a context works in: its user's tenant, unless they name another."""
    return access_of(context).namespace


def client_of(access: ClusterAccess) -> KubeClient:
    """Return a client for a person's own requests."""
    return KubeClient(access, retries=_IMPATIENT)


def refusal_of(error: GanglineError, *, context: str) -> GanglineError:
    """Say what a cluster's refusal means to whoever asked; anything else is returned as it is."""
    cluster = f"the cluster of context '{context}'" if context else "the cluster"
    cause = error.__cause__ if isinstance(error, StorageError) else error
    if not isinstance(cause, KubeError):
        return error
    if isinstance(cause, KubeUnreachableError):
        return UnreachableError(f"{cluster} does not answer at {cause.url}: {_problem(cause)}")
    if isinstance(cause, AnswerError):
        return GanglineError(f"{cluster} does not answer as a Kubernetes API server does: {cause}")
    if isinstance(cause, UnauthorizedError):
        return PermissionDeniedError(f"{cluster} does not accept your credentials")
    if isinstance(cause, CredentialError):
        return PermissionDeniedError(f"{cluster} was not asked: {cause}")
    if isinstance(cause, ForbiddenError):
        return PermissionDeniedError(f"{cluster} forbids it: {cause.message}")
    if isinstance(cause, NotFoundError) and is_not_installed(cause):
        return GanglineError(
            f"Gangline is not installed in {cluster}; its administrator can do that with: gangline install"
        )
    return GanglineError(str(error)) if isinstance(error, ApiError) else error


def _problem(error: KubeUnreachableError) -> str:
    """What the operating system says, where it said anything: libraries wrap it in their own objects."""
    found = getattr(error.__cause__, "os_error", None)
    return os.strerror(found.errno) if isinstance(found, OSError) and found.errno else error.problem


def is_not_installed(error: NotFoundError) -> bool:
    """Whether the server knows no such kind at all, as opposed to no such object."""
    return not error.reason or "could not find the requested resource" in error.message
