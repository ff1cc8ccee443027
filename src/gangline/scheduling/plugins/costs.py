"""What stopping a gang would waste."""

from gangline.model import Timestamp
from gangline.scheduling.holdings import Held
from gangline.scheduling.table import CPU, GPU


class WorkLost:
    """The default: GPU seconds since the gang was last launched (a processor second counts a hundredth of one).

    The model does not say when a gang saved its last checkpoint, so the launch is the last moment known to be safe.
    """

    def cost(self, gang: Held, now: Timestamp) -> float:
        """Seconds since launch times the size of the gang."""
        size = float(gang.amounts[GPU]) / 1000 + float(gang.amounts[CPU]) / 100_000
        return max(now - gang.launched_at, 0.0) * size
