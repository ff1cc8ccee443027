"""Runs Katib's own example files on this machine, with its training programs replaced by a small one."""
