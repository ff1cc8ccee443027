"""This machine as nodes: what it has, who was given what, and what is used of it."""
