"""What each framework reads to find its peers, as pure functions of the job and its replicas' addresses.

Engines call ``replica_environment`` for each replica they start (``team_environment`` for many of one gang), and
``hostfile`` for MPI jobs. No engine is known here: addresses and paths come in.
"""

from gangline.dialects.frameworks.environment import replica_environment, shares_secret, team_environment
from gangline.dialects.frameworks.mpi import Implementation, hostfile, slots_per_worker
from gangline.dialects.frameworks.team import Address, Team

__all__ = [
    "Address",
    "Implementation",
    "Team",
    "hostfile",
    "replica_environment",
    "shares_secret",
    "slots_per_worker",
    "team_environment",
]
