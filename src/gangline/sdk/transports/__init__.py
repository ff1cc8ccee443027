"""Ways to a service: HTTP, gRPC, a thread of this process, a cluster itself; and finding, starting and awaiting it."""
