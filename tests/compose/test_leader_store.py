"""The leader's store: jobs of single pods are in memory, and all others where they always are."""

import pytest

from gangline.compose.leader_store import LeaderStore
from gangline.errors import NotFoundError, StaleVersionError
from gangline.model import Job, Phase
from gangline.testing.builders import make_job, make_running_job

POD = make_job(job_id="pod:1")


@pytest.fixture
def store() -> LeaderStore:
    store = LeaderStore(None)
    store.keep_pod(POD)
    return store


async def test_the_job_of_a_pod_is_saved_and_told_of(store: LeaderStore) -> None:
    told: list[Job] = []
    store.follow_pods(told.append)
    saved = await store.save(make_running_job(job_id="pod:1"))
    assert (saved.version, saved.phase) == (POD.version + 1, Phase.PROCESSING)
    assert told == [saved] == [await store.get(POD.id)]
    assert store.phases() == {Phase.PROCESSING: 1}


async def test_a_stale_version_is_refused(store: LeaderStore) -> None:
    await store.save(POD)
    with pytest.raises(StaleVersionError):
        await store.save(POD)


async def test_a_job_that_was_dropped_is_unknown_and_the_cluster_is_not_asked(store: LeaderStore) -> None:
    await store.remove(POD.id)
    with pytest.raises(NotFoundError):
        await store.get(POD.id)
    with pytest.raises(NotFoundError):
        await store.save(POD)
    await store.remove(POD.id)
