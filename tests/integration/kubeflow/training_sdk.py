"""The Kubeflow Training SDK as its users install it, in an environment of its own, and what they do with it."""

from pathlib import Path

from tests.environments import environment_with

SDK = "kubeflow-training==1.9.4"
SCENARIOS = Path(__file__).with_name("sdk_scenarios.py")


def sdk_environment() -> Path:
    """Return the interpreter of an environment that has the SDK (33 MB, made once in a few seconds, then cached)."""
    return environment_with(SDK)
