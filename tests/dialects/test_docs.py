"""The manual mentions every field, and its examples are true."""

import re
from pathlib import Path

import pytest

from gangline.dialects.arena import OPTIONS
from gangline.dialects.kubeflow import KINDS
from gangline.dialects.kubeflow.elastic import PYTORCH_FIELDS
from gangline.dialects.kubeflow.kinds import MPI_V2_FIELDS
from gangline.dialects.kubeflow.old_tfjob import REPLICA_FIELDS, SPEC_FIELDS
from gangline.dialects.kubeflow.run_policy import RUN_POLICY_FIELDS, SCHEDULING_FIELDS
from gangline.dialects.native import PRIORITIES, SIZES, ShortForm, job_from_short_form, read_job
from gangline.dialects.native.fields import ALL
from gangline.model import Framework, Match, Prefer, Processes, Restart, Retry, Success

DOCS = Path(__file__).parents[2] / "docs"
JOB_FILE = (DOCS / "job-file.md").read_text()
KUBEFLOW = (DOCS / "kubeflow.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", JOB_FILE, re.DOTALL)


@pytest.mark.parametrize(("place", "name"), [(place, name) for place, names in ALL.items() for name in names])
def test_every_field_of_the_job_file_is_in_the_manual(place: str, name: str) -> None:
    assert f"`{name}`" in JOB_FILE


@pytest.mark.parametrize("choices", [Framework, Match, Prefer, Processes, Restart, Retry, Success, PRIORITIES, SIZES])
def test_every_choice_is_in_the_manual(choices: type[str] | dict[str, object]) -> None:
    for choice in choices:
        assert f"`{choice}`" in JOB_FILE


def test_every_example_is_a_job() -> None:
    names = ["mnist", "hello", "tracked", "curves", "watched", "careful", "split", "nested", "stages", "trimmed", "x"]
    assert [read_job(text).name for text in EXAMPLES] == names


def test_the_short_form_means_what_the_manual_says() -> None:
    form = ShortForm(
        command=("python", "train.py"), suffix="", workers=5, gpus="1", cpu="2", memory="4Gi", ps=1, name="x"
    )
    assert job_from_short_form(form) == read_job(EXAMPLES[-1])


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            *KINDS,
            *(name for kind in KINDS.values() for name in (*kind.spec_fields, *kind.roles)),
            *MPI_V2_FIELDS,
            *RUN_POLICY_FIELDS,
            *SCHEDULING_FIELDS,
            *PYTORCH_FIELDS,
            *SPEC_FIELDS,
            *REPLICA_FIELDS,
        }
        # The first says less than the second; the others are an id of the first operator and the deprecated name.
        - {"runPolicy", "runtimeId", "RuntimeId", "nProcPerNode"}
    ),
)
def test_every_field_of_a_kubeflow_job_is_in_the_manual(name: str) -> None:
    assert re.search(rf"\b{name}\b", KUBEFLOW)


@pytest.mark.parametrize("name", [option.name for option in OPTIONS])
def test_every_flag_is_in_the_manual(name: str) -> None:
    assert f"`--{name}`" in KUBEFLOW
