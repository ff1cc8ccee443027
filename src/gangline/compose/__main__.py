"""The process that the first ``gangline submit`` starts: the local service, which tells its parent when it is ready.

It takes the numbers of a descriptor to write one byte to when it is ready, and of others that it only keeps open until
then, such as a lock; without any it serves all the same.
"""

import contextlib
import os
import sys

from gangline.compose.local import serve_forever
from gangline.errors import GanglineError
from gangline.settings import Settings


def main(*descriptors: str) -> int:
    """Serve until the end; an error is one line, which whoever started us shows."""

    def ready() -> None:
        for number, descriptor in enumerate(map(int, descriptors)):
            # Whoever started us may have gone.
            with contextlib.suppress(BrokenPipeError):
                os.write(descriptor, b"1" * (number == 0))
            os.close(descriptor)

    try:
        serve_forever(Settings.load(), ready=ready)
    except (GanglineError, OSError) as error:
        if os.environ.get("GANGLINE_DEBUG"):
            raise
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
