"""What stopping a gang would waste."""

from gangline.model import Timestamp
from gangline.scheduling.holdings import Held


class WorkLost:
    """The default: GPU seconds since the gang was last launched (processor seconds count a hundredth).

    The model does not say when a gang saved its last checkpoint, so the launch is the last moment known to be safe.
    """

    def cost(self, gang: Held, now: Timestamp) -> float:
        """Seconds since launch times the size of the gang."""
        launched = launched_at(gang)
        size = sum(_weight(role.shape.gpu_millis) * len(role.rows) for role in gang.roles)
        return max(now - launched, 0.0) * size


def launched_at(gang: Held) -> Timestamp:
    """When the present attempt got its machines."""
    for entry in reversed(gang.job.history):
        if entry.phase.value == "STARTING":
            return entry.at
    return gang.job.started_at or gang.job.created_at


def _weight(gpu_millis: int) -> float:
    return gpu_millis / 1000 if gpu_millis else 0.01
