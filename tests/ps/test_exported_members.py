"""The public names of gangline.ps are a promise, and imported when first used."""

import subprocess
import sys

import pytest

from gangline import ps


@pytest.mark.parametrize("name", ps.__all__)
def test_every_public_name_can_be_used(name: str) -> None:
    assert getattr(ps, name).__module__.startswith("gangline.ps.")


def test_only_the_public_names_are_shown() -> None:
    assert dir(ps) == sorted(ps.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Conect'"):
        _ = ps.Conect


def test_a_worker_starts_without_what_only_servers_need() -> None:
    program = "import sys; from gangline import ps; ps.connect; print(*(n for n in sys.modules if 'gangline.ps.' in n))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    loaded = set(result.stdout.split())
    assert "gangline.ps.worker.session" in loaded
    assert not loaded & {f"gangline.ps.{name}" for name in ("server", "service", "store", "snapshot", "resizing")}
