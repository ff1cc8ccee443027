"""What travels over the wire, as msgspec structs, and the translation from the model into them.

Times are ISO 8601 in UTC, replicas are ``ROLE-INDEX``, a job is its own job file with a ``status`` beside it.
Fields may be added; none is renamed or removed within ``v1``.
"""
