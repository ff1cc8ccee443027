"""What can keep the test cluster from running; every message says what to do about it."""

from gangline.errors import GanglineError


class ClusterError(GanglineError):
    """The test cluster could not do what it was told."""


class UnsupportedMachineError(ClusterError):
    """This machine cannot run the cluster at all; tests that need it are skipped with this reason."""


class BuildError(ClusterError):
    """A component could not be built from its Go module."""


class ComponentFailedError(ClusterError):
    """A component ended or never became ready; ``log`` is the end of what it wrote."""

    def __init__(self, component: str, problem: str, *, log: str) -> None:
        self.component = component
        self.problem = problem
        self.log = log
        super().__init__(f"{component} {problem}; the end of its log:\n{log}")
