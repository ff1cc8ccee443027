"""Sets of nodes that a gang may use, as masks over the table; and what sharing a domain leaves of them.

A mask has one row for all roles of a gang, or one for each of them in the order of the demand. None allows every node.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from gangline.model import RoleName
from gangline.scheduling.demand.gang_affinity import Separation
from gangline.scheduling.demand.shapes import Demand, RoleDemand
from gangline.scheduling.nodes.table import ABSENT, Bools, Floats, Ints, NodeTable

Seated = Mapping[RoleName, Sequence[int]]
"""The rows of a gang's replicas that have their place already, by role."""


def both(first: Bools | None, second: Bools | None) -> Bools | None:
    """Nodes that two conditions allow."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def for_role(allowed: Bools | None, demand: Demand, role: RoleDemand) -> Bools | None:
    """Nodes that one role of a gang may use."""
    if allowed is None or allowed.ndim == 1:
        return allowed
    number = next(number for number, each in enumerate(demand.roles) if each.role == role.role)
    return np.asarray(allowed[number])


def for_any(allowed: Bools) -> Bools:
    """Nodes that some role may use."""
    return allowed if allowed.ndim == 1 else np.asarray(allowed.any(axis=0))


def confined(allowed: Bools | None, demand: Demand, roles: Collection[RoleName], inside: Bools) -> Bools:
    """The same nodes, but for some roles only those inside."""
    bound = [each.role in roles for each in demand.roles]
    mask = inside if all(bound) else np.where(np.array(bound)[:, None], inside, True)
    return mask if allowed is None else mask & allowed


def clear_of(table: NodeTable, separations: Sequence[Separation], role: RoleName, seated: Seated) -> Bools | None:
    """Nodes where a further replica of a role shares no domain with one that it must not share any with."""
    partners: dict[tuple[str, bool], set[RoleName]] = {}
    for apart in separations:
        if role in apart.roles:
            partners.setdefault((apart.level, apart.strict), set()).update(apart.roles - {role} or apart.roles)
    mask: Bools | None = None
    for (level, strict), others in partners.items():
        ids = table.level(level).ids
        taken = ids[[row for other in others for row in seated.get(other, ())]]
        clear = ~np.isin(ids, taken[taken != ABSENT])
        mask = both(mask, clear & (ids != ABSENT) if strict else clear)
    return mask


def one_per_domain(counts: Ints, ids: Ints, scores: Floats) -> Ints:
    """Room for replicas none of which share a domain: one on the best node of each; nodes outside keep their room."""
    rows = np.flatnonzero((counts > 0) & (ids != ABSENT))
    ordered = rows[np.lexsort((rows, scores[rows]))]
    _, first = np.unique(ids[ordered], return_index=True)
    single = np.where(ids == ABSENT, counts, 0)
    single[ordered[first]] = 1
    return single


def room_within(counts: Ints, ids: Ints, domains: int, *, apart: Ints | None = None) -> Floats:
    """The room of each of some domains, of which nothing shares one of the domains ``apart``: one in each of those.

    Not ``one_per_domain``, which decides for the best node of a rack: here it may be another one that counts.
    """
    rows = np.flatnonzero((counts > 0) & (ids != ABSENT))
    room = np.zeros(domains, dtype=np.float64)
    shared = np.zeros(len(rows), dtype=np.bool_) if apart is None else apart[rows] != ABSENT
    np.add.at(room, ids[rows[~shared]], counts[rows[~shared]])
    if apart is not None and shared.any():
        pairs = np.stack([ids[rows[shared]], apart[rows[shared]]])
        np.add.at(room, np.unique(pairs, axis=1)[0], 1)
    return room
