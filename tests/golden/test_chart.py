"""The Helm chart in the tree is the one that the installation's objects give.

What Helm makes of it is tested with Helm itself, in ``tests/integration/kubernetes/test_chart.py``.
"""

import runpy
from pathlib import Path

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_chart_is_up_to_date() -> None:
    script = runpy.run_path(str(DEPLOY / "render_chart.py"))
    assert script["present"]() == script["render"](), "run python deploy/render_chart.py"
