"""The Helm chart in the tree is the one that the installation's objects give."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "deploy" / "render_chart.py"


def test_chart_is_up_to_date() -> None:
    script = runpy.run_path(str(SCRIPT))
    assert script["present"]() == script["render"](), "run python deploy/render_chart.py"
