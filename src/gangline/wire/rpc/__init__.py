"""The gRPC form of the wire: messages and methods generated from the table of operations, and values as messages.

``gangline.proto`` is written by ``python -m tools.protos`` out of the same rows and types that serve REST; clients in
other languages are generated from it. Whoever imports this needs ``gangline[grpc]``.
"""
