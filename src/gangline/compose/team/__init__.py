"""A service for a team: who asks, over TLS, on a port of the network, beside the private socket."""
