"""``python -m tools.katib_examples FOLDER``: every Experiment below a folder, run here, as a table.

The folder is a copy of Katib's examples; none is part of this repository. What a file says stays as it is but for
its namespace and the program that a trial runs: images do not exist here, so a small program stands in for theirs.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from gangline.dialects import document
from gangline.dialects.katib import experiment_of, stand_in
from gangline.errors import GanglineError, InvalidInputError, WaitTimeoutError
from gangline.kinds.experiment import EXPERIMENT, read_file
from gangline.model.kinds.experiment import ExperimentView
from gangline.sdk import Client
from gangline.sdk.transports.embedded import EmbeddedTransport

_TRAINING = str(Path(__file__).with_name("training.py"))
_TEMPLATES = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "trial-templates", "namespace": "default"}}
_TEMPLATE = """apiVersion: batch/v1
kind: Job
spec:
  template:
    spec:
      containers:
      - name: training-container
        image: any
        command: [PYTHON, TRAINING, mnist.py, "--lr=${trialParameters.learningRate}",
                  "--layers=${trialParameters.numberLayers}", "--optimizer=${trialParameters.optimizer}"]
      restartPolicy: Never
"""


def main() -> int:
    """Run all, print the table, and return 0 if nothing that was accepted failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--timeout", type=float, default=240.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        transport = EmbeddedTransport(home=Path(home))
        client = Client(settings=transport.settings, transport=transport)
        try:
            rows = _run(client, given.folder, given.timeout)
        finally:
            for view in client.records(EXPERIMENT).list():
                client.records(EXPERIMENT).delete(view.name)
            client.close()
    for row in rows:
        print("| " + " | ".join(row) + " |")
    return int(any(row[1] in ("Failed", "not ended") for row in rows))


def _run(client: Client, folder: Path, timeout: float) -> list[tuple[str, ...]]:
    records = client.records(EXPERIMENT)
    template = _TEMPLATE.replace("PYTHON", sys.executable).replace("TRAINING", _TRAINING)
    client.put_object(json.dumps({**_TEMPLATES, "data": {"defaultTrialTemplate.yaml": template}}))
    rows, waiting = list[tuple[str, ...]](), list[tuple[str, str]]()
    for path in sorted(folder.rglob("*.yaml")):
        for found in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if not isinstance(found, dict) or found.get("kind") != "Experiment":
                continue
            try:
                spec = read_file(document.plain(_here(found)), {})
                experiment = experiment_of(spec.manifest_json)
                if experiment.template.spec_json is not None:
                    stand_in(experiment).on_one_machine()
                view = records.create(spec)
                waiting.append((path.name, view.name))
            except InvalidInputError as error:
                rows.append((path.name, "refused", str(error)))
    for file, name in waiting:
        try:
            rows.append(_row(file, records.wait(name, timeout=timeout)))
        except WaitTimeoutError:
            rows.append((file, "not ended", EXPERIMENT.columns[1].cell(records.get(name))))  # type: ignore[arg-type]
        except GanglineError as error:
            rows.append((file, "error", str(error)))
    return sorted(rows)


def _row(file: str, view: ExperimentView) -> tuple[str, ...]:
    best = next(column.cell(view) for column in EXPERIMENT.columns if column.heading == "BEST")
    states = [each.state.value for each in view.trials]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    return file, view.state, f"{counts}; {best}; {view.end.reason if view.end else ''}"


def _here(found: dict[str, Any]) -> dict[str, Any]:
    """Put an Experiment into the default namespace, and our program in the place of those of its images."""
    found["metadata"]["namespace"] = "default"
    template = found["spec"].get("trialTemplate") or {}
    if "configMap" in template:
        template["configMap"]["configMapNamespace"] = "default"
    _replace_programs(template.get("trialSpec"))
    return found


def _replace_programs(node: Any) -> None:
    if isinstance(node, list):
        for each in node:
            _replace_programs(each)
    if not isinstance(node, dict):
        return
    for name, words in node.items():
        if name in ("command", "args") and isinstance(words, list):
            node[name] = _words(words)
        else:
            _replace_programs(words)
    resources = node.get("resources")
    if isinstance(resources, dict):
        node.pop("resources")  # an example's gigabytes are for a cluster


def _words(words: list[str]) -> list[str]:
    """Replace ``python PROGRAM`` by our own; where there is no ``mpirun``, the launcher runs it once by itself."""
    found: list[str] = []
    for word in words:
        if word.endswith(".py") and found and "python" in found[-1]:
            found[-1:] = [sys.executable, _TRAINING, word]
        else:
            found.append(word)
    if shutil.which("mpirun") is None:
        if found == ["mpirun"]:
            return ["env"]  # the program is among the arguments
        if found[:1] == ["-np"] and sys.executable in found:
            return found[found.index(sys.executable) :]
    return found


if __name__ == "__main__":
    sys.exit(main())
