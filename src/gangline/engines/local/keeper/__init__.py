"""The keeper: one small process per gang attempt that starts its replicas, holds their output and sees them exit.

The engine starts it and may die at any moment; the keeper goes on. It runs under a bare interpreter (``-I -S``) with
this directory's parent on its path, as the top-level package ``keeper``: that starts in milliseconds and needs nothing
of the platform. So modules here import only the standard library and, relatively, each other. The engine imports the
few that both sides need (``records``, ``cgroups``, ``processes``, ``trees``).
"""
