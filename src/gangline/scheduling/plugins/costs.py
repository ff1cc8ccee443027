"""What stopping a gang would waste."""

from gangline.model import Timestamp
from gangline.scheduling.holdings import Held
from gangline.scheduling.table import CPU, GPU


class WorkLost:
    """The default: GPU seconds since the gang last saved its work (a processor second counts a hundredth of one).

    A gang that has not told of a checkpoint since it was launched loses everything it did since then.
    """

    def cost(self, gang: Held, now: Timestamp) -> float:
        """Seconds since launch or the last checkpoint, whichever came later, times the size of the gang."""
        size = gang.amounts.item(GPU) / 1000 + gang.amounts.item(CPU) / 100_000
        saved_at = max(gang.launched_at, gang.job.checkpoint_at or 0.0)
        return max(now - saved_at, 0.0) * size
