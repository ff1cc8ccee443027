"""Bytes that travel: addresses, object stores, transfers, the cache of a node.

The engines' movers use it before a gang starts and after it succeeded; checkpoints use it inside a job. So it imports
nothing of the platform. Modules that also travel to a cluster by themselves (``moving``, ``addresses``, ``trees``,
``unpacking``) need the standard library of an old Python and nothing else; the rest needs obstore (``gangline[data]``)
as soon as an object store is spoken to, and not before.
"""
