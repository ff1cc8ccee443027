"""Fixtures and settings for every test."""

import signal

from hypothesis import HealthCheck, settings

pytest_plugins = ["gangline.testing.cluster.pytest_plugin", "tests.surroundings"]

# How long an example takes says something about the machine, not about the code.
settings.register_profile("gangline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gangline")

# A shell that starts us in the background has us ignore interrupts, and programs under test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
