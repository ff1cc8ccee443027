"""The engine contract, kept by the Kubernetes engine on a real cluster."""

from gangline.lifecycle.events import ReplicaExited
from gangline.testing.engine_suite import EngineSubject, EngineSuite, Program


class TestKubernetesEngine(EngineSuite):
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
