"""What tests are made of: builders, a clock that stands still, contract suites, and a real Kubernetes cluster.

For this project and for whoever extends it: an engine, a store or a client of your own must pass the same suites.
"""
