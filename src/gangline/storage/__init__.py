"""Stores remember jobs, their events and their metrics. interface.py is the whole contract."""
