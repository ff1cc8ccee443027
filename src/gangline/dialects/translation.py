"""What a dialect returns: the job, and what could not be said in the model's words."""

from dataclasses import dataclass, replace
from enum import StrEnum

from gangline.errors import InvalidInputError
from gangline.model import JobSpec, PlacementRule
from gangline.model.kinds.data_store import DataStore


class CleanPods(StrEnum):
    """Which replicas a finished job removes; what is removed keeps its logs and its record."""

    ALL = "All"
    RUNNING = "Running"
    NONE = "None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """One job read from a file.

    ``notes`` are remarks for the user, one sentence each: the command line prints them, the REST service returns
    them as warnings; ``local_notes`` matter only where replicas are plain processes. ``suspended`` asks for the
    job to be submitted halted. ``managed_by`` names a foreign controller, in which case it is not ours to run.
    ``local_refusal`` is why such an engine cannot run it at all.
    ``objects_json`` are the ConfigMaps and Secrets of the same file: an engine without a cluster must be given them.
    ``stores`` are object stores that the job names and that were described in its file; their keys are in the Secrets.
    ``cluster_objects_json`` are other objects of the file (claims, services), of which only a cluster has a use.
    """

    spec: JobSpec
    notes: tuple[str, ...] = ()
    local_notes: tuple[str, ...] = ()
    suspended: bool = False
    clean_pods: CleanPods | None = None
    managed_by: str | None = None
    local_refusal: InvalidInputError | None = None
    objects_json: tuple[str, ...] = ()
    cluster_objects_json: tuple[str, ...] = ()
    stores: tuple[DataStore, ...] = ()

    def on_one_machine(self) -> JobSpec:
        """Return the job for an engine without a cluster: what a manifest says of a cluster's nodes is left out.

        No machine carries the labels of somebody's cluster; a job that insisted on them would wait forever.
        Raises InvalidInputError if it cannot run there.
        """
        if self.local_refusal is not None:
            raise self.local_refusal
        if self.spec.manifest_json is None:
            return self.spec
        roles = tuple(replace(role, placement=None) for role in self.spec.roles)
        return replace(self.spec, roles=roles, placement=PlacementRule())
