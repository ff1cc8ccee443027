"""The gRPC interface: the operations of the table, as methods with typed messages. Needs ``gangline[grpc]``."""
