"""Workspaces: given what is seen of their programs, when they run, are warned and are stopped. Pure.

``gangline.kinds.workspace`` registers the kind, ``controller/workspaces.py`` looks at programs and
``gangline.web.gateway`` lets people in.
"""

from gangline.workspaces.plan import WorkspacePlan, WorkspaceSight, plan, started, stopped
from gangline.workspaces.runs import run_job, template

__all__ = ["WorkspacePlan", "WorkspaceSight", "plan", "run_job", "started", "stopped", "template"]
