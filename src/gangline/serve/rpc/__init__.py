"""The same calls over gRPC."""
