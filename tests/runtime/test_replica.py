"""The environment contract, read into a value."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gangline.runtime import ContractError, current

IN_A_JOB = {
    "JOB_NAME": "mnist",
    "GANGLINE_JOB_ID": "j-1",
    "GANGLINE_ATTEMPT": "2",
    "GANGLINE_ROLE": "worker",
    "GANGLINE_INDEX": "3",
    "GANGLINE_RANK": "4",
    "GANGLINE_WORLD_SIZE": "7",
    "GANGLINE_INCARNATION": "1",
    "GANGLINE_CLUSTER": json.dumps({"ps": ["a:1"], "worker": ["b:1", "c:1"]}),
    "GANGLINE_ADDRESS": "c:1",
    "DATA_DIR": "/data",
    "RESULT_DIR": "/results",
    "CHECKPOINT_DIR": "/checkpoints",
    "GANGLINE_METRICS": "/metrics",
    "GANGLINE_GRACE_SECONDS": "2.5",
}


def test_every_variable_of_the_contract_is_read() -> None:
    replica = current(IN_A_JOB)

    assert (replica.job, replica.job_id, replica.attempt, replica.incarnation) == ("mnist", "j-1", 2, 1)
    assert (replica.name, replica.rank, replica.world_size) == ("worker-3", 4, 7)
    assert replica.peers("worker") == ("b:1", "c:1")
    assert replica.peers("evaluator") == ()
    assert replica.address == "c:1"
    assert replica.data_directory == Path("/data")
    assert replica.result_directory == Path("/results")
    assert replica.checkpoint_directory == Path("/checkpoints")
    assert replica.metrics_path == Path("/metrics")
    assert replica.grace_seconds == 2.5
    assert replica.in_job


@pytest.mark.parametrize("variable", IN_A_JOB)
def test_every_variable_of_the_contract_is_in_the_manual(variable: str) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "job-file.md").read_text()
    assert f"`{variable}`" in manual.partition("\n## Frameworks\n")[2]


def test_outside_a_job_a_program_is_a_chief_alone() -> None:
    replica = current({})

    assert (replica.role, replica.rank, replica.world_size, replica.attempt) == ("chief", 0, 1, 1)
    assert not replica.in_job
    assert replica.metrics_path is None


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        pytest.param("GANGLINE_RANK", "first", id="rank is a word"),
        pytest.param("GANGLINE_INDEX", "-1", id="index below zero"),
        pytest.param("GANGLINE_GRACE_SECONDS", "soon", id="grace is a word"),
        pytest.param("GANGLINE_CLUSTER", "{", id="cluster is not JSON"),
        pytest.param("GANGLINE_CLUSTER", '["a:1"]', id="cluster is a list"),
        pytest.param("GANGLINE_CLUSTER", '{"ps": "a:1"}', id="addresses are not a list"),
    ],
)
def test_a_broken_variable_is_named_with_its_value(variable: str, value: str) -> None:
    with pytest.raises(ContractError) as caught:
        current(IN_A_JOB | {variable: value})

    assert caught.value.variable == variable
    assert repr(value) in str(caught.value)


def test_importing_the_package_loads_no_array_library() -> None:
    program = "import sys, gangline.runtime; print('numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "False"
