"""The verbs of the kinds besides Job, as attributes of a client. Each kind is imported when it is asked for."""

from typing import TYPE_CHECKING, Any

from gangline.sdk.verbs.records import Records, Spec, Sweeps, View

if TYPE_CHECKING:
    from gangline.kinds import Kind
    from gangline.kinds.queue import QueueRecord
    from gangline.model import Queue
    from gangline.sdk.verbs.models import Models
    from gangline.sdk.verbs.secrets import Secrets
    from gangline.sdk.verbs.services import Services
    from gangline.sdk.verbs.stores import Stores
    from gangline.sdk.verbs.team import Team
    from gangline.sdk.verbs.workspaces import Workspaces


class KindVerbs:
    """What a client has beside the verbs of jobs."""

    @property
    def sweeps(self) -> Sweeps:
        """Sweeps: one job tried with many values."""
        from gangline.kinds.sweep import SWEEP  # a client that only submits jobs need not wait for this

        return Sweeps(SWEEP, self)  # type: ignore[arg-type]  # it is a Client

    @property
    def queues(self) -> "Records[Queue, QueueRecord]":
        """Queues: shares of the machines."""
        from gangline.kinds.queue import QUEUE

        return self.records(QUEUE)

    @property
    def stores(self) -> "Stores":
        """Object stores that jobs may name, and their keys."""
        from gangline.kinds.store import STORE
        from gangline.sdk.verbs.stores import Stores

        return Stores(STORE, self)  # type: ignore[arg-type]

    @property
    def secrets(self) -> "Secrets":
        """Secrets: values that jobs get as variables, and that nothing shows."""
        from gangline.kinds.secret import SECRET
        from gangline.sdk.verbs.secrets import Secrets

        return Secrets(SECRET, self)  # type: ignore[arg-type]

    @property
    def models(self) -> "Models":
        """Models: what training leaves, in versions."""
        from gangline.kinds.model import MODEL
        from gangline.sdk.verbs.models import Models

        return Models(MODEL, self)  # type: ignore[arg-type]

    @property
    def team(self) -> "Team":
        """Who may use the service, and who did."""
        from gangline.sdk.verbs.team import Team

        return Team(self)  # type: ignore[arg-type]

    @property
    def services(self) -> "Services":
        """Services: replicas that answer requests."""
        from gangline.kinds.service import SERVICE
        from gangline.sdk.verbs.services import Services

        return Services(SERVICE, self)  # type: ignore[arg-type]

    @property
    def workspaces(self) -> "Workspaces":
        """Workspaces: notebooks, TensorBoards and other programs in a browser."""
        from gangline.kinds.workspace import WORKSPACE
        from gangline.sdk.verbs.workspaces import Workspaces

        return Workspaces(WORKSPACE, self)  # type: ignore[arg-type]

    def records(self, kind: "Kind[Spec, Any, View]") -> "Records[Spec, View]":
        """Return the verbs of any kind."""
        return Records(kind, self)  # type: ignore[arg-type]
