"""Fixtures and settings for every test."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["gangline.testing.cluster.pytest_plugin"]

# How long an example takes says something about the machine, not about the code.
settings.register_profile("gangline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gangline")
