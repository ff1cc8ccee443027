"""The service as others reach it: the wire on one side, operations on the other, translation between them."""
