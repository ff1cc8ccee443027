"""From options to a client of the service."""
