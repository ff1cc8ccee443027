"""The local engine: gangs as processes on this machine, kept by one small keeper process per attempt.

``engine.LocalEngine`` is the contract's side and runs in the controller; ``keeper`` is the side that survives it.
docs/local-engine.md says how they share the work and what is left where.
"""
