"""The one clock that is real; everything else is handed one."""

import time

from gangline.model import Timestamp


class SystemClock:
    """The machine's own clock."""

    def now(self) -> Timestamp:
        """Return the present time."""
        return Timestamp(time.time())  # noqa: TID251  # this is where the time comes from
