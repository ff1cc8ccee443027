"""The specs and statuses of every kind besides Job, one module each."""
