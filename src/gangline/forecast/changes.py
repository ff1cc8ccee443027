"""Changes that ``gangline what-if`` makes in thought: to queues, to jobs that wait or would be submitted, to nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gangline.dialects.native import PRIORITIES
from gangline.errors import InvalidInputError, NotFoundError
from gangline.kinds.queue import QUEUE
from gangline.model import Job, JobSpec, Node, NodeName, Queue, RoleName, RoleSpec

QUOTA_FORM = "QUEUE=FIELD:VALUE, for example research=guarantee:gpu=8 or research=weight:3"


def changed_queues(queues: Sequence[Queue], texts: Sequence[str]) -> list[Queue]:
    """Queues with other numbers; a field is one of the options of ``gangline queue edit``, and means the same."""
    options = {option.name.removeprefix("--"): option for option in QUEUE.format.options}
    known = {str(queue.name): queue for queue in queues}
    changed: dict[str, Queue] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        field, colon, value = rest.partition(":")
        if not colon:
            raise InvalidInputError(f"'{text}' changes no queue", field="--quota", expected=QUOTA_FORM)
        if name not in known:
            raise NotFoundError("queue", name, hint=f"there are {', '.join(sorted(known))}")
        if field not in options:
            raise InvalidInputError(f"a queue has no '{field}'", field="--quota", expected=", ".join(sorted(options)))
        option = options[field]
        values: dict[str, Any] = {option.attribute: option.default if value == "none" else option.read(value)}
        changed[name] = replace(changed.get(name, known[name]), **values)
    return list(changed.values())


def removed_nodes(nodes: Sequence[Node], texts: Sequence[str]) -> frozenset[NodeName]:
    """Nodes by name; several may stand in one word, with commas between them."""
    names = [name for text in texts for name in text.split(",") if name]
    known = {node.name for node in nodes}
    for name in names:
        if name not in known:
            raise NotFoundError("node", name, hint="'gangline top node' lists them")
    return frozenset(map(NodeName, names))


def size_ranges(texts: Sequence[str]) -> tuple[list[tuple[str, range]], tuple[str, ...]]:
    """Take out ``JOB=FIRST..LAST``, sizes that are only asked about; the rest stays as it is."""
    ranges: list[tuple[str, range]] = []
    rest: list[str] = []
    for text in texts:
        name, _, counts = text.partition("=")
        first, dots, last = counts.partition("..")
        if not dots:
            rest.append(text)
            continue
        if not (first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last) <= MOST_SIZES):
            raise InvalidInputError(
                f"'{text}' is not a range of sizes", field="--replicas", expected=f"JOB=1..16, at most {MOST_SIZES}"
            )
        ranges.append((name, range(int(first), int(last) + 1)))
    return ranges, tuple(rest)


MOST_SIZES = 1024
"""The largest size that is asked about."""


class ChangedJobs:
    """Jobs with another priority or other numbers of replicas: those of the files, and those that wait already."""

    def __init__(self, specs: Sequence[JobSpec], jobs: Sequence[Job]) -> None:
        self.specs = {spec.name: spec for spec in specs}
        self.jobs: dict[str, Job] = {}
        self._known = {job.name: job for job in jobs}

    def prioritise(self, texts: Sequence[str]) -> None:
        """``JOB=PRIORITY``, a number or a name."""
        for name, text in _pairs(texts, "--priority", "JOB=PRIORITY, for example train=high"):
            if text not in PRIORITIES and not text.isdigit():
                expected = f"{', '.join(PRIORITIES)} or a number"
                raise InvalidInputError(f"'{text}' is not a priority", field="--priority", expected=expected)
            self._change(name, "--priority", {"priority": PRIORITIES[text] if text in PRIORITIES else int(text)})

    def resize(self, texts: Sequence[str]) -> None:
        """``JOB=COUNT`` of its only role, or ``JOB=ROLE:COUNT``; only of a job that does not run."""
        for name, text in _pairs(texts, "--replicas", "JOB=COUNT or JOB=ROLE:COUNT, for example train=worker:4"):
            spec = self._spec(name, "--replicas")
            job = self._known.get(name)
            if name not in self.specs and job is not None and not job.placeable:
                raise InvalidInputError(
                    f"'{name}' does not wait",
                    field="--replicas",
                    expected="a job that waits; 'gangline scale' changes it",
                )
            wanted, _, count = text.rpartition(":")
            names = [role.name for role in spec.roles]
            chosen = RoleName(wanted) if wanted else names[0]
            if chosen not in names or (not wanted and len(names) > 1) or not count.isdigit():
                expected = f"{name}=ROLE:COUNT with a role of {', '.join(names)}"
                raise InvalidInputError(f"'{text}' is not a size", field="--replicas", expected=expected)
            roles = tuple(_resized(role, int(count)) if role.name == chosen else role for role in spec.roles)
            self._change(name, "--replicas", {"roles": roles})

    def _spec(self, name: str, option: str) -> JobSpec:
        job = self.jobs.get(name, self._known.get(name))
        found = self.specs.get(name) or (None if job is None else job.spec)
        if found is None:
            raise NotFoundError("job", name, hint=f"{option} changes a job of --file, or one that is not finished")
        return found

    def _change(self, name: str, option: str, values: Mapping[str, Any]) -> None:
        spec = replace(self._spec(name, option), **values)
        if name in self.specs:
            self.specs[name] = spec
        else:
            self.jobs[name] = replace(self.jobs.get(name, self._known[name]), spec=spec)


def _resized(role: RoleSpec, count: int) -> RoleSpec:
    """The role with another number of replicas, its minimum and maximum no further away than that."""
    minimum = None if role.minimum is None else min(role.minimum, count)
    maximum = None if role.maximum is None else max(role.maximum, count)
    return replace(role, replicas=count, minimum=minimum, maximum=maximum)


def _pairs(texts: Sequence[str], option: str, form: str) -> list[tuple[str, str]]:
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidInputError(f"'{text}' is not a pair", field=option, expected=form)
        found.append((name, value))
    return found
