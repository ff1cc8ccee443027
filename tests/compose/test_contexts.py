"""Clusters by name, and what their refusals mean to a person."""

from pathlib import Path

import pytest

from gangline.compose.contexts import access_of, refusal_of
from gangline.errors import (
    ConflictError,
    GanglineError,
    InvalidInputError,
    PermissionDeniedError,
    StorageError,
    UnreachableError,
)
from gangline.kube import ApiError, ForbiddenError, KubeError, NotFoundError, UnauthorizedError
from gangline.kube import UnreachableError as KubeUnreachableError

FORBIDDEN = ForbiddenError('jobs is forbidden: User "ada" cannot list', status=403, reason="Forbidden")
NO_KIND = NotFoundError("404 page not found", status=404)
NO_OBJECT = NotFoundError('jobs "x" not found', status=404, reason="NotFound")


@pytest.mark.parametrize(
    ("error", "want_class", "want_text"),
    [
        pytest.param(
            FORBIDDEN, PermissionDeniedError, "of context 'prod' forbids it: jobs is forbidden", id="forbidden"
        ),
        pytest.param(UnauthorizedError("no", status=401), PermissionDeniedError, "your credentials", id="unauthorized"),
        pytest.param(
            KubeUnreachableError("https://x", "refused"), UnreachableError, "at https://x: refused", id="absent"
        ),
        pytest.param(NO_KIND, GanglineError, "is not installed in the cluster of context 'prod'", id="not installed"),
        pytest.param(NO_OBJECT, GanglineError, 'jobs "x" not found', id="no such object"),
        pytest.param(ApiError("teapot", status=418), GanglineError, "teapot", id="anything else"),
    ],
)
def test_a_refusal_is_told_in_the_platforms_words(
    error: KubeError, want_class: type[Exception], want_text: str
) -> None:
    assert_told(refusal_of(error, context="prod"), want_class, want_text)
    kept = StorageError("the jobs cannot be listed")
    kept.__cause__ = error
    if want_class is not GanglineError or error is NO_KIND:
        assert_told(refusal_of(kept, context="prod"), want_class, want_text)


def assert_told(told: GanglineError, want_class: type[Exception], want_text: str) -> None:
    assert type(told) is want_class
    assert want_text in str(told)


def test_what_is_no_refusal_of_the_cluster_stays_as_it_is() -> None:
    error = ConflictError("the name is taken")
    error.__cause__ = FORBIDDEN
    assert refusal_of(error, context="prod") is error


def test_an_unknown_context_is_refused_with_those_there_are(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text("contexts: [{name: here, context: {cluster: c}}]\nclusters: [{name: c, cluster: {}}]\n")
    with pytest.raises(InvalidInputError, match=r"--context: .* no context 'there' \(it has: here\)"):
        access_of("there", {"KUBECONFIG": str(kubeconfig)})
