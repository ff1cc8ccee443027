"""Where everything of the local engine lies below its root directory."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from gangline.engines.local.keeper.orders import MOVES_FOLDER
from gangline.model import GangId, JobId


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths by meaning.

    active/JOB.ATTEMPT           an empty file per attempt that is not known to be stopped
    code/DIGEST.tar.gz           code archives, put there by whoever accepts jobs
    objects/TENANT               ConfigMaps and Secrets, put there by whoever accepts them
    cache/TENANT                 what movers fetched from object stores, by content
    environments/TENANT/DIGEST   Python environments that steps of pipelines asked for
    claims/TENANT/CLAIM          what volume claims stand for, kept until the user removes it
    models/TENANT                the files of models, by content
    jobs/JOB/data|results|checkpoints    shared by the job's replicas, kept across attempts
    jobs/JOB/receipts            which inputs were fetched already
    jobs/JOB/attempts/N          order, record, lock and log of the keeper; logs, metrics and scratch of the replicas;
                                 moves, what the movers tell
    t/DIGEST                     a link to the scratch of an attempt
    """

    root: Path

    @property
    def active(self) -> Path:
        """The markers of attempts that are not known to be stopped."""
        return self.root / "active"

    def job(self, job_id: JobId) -> Path:
        """Everything one job has."""
        return self.root / "jobs" / _file_name(job_id)

    def attempts(self, job_id: JobId) -> list[int]:
        """The attempts of a job that left something, oldest first."""
        folder = self.job(job_id) / "attempts"
        return sorted(int(entry.name) for entry in folder.iterdir()) if folder.exists() else []

    def attempt(self, gang_id: GangId) -> Path:
        """Everything one attempt has."""
        return self.job(gang_id.job_id) / "attempts" / str(gang_id.attempt)

    def scratch(self, gang_id: GangId) -> Path:
        """One directory per replica for whatever it makes that is not kept."""
        return self.attempt(gang_id) / "scratch"

    def short_scratch(self, gang_id: GangId) -> Path:
        """The same by a short path: that of a socket may have 107 bytes, and programs make sockets below TMPDIR."""
        digest = hashlib.sha256(f"{gang_id.job_id}.{gang_id.attempt}".encode()).hexdigest()
        return self.root / "t" / digest[:12]

    def logs(self, gang_id: GangId) -> Path:
        """The log files of the replicas."""
        return self.attempt(gang_id) / "logs"

    def metrics(self, gang_id: GangId, replica: str) -> Path:
        """The file to which a replica appends its metrics."""
        return self.attempt(gang_id) / "metrics" / f"{replica}.jsonl"

    def stacks(self, gang_id: GangId, replica: str) -> Path:
        """Where the processes of a replica answer when they are asked for their stacks: their number is appended."""
        return self.attempt(gang_id) / "metrics" / f"{replica}.stacks"

    def marker(self, gang_id: GangId) -> Path:
        """The file that exists until the attempt is stopped."""
        return self.active / f"{_file_name(gang_id.job_id)}.{gang_id.attempt}"

    def active_gangs(self) -> list[GangId]:
        """Every attempt that is not known to be stopped."""
        if not self.active.exists():
            return []
        names = sorted(entry.name for entry in self.active.iterdir())
        return [GangId(JobId(unquote(name.rpartition(".")[0])), int(name.rpartition(".")[2])) for name in names]

    def objects(self, tenant: str) -> Path:
        """The tenant's ConfigMaps and Secrets, by plural and name."""
        return self.root / "objects" / _file_name(tenant)

    @property
    def cache(self) -> Path:
        """What movers fetched from object stores, by tenant."""
        return self.root / "cache"

    def claims(self, tenant: str) -> Path:
        """One directory per volume claim of the tenant."""
        return self.root / "claims" / _file_name(tenant)

    def environments(self, tenant: str) -> Path:
        """The Python environments that steps of the tenant's pipelines asked for."""
        return self.root / "environments" / _file_name(tenant)

    def models(self, tenant: str) -> Path:
        """The files of the tenant's models."""
        return self.root / "models" / tenant

    def moves(self, gang_id: GangId) -> Path:
        """What the movers of an attempt tell."""
        return self.attempt(gang_id) / MOVES_FOLDER

    def code_archive(self, digest: str) -> Path:
        """The archive of a job's code."""
        return self.root / "code" / f"{digest}.tar.gz"


def _file_name(text: str) -> str:
    """Ids are other people's words: no separator, and no leading dot, reaches the file system."""
    quoted = quote(text, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted
