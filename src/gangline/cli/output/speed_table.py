"""The predicted speed of a job by size, as rows."""

from collections.abc import Iterable

from gangline.model import Job

CURVE_COLUMNS = ("REPLICAS", "SPEED", "BETWEEN", "MEASURED")


def curve_rows(job: Job, sizes: Iterable[int]) -> list[tuple[str, ...]]:
    """One row per size, relative to what the job has now; none while nothing was measured."""
    from gangline.allocation.outlook import outlooks  # brings NumPy, which most commands do not need

    return [
        (
            str(each.workers),
            f"x{each.speedup:.2f}",
            f"x{each.low:.2f} to x{each.high:.2f}",
            "yes" if each.seen else "no",
        )
        for each in outlooks(job, sizes)
    ]
