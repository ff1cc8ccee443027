"""An FfDL manifest from its submission to its end: keys that stay out of the record, and numbers that are found."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangline.data.addresses import parse
from gangline.data.stores import Folder
from tests.cli.conftest import Shell
from tests.data.servers import Server, s3_server
from tests.engines.collecting.test_formats import scalar

COMMAND = """
printf 'step 1\\nloss 0.5\\nstep 2\\nloss 0.25\\n'
mkdir -p $JOB_STATE_DIR/logs/tb/train; cp $DATA_DIR/events $JOB_STATE_DIR/logs/tb/train/events.out.tfevents.1
cp $DATA_DIR/records $LOG_DIR/evaluation-metrics.txt; echo trained > $RESULT_DIR/model
"""
GROUPS = """
  type: regex_extractor
  groups:
    test:
      regex: 'step %{INT:step}\\nloss %{FLOAT:loss}'
      scalars: {loss: {type: FLOAT, value: $loss}}
      etimes: {iteration: {type: INT, value: $step}}
"""


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


def manifest(server: Server, name: str, metrics: str) -> str:
    lines = "\n".join(f"    {line}" for line in COMMAND.strip().splitlines())
    keys = server.credentials
    return f"""
name: {name}
cpus: 0.1
memory: 128MB
data_stores:
  - type: mount_cos
    training_data: {{container: bucket/ffdl-in}}
    training_results: {{container: bucket/ffdl-out}}
    connection: {{auth_url: "{keys.endpoint}", user_name: "{keys.key}", password: "{keys.secret}"}}
framework:
  name: custom
  version: acme/own:1
  command: |
{lines}
evaluation_metrics: {metrics}
"""


@pytest.mark.parametrize(
    ("name", "metrics", "want"),
    [
        ("ffdl-regex", GROUPS, {("test/loss", 2): 0.25}),
        ("ffdl-tb", '{type: tensorboard, in: "$JOB_STATE_DIR/logs/tb"}', {("train/accuracy", 3): 0.75}),
        ("ffdl-em", "{type: emetrics_file}", {("eval/loss", 9): 0.125}),
    ],
)
def test_a_manifest_runs_without_its_keys_and_its_numbers_are_found(
    shell: Shell, s3: Server, tmp_path: Path, name: str, metrics: str, want: dict[tuple[str, int], float]
) -> None:
    folder = Folder.open(parse("s3://bucket/ffdl-in"), s3.credentials)
    folder.write("events", scalar("accuracy", 0.75, 3, as_tensor=True))
    record = {"grouplabel": "eval", "etimes": {"iteration": {"value": 9}}, "values": {"loss": {"value": "0.125"}}}
    folder.write("records", json.dumps(record).encode() + b"\n")
    file = tmp_path / "manifest.yml"
    file.write_text(manifest(s3, name, metrics))
    done = shell.run("submit", "-f", str(file), "--wait")
    assert done.returncode == 0, done.stderr
    found = json.loads(shell.out("metrics", name, "--latest", "-o", "json"))
    assert {(each["name"], each["step"]): each["value"] for each in found} == want
    out = Folder.open(parse(f"s3://bucket/ffdl-out/{name}"), s3.credentials)
    assert out.read_small("model")[0] == b"trained\n"
    shown = shell.out("get", name, "-o", "yaml") + shell.out("events", name) + shell.out("store", "list", "-o", "yaml")
    assert s3.credentials.secret not in shown + done.stdout + done.stderr
    home = Path(shell.environment["GANGLINE_HOME"])
    holders = {
        path.parent.name
        for path in home.rglob("*")
        if path.is_file() and s3.credentials.secret.encode() in path.read_bytes()
    }
    assert holders == {"secrets"}, "the tenant's Secret alone"
