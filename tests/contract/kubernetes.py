"""The contracts of stores and engines as custom resources and pods keep them, on whatever serves the API."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from gangline.engines.kubernetes import install
from gangline.kinds.queue import QUEUE
from gangline.kube import NAMESPACES, KubeClient
from gangline.lifecycle.events import ReplicaExited
from gangline.storage.interface import JobQuery, Store
from gangline.storage.kubernetes import DEFINITIONS, KubernetesStore
from gangline.testing.engine_suite import EngineSubject, EngineSuite, Program
from gangline.testing.store_suite import StoreSuite, make_rich_job

TENANTS = ("default", "red", "blue", "other")


@asynccontextmanager
async def store_over(client: KubeClient) -> AsyncIterator[KubernetesStore]:
    """A store whose tenants are namespaces of one test alone."""
    await install(client, DEFINITIONS, print)
    prefix = f"t{uuid.uuid4().hex[:8]}-"
    for tenant in TENANTS:
        await client.create(NAMESPACES, {"metadata": {"name": prefix + tenant}})
    store = KubernetesStore(client, prefix=prefix, believes_dates=True)
    yield store
    for queue in (await store.records(QUEUE).list()).items:
        await store.records(QUEUE).remove(queue)
    await store.close()
    await asyncio.gather(*(store.remove(job.id) for job in (await store.list(JobQuery(limit=10_000))).jobs))
    for tenant in TENANTS:
        await client.delete(NAMESPACES, prefix + tenant)


class KubernetesStoreSuite(StoreSuite):
    many = 503  # the client reads pages of 500, and every job is an object to make and to delete

    async def test_created_job_is_returned_as_it_was(self, store: Store) -> None:
        """All but text that no job file can hold: the spec is kept as one, so that people can read and write it."""
        rich = make_rich_job()
        chief, worker = rich.spec.roles
        roles = (replace(chief, env={"GREETING": "h\u00e9llo \N{DOG}"}), replace(worker, pod_template_json='{"a":1}'))
        job = replace(rich, spec=replace(rich.spec, roles=roles))
        created = await store.create(job)
        kept = await store.get(job.id)
        assert kept == created == job
        assert kept.version == created.version > 0


class KubernetesEngineSuite(EngineSuite):
    async def test_output_is_read_with_its_stream_while_and_after_it_runs(self, subject: EngineSubject) -> None:
        """Kubernetes joins the two streams; every line counts as standard output. The rest of the contract holds."""
        gang = await subject.gang(subject.role("worker", Program.SPEAK))
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaExited)
        running = await subject.lines()
        await self._stop(subject, gang)
        assert running == await subject.lines()
        assert sorted((line.text, line.stream.value) for line in running) == [
            ("one", "stdout"),
            ("three", "stdout"),
            ("two", "stdout"),
        ]
        assert all(line.attempt == 1 and str(line.replica) == "worker-0" for line in running)
