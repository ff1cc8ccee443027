"""The tree of queues: shares, limits, and which gang is next."""
