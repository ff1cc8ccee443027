"""Engines run gangs: on this machine, on Kubernetes, or nowhere at all. interface.py is the whole contract."""
