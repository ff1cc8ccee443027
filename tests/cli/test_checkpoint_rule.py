"""Checkpoints that the job's file sends to a bucket, with the keys of a store that the job names."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.data.servers import Server, s3_server

PROGRAM = """
import os
from gangline.runtime import Checkpoints
checkpoints = Checkpoints(os.environ["CHECKPOINT_DIR"])
found = checkpoints.latest()
print("from", found.step if found else "the beginning", checkpoints.due(), flush=True)
for step in range(1, 5):
    checkpoints.save(step + (found.step if found else 0), lambda path: (path / "state").write_text("x"))
"""


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


def test_one_line_keeps_checkpoints_in_a_bucket_where_the_next_job_finds_them(
    shell: Shell, s3: Server, tmp_path: Path
) -> None:
    keys = s3.credentials
    environment = {"AWS_ACCESS_KEY_ID": keys.key, "AWS_SECRET_ACCESS_KEY": keys.secret}
    added = shell.run("store", "add", "kept", "s3://bucket", "--endpoint", keys.endpoint, **environment)
    assert added.returncode == 0, added.stderr
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").write_text(PROGRAM)
    for name in ("rule-one", "rule-two"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(
            f"""
metadata: {{name: {name}}}
spec:
  code: {tmp_path}/code
  command: [{Shell.command()[0]}, train.py]
  resources: {{cpu: 100m, memory: 256Mi}}
  checkpoints: {{to: s3://bucket/run, store: kept, keep: 2, every: 1h}}
"""
        )
        done = shell.run("submit", "-f", str(file), "--wait")
        assert done.returncode == 0, done.stderr + shell.run("logs", name).stdout
    assert shell.out("logs", "rule-one").splitlines()[-1] == "from the beginning False"
    assert shell.out("logs", "rule-two").splitlines()[-1] == "from 4 False"
    commits = sorted(path.parent.name for path in (s3.folder / "bucket/run").glob("step-*/commit.json"))
    assert commits[-1] == "step-000000000008.1"
    assert len(commits) <= 2
    spec = json.loads(shell.out("get", "rule-two", "-o", "json"))["spec"]
    assert spec["checkpoints"] == {"to": "s3://bucket/run", "store": "kept", "keep": 2, "every": "1h"}
    assert keys.secret not in shell.out("get", "rule-two", "-o", "yaml")
