"""What stopping a gang would waste."""

from gangline.model import Timestamp
from gangline.scheduling.holdings import Held


class WorkLost:
    """The default: GPU seconds since the gang was last launched (processor seconds count a hundredth).

    The model does not say when a gang saved its last checkpoint, so the launch is the last moment known to be safe.
    """

    def cost(self, gang: Held, now: Timestamp) -> float:
        """Seconds since launch times the size of the gang."""
        size = sum(_weight(role.shape.gpu_millis) * len(role.rows) for role in gang.roles)
        return max(now - gang.launched_at, 0.0) * size


def _weight(gpu_millis: int) -> float:
    return gpu_millis / 1000 if gpu_millis else 0.01
