"""Numbers that replicas report are with the store before anybody hears that their job is over."""

import pytest

from gangline.model import Phase, Policy, Success
from tests.integration.kubernetes.world import World, shell

COUNT = 50
REPORT = f"""
i=0
while [ $i -lt {COUNT} ]; do
  echo "{{\\"at\\":1.0,\\"name\\":\\"loss\\",\\"value\\":0.5,\\"step\\":$i}}"
  i=$((i + 1))
done
"""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(REPORT, id="by a program that ends at once"),
        pytest.param(f"sleep 4 {REPORT}", id="by a program that is being listened to"),
    ],
)
async def test_a_completed_job_has_all_metrics_of_its_lead(world: World, script: str) -> None:
    job_id = await world.submit(shell(script))
    await world.phase(job_id, Phase.COMPLETED)
    assert [metric.step for metric in await world.store.metrics(job_id)] == list(range(COUNT))


async def test_a_completed_job_has_the_metrics_of_replicas_that_nobody_listened_to(world: World) -> None:
    policy = Policy(grace_seconds=2.0, success=Success.ALL)
    job_id = await world.submit(shell("true", "chief"), shell(REPORT, replicas=3), policy=policy)
    await world.phase(job_id, Phase.COMPLETED)
    assert len(await world.store.metrics(job_id)) == 3 * COUNT


async def test_a_failed_job_has_the_metrics_from_before_its_failure(world: World) -> None:
    job_id = await world.submit(shell(f"{REPORT} exit 3"), policy=Policy(grace_seconds=2.0, max_attempts=1))
    await world.phase(job_id, Phase.FAILED)
    assert len(await world.store.metrics(job_id)) == COUNT
