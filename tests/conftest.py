"""Fixtures and settings for every test."""

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tools.cluster.pytest_plugin", "tests.surroundings", "tests.run_directory"]

# How long an example takes says something about the machine, not about the code.
settings.register_profile("gangline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gangline")

# A shell that starts us in the background has us ignore interrupts, and programs under test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

WITH_CLUSTERS = tuple(Path(__file__).parent / name for name in ("integration", "frameworks"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test that needs a cluster where the tiers that have one do not look for it."""
    for item in items:
        if item.get_closest_marker("kubernetes") and not any(
            item.path.is_relative_to(place) for place in WITH_CLUSTERS
        ):
            raise pytest.UsageError(f"{item.nodeid} needs a cluster: such tests are in tests/integration")
