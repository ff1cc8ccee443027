"""What is raised in one process can be caught in another."""

import copy
import pickle
from pathlib import Path

import pytest

from gangline import errors
from gangline.runtime import ContractError, CorruptCheckpointError, RendezvousError

ERRORS = (
    errors.ConflictError("taken"),
    errors.InvalidInputError("wrong", field="spec.code", expected="a directory", file="job.yaml", line=3),
    errors.InvalidTransitionError("mnist", "COMPLETED", "halt"),
    errors.NotFoundError("job", "mnist", hint="it was deleted"),
    errors.StaleVersionError("job", "mnist", expected=3, found=None),
    ContractError("GANGLINE_RANK", "first", "a whole number"),
    CorruptCheckpointError(Path("step-1"), "no manifest"),
    RendezvousError(("ps-0:2222",), 5.0),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_from_another_process_as_it_was(error: Exception) -> None:
    for back in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(back) is type(error)
        assert str(back) == str(error)
        assert vars(back) == vars(error)


def test_the_tree_at_the_top_of_the_module_shows_every_class() -> None:
    classes = {name for name, item in vars(errors).items() if isinstance(item, type) and issubclass(item, Exception)}
    assert classes - set((errors.__doc__ or "").split()) == set()
