"""Fixtures every test may use."""

pytest_plugins = ["gangline.testing.cluster.pytest_plugin"]
