"""What steps ask for that no machine has."""

from gangline.dialects.document import plain
from gangline.dialects.pipeline import read_graph
from gangline.model import Resources
from gangline.pipelines.needs import beyond

MACHINES = (Resources(cpu_millis=4000, memory_mib=8192), Resources(cpu_millis=1000, memory_mib=65536))


def test_only_what_no_machine_has_is_said_once_for_each_task() -> None:
    def step(**resources: object) -> dict[str, object]:
        return {"job": {"command": ["true"], "resources": resources}}

    steps = {
        "small": step(cpu=1),
        "large": step(cpu=4, memory="60Gi"),
        "group": {"steps": {"fast": step(cpu=1, gpu=2), "huge": step(cpu=5, **{"example.com/chip": 1})}},
    }
    graph = read_graph([plain({"name": "p", "steps": steps})])
    assert list(beyond(graph, MACHINES)) == ["fast asks for 2 GPU", "huge asks for 5 CPU, 1 example.com/chip"]
    gpus = Resources(cpu_millis=8000, memory_mib=1024, gpu_millis=2000, extended={"example.com/chip": 1})
    assert not list(beyond(graph, (*MACHINES, gpus)))
