"""What a job names is found in a cluster, or refused with the reason."""

from dataclasses import replace
from typing import Any

import pytest

from gangline.data.addresses import parse
from gangline.data.unpacking import PermanentError
from gangline.engines.kubernetes.launching.gang_data import DataFinder, kept_at
from gangline.engines.kubernetes.manifests.pod import replica_environment
from gangline.engines.kubernetes.refusals import RefusedError
from gangline.kube import ClusterAccess, KubeClient
from gangline.model import DataMove, Job, Phase
from gangline.model.jobs.gang import ResumePoint
from gangline.model.jobs.spec import CheckpointRule
from gangline.testing.builders import make_job, make_running_job, make_spec

VOLUME = {"gangline.dev/volume": "disk"}
ALL = DataMove("$RESULT_DIR", "s3://out/$JOB_NAME", store="lake")
SOME = DataMove("$RESULT_DIR", "s3://out/a", include=("*.txt",))
BELOW = DataMove("$RESULT_DIR/model", "s3://out/m")


def ended(phase: Phase = Phase.COMPLETED, **fields: Any) -> Job:
    job = make_job(name="first", **fields)
    return replace(job, history=(replace(job.history[-1], phase=phase),))


@pytest.mark.parametrize(
    ("job", "address", "want"),
    [
        (ended(labels=VOLUME), "job://first/results/a", ("pvc://disk/first/results/a", None)),
        (ended(outputs=(ALL,)), "job://first/results", ("s3://out/first", "lake")),
        (ended(outputs=(ALL,)), "job://first/results/a/b", ("s3://out/first/a/b", "lake")),
        (ended(outputs=(SOME, BELOW)), "job://first/results/model/x", ("s3://out/m/x", None)),
        (ended(Phase.PROCESSING, labels=VOLUME), "job://first/checkpoints", ("pvc://disk/first/checkpoints", None)),
    ],
    ids=["a volume", "an output", "a part of an output", "another output", "checkpoints of one that runs"],
)
def test_files_of_a_job_are_where_it_kept_them(job: Job, address: str, want: tuple[str, str | None]) -> None:
    assert kept_at(job, parse(address)) == want


@pytest.mark.parametrize(
    ("job", "want"),
    [
        (ended(), r"job 'first' kept no results: it had no volume, and no output with all of \$RESULT_DIR"),
        (ended(outputs=(SOME, BELOW)), "kept no results"),
        (ended(Phase.FAILED, outputs=(ALL,)), "job 'first' is FAILED; only a COMPLETED one has results"),
    ],
    ids=["nowhere", "in part", "not at all"],
)
def test_results_that_a_job_did_not_keep_are_told(job: Job, want: str) -> None:
    with pytest.raises(PermanentError, match=want):
        kept_at(job, parse("job://first/results"))


async def test_a_store_is_not_named_for_checkpoints_that_need_none() -> None:
    spec = replace(make_spec(), checkpoints=CheckpointRule(to="pvc://disk/runs", store="lake"))
    async with KubeClient(ClusterAccess(server="http://127.0.0.1:1")) as client:
        with pytest.raises(RefusedError, match="store 'lake' is named for pvc://disk/runs") as refused:
            await DataFinder(client, records=None, cache=None).find(spec)
    assert refused.value.refusal.permanent


def test_replicas_are_told_which_checkpoint_was_chosen() -> None:
    gang = make_running_job().gang()
    assert "GANGLINE_RESUME_FROM" not in replica_environment(gang, gang.replicas[0])
    resumed = replace(gang, resume_from=ResumePoint(step=40, attempt=2))
    assert replica_environment(resumed, resumed.replicas[0])["GANGLINE_RESUME_FROM"] == "40.2"
