"""What the steps of a pipeline ask for that no machine has: said when a run is made, because it may never start."""

from collections.abc import Iterator, Sequence

from gangline.model.explanation import amount_text
from gangline.model.resources import Resources
from gangline.pipelines.graph import Container, Dag, Graph, JobTemplate


def beyond(graph: Graph, machines: Sequence[Resources]) -> Iterator[str]:
    """Return a sentence for each task that asks for more than any machine has, as far as inputs do not decide it."""
    said: set[str] = set()
    for component in (graph.root, *graph.components.values()):
        for task in component.body.tasks.values() if isinstance(component.body, Dag) else ():
            for asked in _asked(graph.components[task.component].body):
                lacking = [name for name, amount in asked.items() if not _has(machines, name, amount)]
                sentence = f"{task.name} asks for {', '.join(amount_text(name, asked[name]) for name in lacking)}"
                if lacking and sentence not in said:
                    said.add(sentence)
                    yield sentence


def _asked(body: object) -> Iterator[dict[str, int]]:
    """Return the amounts of each role."""
    if isinstance(body, Container) and body.resources is not None:
        given = body.resources
        yield (given(_fixed) if callable(given) else given).amounts()
    if isinstance(body, JobTemplate):
        yield from (role.resources.amounts() for role in body.job.roles)


def _fixed(text: str) -> str:
    return "" if "{{$" in text else text


def _has(machines: Sequence[Resources], name: str, amount: int) -> bool:
    return not amount or any(each.amounts().get(name, 0) >= amount for each in machines)
