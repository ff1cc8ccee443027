"""How many replicas each node gets, once it is known how many it has room for: packed or spread."""

import numpy as np

from gangline.scheduling.nodes.table import Floats, Ints


def pack(counts: Ints, scores: Floats, wanted: int, dislike: Floats | None = None) -> tuple[Ints, Ints]:
    """As few nodes as possible: the roomiest first, and for the rest the node that it fits most tightly.

    Where some nodes are disliked more than others, those are left for last, however roomy.
    """
    rows = np.flatnonzero(counts)
    tiers = np.zeros_like(scores) if dislike is None else dislike
    order = rows[np.lexsort((rows, scores[rows], -counts[rows], tiers[rows]))]
    room = counts[order]
    before = np.cumsum(room) - room
    last = int(np.searchsorted(before + room, wanted))
    rest = wanted - int(before[last])
    # Every node from ``last`` on could be the one that takes the rest; the tightest leaves the least scattered room.
    tail = order[last:]
    roomy = tail[counts[tail] >= rest]
    tightest = roomy[np.lexsort((roomy, scores[roomy], counts[roomy], tiers[roomy]))[0]]
    return np.append(order[:last], tightest), np.append(room[:last], rest)


def spread(counts: Ints, scores: Floats, wanted: int) -> tuple[Ints, Ints]:
    """As evenly as possible: one more on every node in turn, the emptiest first."""
    rows = np.flatnonzero(counts)
    order = rows[np.lexsort((rows, scores[rows]))]
    room = counts[order]
    low, high = 0, int(min(wanted, room.max()))
    while low < high:
        middle = (low + high) // 2
        if int(np.minimum(room, middle).sum()) >= wanted:
            high = middle
        else:
            low = middle + 1
    taken = np.minimum(room, high - 1)
    more = np.flatnonzero(room >= high)[: wanted - int(taken.sum())]
    taken[more] += 1
    used = taken > 0
    return order[used], taken[used]
