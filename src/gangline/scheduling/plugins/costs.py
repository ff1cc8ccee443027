"""What stopping a gang would waste."""

from gangline.model import Timestamp
from gangline.scheduling.gangs.holdings import Held
from gangline.scheduling.nodes.table import CPU, GPU


class WorkLost:
    """The default: GPU seconds since the gang last saved its work (a processor second counts a hundredth of one).

    A gang that has not told of a checkpoint since it was launched loses everything it did since then.
    """

    def cost(self, gang: Held, now: Timestamp) -> float:
        """Seconds since launch or the last checkpoint, whichever came later, times the size of the gang."""
        saved_at, told_at = gang.launched_at, gang.job.checkpoint_at
        if told_at is not None and told_at > saved_at:
            saved_at = told_at
        if now <= saved_at:
            return 0.0
        amounts = gang.amounts
        return (now - saved_at) * (amounts.item(GPU) / 1000 + amounts.item(CPU) / 100_000)
