"""Numbers that programs write in forms of their own, read for every engine alike. Pure: bytes in, records out."""
