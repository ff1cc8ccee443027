"""The verbs of workspaces: start, stop and open them."""

from gangline.errors import ConflictError
from gangline.model.kinds.workspace import Workspace, WorkspaceSpec
from gangline.sdk.exchange import query_of
from gangline.sdk.verbs.records import Records
from gangline.wire import DashboardLink


class Workspaces(Records[WorkspaceSpec, Workspace]):
    """Asks one Gangline about workspaces; made by ``Client``."""

    def start(self, name: str) -> Workspace:
        """Run a workspace again, with its files; one that runs goes on."""
        return self.do(name, "start")

    def stop(self, name: str) -> Workspace:
        """End the run of a workspace; its files are kept."""
        return self.do(name, "stop")

    def wait_ready(self, name: str, *, timeout: float | None = None) -> Workspace:
        """Return when a workspace can be opened; raises ConflictError when it has stopped or failed."""
        for found in self.watch(name, timeout=timeout):
            if found.state == "ready":
                return found
            if found.settled or found.status.problem:
                raise ConflictError(f"workspace '{name}' is {found.state}: {found.status.problem or 'it was stopped'}")
        raise ConflictError(f"workspace '{name}' was deleted meanwhile")

    def link(self, name: str, *, port: int | None = None) -> str:
        """Return a link that lets in whoever opens it first; it is good for two minutes."""
        return self._exchange.ask(DashboardLink, "POST", self._path(name, "open"), query_of(port=port)).address
