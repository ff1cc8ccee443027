"""Runs every pipeline and component file of a folder on the local service and writes a table of how each ended.

    python -m tools.pipeline_table FOLDER [--seconds 120] [--match TEXT] [--all] [--at-once 4] [--fails TEXT ...]

Inputs without a default get a value of their type; an artefact gets a small file. Files that need what may not be here
are left out unless ``--all`` is given: a registry of packages, the network, or settings for Kubernetes. Those that name
an image other than one of Python are run, for many need nothing of it, and counted apart at the end. What a file
is meant to do only its author knows: files whose path holds a text of ``--fails`` are meant to fail, all others to
succeed, and the last lines count how many ended as they should: of those that need nothing but Python, and of those
among them whose steps are all Python functions, which is what kfp's own local runner takes.
``-p NAME=JSON`` gives inputs of that name a value, ``--arguments FILE`` some by file: a JSON object of the ends of
paths, each with an object of inputs.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any
from uuid import uuid4

from gangline.dialects import document
from gangline.dialects.document import compact_json
from gangline.dialects.pipeline import read_graph
from gangline.dialects.value import Value
from gangline.errors import GanglineError
from gangline.kinds.pipeline import PIPELINE, run_name
from gangline.model.kinds.pipeline import PipelineSpec
from gangline.pipelines import Container, Graph, Importer, ParameterType
from gangline.pipelines.graph import Constant, ParameterDefinition
from gangline.sdk import Client
from gangline.sdk.loading import with_components

_QUOTED = re.compile(r"'([^']+)'")
_INSTALLS = re.compile(
    r"pip3?\b.{0,60}?\binstall\b|\bapt(?:-get)?\b.{0,20}?\binstall\b|\bapk add\b|install\.packages", re.S
)
_HARMLESS = ("kfp==", "kfp>", "--", "typing-extensions")
_REMOTE = re.compile(
    r"\b(?:gsutil|gcloud|kubectl|wget|curl|git clone|urlretrieve|urlopen|requests\.(?:get|post)|boto3?)\b|"
    r"\b(?:gs|s3|minio|https?)://"
)
_PYTHON = re.compile(r"(?:.*/)?python(?:-\d+)?(?:[:@].*)?")
_IMAGE = "image"
_EXECUTOR = "kfp.dsl.executor_main"
_VALUES = {
    ParameterType.INTEGER: 1,
    ParameterType.DOUBLE: 0.5,
    ParameterType.STRING: "text",
    ParameterType.BOOLEAN: True,
    ParameterType.LIST: ["a", "b"],
    ParameterType.STRUCT: {"a": 1},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One file: what it needs, how it ended, why, and whether that is what it was meant to do."""

    file: str
    needs: str
    end: str
    reason: str = ""
    seconds: float = 0.0
    as_meant: bool = False
    functions: bool = False
    """Whether all its steps are functions that kfp made into components."""

    def line(self) -> str:
        """Return a line of the table."""
        reason = " ".join(self.reason.split())[:300].replace("|", "\\|")
        meant = "yes" if self.as_meant else "no" if self.end != "left out" else ""
        return f"| {self.file} | {self.needs} | {self.end} | {meant} | {self.seconds:.1f} | {reason} |"


def needs(graph: Graph, documents: Sequence[Value]) -> Iterator[str]:
    """Say what a file needs besides this machine."""
    bodies = [each.body for each in graph.components.values()]
    words = [word for body in bodies if isinstance(body, Container) for word in body.command]
    if any(_installs(word) for word in words):
        yield "packages"
    addresses = [
        str(body.uri.value) for body in bodies if isinstance(body, Importer) and isinstance(body.uri, Constant)
    ]
    if any(_REMOTE.search(text) for text in (*words, *addresses)):
        yield "network"
    if len(documents) > 1:
        yield "Kubernetes"
    if any(isinstance(body, Container) and not _PYTHON.fullmatch(str(body.image)) for body in bodies):
        yield _IMAGE


def only_functions(graph: Graph) -> bool:
    """Whether every command is a Python function that kfp made into a component, and nothing is imported."""
    bodies = [each.body for each in graph.components.values()]
    commands = [body.command for body in bodies if isinstance(body, Container)]
    imports = any(isinstance(body, Importer) for body in bodies)
    return not imports and all(any(_EXECUTOR in word for word in command) for command in commands)


def _installs(word: str) -> bool:
    """Whether a word of a command installs more than kfp itself, and pip where that is missing."""
    lines = [line for line in re.split(r"&&|;|\n", word) if _INSTALLS.search(line) and "ensurepip" not in line]
    named = [_QUOTED.findall(line) for line in lines]
    return any(not names or any(not name.startswith(_HARMLESS) for name in names) for names in named)


def arguments_for(graph: Graph, given: Mapping[str, Any], place: Path) -> dict[str, object]:
    """Return a value for every input that has no default."""
    found: dict[str, object] = {}
    for name, definition in graph.root.inputs.items():
        if name in given:
            found[name] = given[name]
        elif definition.optional:
            continue
        elif not isinstance(definition, ParameterDefinition):
            file = place / name
            file.write_text("a,b\n1,2\n3,4\n", encoding="utf-8")
            found[name] = str(file)
        elif definition.default is None:
            found[name] = _VALUES[definition.type]
    return found


def run_file(file: Path, name: str, chosen: argparse.Namespace, place: Path) -> Row:
    """Run one file and wait for its end."""
    meant = "failed" if any(text in name for text in chosen.fails) else "succeeded"
    needed, began = "unknown", monotonic()
    runs = Client().records(PIPELINE)
    try:
        first, *others = document.parse(file.read_text(encoding="utf-8"), file=file.name)
        documents = [with_components(first, str(file)), *others]
        graph = read_graph(documents)
        found = list(needs(graph, documents))
        needed = ", ".join(found)
        if set(found) - {_IMAGE} and not chosen.all:
            return Row(file=name, needs=needed, end="left out")
        own: dict[str, Any] = next((given for end, given in chosen.arguments.items() if name.endswith(end)), {})
        arguments = arguments_for(graph, {**dict(chosen.parameters), **own}, place)
        spec = PipelineSpec(
            name=run_name(graph, uuid4().hex[:8]),
            documents_json=compact_json([each.data for each in documents]),
            arguments_json=json.dumps(arguments),
        )
        run = runs.create(spec)
    except GanglineError as error:
        return Row(file=name, needs=needed, end="refused", reason=str(error))
    try:
        done = runs.wait(run.name, timeout=chosen.seconds)
        end, reason = str(done.state), done.status.failure
    except GanglineError as error:
        end, reason = "unfinished", str(error)
    runs.delete(run.name, wait=False)
    return Row(
        file=name,
        needs=needed,
        end=end,
        reason=reason,
        seconds=monotonic() - began,
        as_meant=end == meant,
        functions=only_functions(graph),
    )


def _parameter(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, json.loads(value)


def _by_file(path: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(Path(path).read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Run a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long a run may take")
    parser.add_argument("--match", default="", help="only files with this in their path")
    parser.add_argument("--all", action="store_true", help="also those that need packages, the network or Kubernetes")
    parser.add_argument("--at-once", type=int, default=4, help="how many run at a time")
    parser.add_argument("--fails", nargs="*", default=(), help="texts in the paths of files that are meant to fail")
    parser.add_argument("-p", dest="parameters", type=_parameter, action="append", default=[], help="a value by name")
    parser.add_argument("--arguments", type=_by_file, default={}, metavar="FILE", help="values by file, in JSON")
    chosen = parser.parse_args()
    files = sorted(each for each in chosen.folder.rglob("*.yaml") if chosen.match in str(each))
    print("| file | needs | end | as meant | seconds | reason |\n|---|---|---|---|---|---|")
    ends: Counter[str] = Counter()
    plain: Counter[bool] = Counter()
    functions: Counter[bool] = Counter()
    with TemporaryDirectory(prefix="inputs-") as place, ThreadPoolExecutor(chosen.at_once) as pool:
        jobs = [
            pool.submit(run_file, file, str(file.relative_to(chosen.folder)), chosen, Path(place)) for file in files
        ]
        for job in jobs:
            row = job.result()
            ends["as meant" if row.as_meant else row.end] += 1
            plain[row.as_meant] += not row.needs and row.end != "left out"
            functions[row.as_meant] += not row.needs and row.functions
            print(row.line(), flush=True)
    print(f"\n{len(files)} files: {', '.join(f'{count} {end}' for end, count in ends.most_common())}")
    print(f"{plain.total()} of them need nothing but Python: {plain[True]} as meant")
    print(f"{functions.total()} of those have no steps but Python functions: {functions[True]} as meant")


if __name__ == "__main__":
    main()
