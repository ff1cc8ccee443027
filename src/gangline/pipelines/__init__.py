"""Graphs of steps: given finished steps, what may start, is skipped, or is collected.

``graph`` holds the values, ``values`` what flows between steps, ``conditions`` the language of conditions,
``placeholders`` the words of commands, ``checking`` what is refused before the first step, ``evaluation`` the rules of
a run. Whoever reads a format makes a ``Graph``; the kind Pipeline asks for an ``Instance`` tree and starts what is due.
Nothing here reads a clock, a file or a socket.
"""

from gangline.pipelines.checking import check_graph
from gangline.pipelines.evaluation import Instance, Outcome, State, evaluate
from gangline.pipelines.graph import Component, Container, Dag, Graph, Importer, JobTemplate, ModelLookup, Task
from gangline.pipelines.values import Artifact, ParameterType

__all__ = [
    "Artifact",
    "Component",
    "Container",
    "Dag",
    "Graph",
    "Importer",
    "Instance",
    "JobTemplate",
    "ModelLookup",
    "Outcome",
    "ParameterType",
    "State",
    "Task",
    "check_graph",
    "evaluate",
]
