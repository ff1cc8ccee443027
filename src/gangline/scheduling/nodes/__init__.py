"""Nodes as arrays, what is free on them, and sets of them."""
