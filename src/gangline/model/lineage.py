"""Where things came from: jobs, versions of models and data, each with what it was made of. Pure."""

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gangline.errors import NotFoundError
from gangline.model.jobs.job import Job
from gangline.model.jobs.spec import JobSpec
from gangline.model.jobs.transfer import DataVersion
from gangline.model.kinds.registered_model import Model, ModelVersion, find_version, model_reference


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageNode:
    """A job, a version of a model, or what lay at an address; ``origins`` are the ids of what it was made of."""

    id: str
    kind: str
    name: str
    facts: Mapping[str, str] = field(default_factory=dict)
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lineage:
    """All that something came from, itself first."""

    nodes: tuple[LineageNode, ...]


def lineage_of_job(job: Job, jobs: Collection[Job], models: Iterable[Model]) -> Lineage:
    """Trace a job back through all that is on record."""
    walk = _Walk(jobs, models)
    walk.job(job)
    return walk.result()


def lineage_of_address(address: str, jobs: Collection[Job], models: Iterable[Model]) -> Lineage:
    """Trace data or a model back through all that is on record; raises NotFoundError for what is on none."""
    walk = _Walk(jobs, models)
    root = walk.address(DataVersion(address))
    if not walk.nodes[root].origins and walk.nodes[root].kind == "data":
        raise NotFoundError("data", address, hint="no job on record has stored anything there")
    return walk.result()


class _Walk:
    def __init__(self, jobs: Collection[Job], models: Iterable[Model]) -> None:
        self._jobs = sorted(jobs, key=lambda job: job.created_at, reverse=True)
        self._models = {model.name: model for model in models}
        self.nodes: dict[str, LineageNode] = {}

    def result(self) -> Lineage:
        return Lineage(tuple(self.nodes.values()))

    def job(self, job: Job) -> str:
        facts = {"phase": str(job.phase), **_code_facts(job.spec, job.image)}
        node = LineageNode(id=f"job/{job.id}", kind="job", name=job.name, facts=facts)
        return self._add(node, job.inputs or tuple(DataVersion(move.source) for move in job.spec.inputs))

    def address(self, data: DataVersion) -> str:
        if (version := self._version_at(data)) is not None:
            return self._version(*version)
        if data.address.startswith("job://"):
            name = data.address.removeprefix("job://").partition("/")[0]
            if (found := next((job for job in self._jobs if name in (job.name, job.id)), None)) is not None:
                return self.job(found)
        node = LineageNode(
            id=f"data/{data.address}@{data.digest}", kind="data", name=data.address, facts={"digest": data.digest}
        )
        if node.id not in self.nodes:
            self._add(node)
            origins = tuple(self.job(job) for job in self._writers(data))
            self.nodes[node.id] = replace(self.nodes[node.id], origins=origins)
        return node.id

    def _version_at(self, data: DataVersion) -> tuple[Model, ModelVersion] | None:
        reference = model_reference(data.address)
        model = self._models.get(reference.name) if reference is not None else None
        if reference is None or model is None:
            return None
        same = [each for each in model.status.versions if f"sha256:{each.digest}" == data.digest]
        with contextlib.suppress(NotFoundError):  # deleted since
            return model, same[-1] if same else find_version(model, reference.number, reference.alias)
        return None

    def _writers(self, data: DataVersion) -> list[Job]:
        """Who stored just this; if nobody did, or that is not known, who stored there last."""
        there = [job for job in self._jobs if any(_overlap(out.address, data.address) for out in job.outputs)]
        same = [job for job in there if any(out.digest == data.digest for out in job.outputs) and data.digest]
        return same or there[:1]

    def _version(self, model: Model, version: ModelVersion) -> str:
        facts = {"digest": version.digest[:12], **{name: f"{value:g}" for name, value in version.metrics.items()}}
        name = f"{model.name}:{version.number}"
        node = LineageNode(id=f"model/{name}", kind="model", name=name, facts=facts)
        maker = next((job for job in self._jobs if job.id == version.job_id), None)
        known = node.id in self.nodes
        self._add(node, maker=maker)
        if maker is None and version.job and not known:
            # The job was deleted; what it was made of is written down with the version.
            facts = {"phase": "deleted", "code": version.code[:19], "commit": version.commit}
            gone = LineageNode(id=f"job/{version.job_id}", kind="job", name=version.job, facts=facts)
            self.nodes[node.id] = replace(self.nodes[node.id], origins=(self._add(gone, version.inputs),))
        return node.id

    def _add(self, node: LineageNode, inputs: Iterable[DataVersion] = (), maker: Job | None = None) -> str:
        if node.id in self.nodes:
            return node.id
        node = replace(node, facts={name: fact for name, fact in node.facts.items() if fact})
        # Its place comes before that of its origins, and it is there when one of them leads back to it.
        self.nodes[node.id] = node
        origins = [*map(self.address, inputs), *([self.job(maker)] if maker else [])]
        self.nodes[node.id] = replace(node, origins=tuple(dict.fromkeys(origins)))
        return node.id


def _code_facts(spec: JobSpec, image: str) -> dict[str, str]:
    """Say what ran; ``image`` is the one that did, by its digest, where that is known."""
    source, image = spec.source, image or spec.image or ""
    if source is None:
        return {"code": (spec.code or "")[:19], "image": image}
    return {
        "code": (spec.code or "")[:19],
        "commit": source.described_commit,
        "packages": source.packages[:19],
        "image": image,
        "rerun of": source.rerun_of,
    }


def _overlap(first: str, second: str) -> bool:
    """Whether one address is the other, or lies in it."""
    one, other = first.rstrip("/"), second.rstrip("/")
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")
