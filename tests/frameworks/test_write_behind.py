"""A state of real torch tensors, saved behind a training's back."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.frameworks.conftest import PROJECT
from tools.frameworks import frameworks_python

pytestmark = pytest.mark.frameworks

PROGRAM = """
import sys, torch
from gangline.runtime import Checkpoints, WriteBehind, load_state
checkpoints = Checkpoints(sys.argv[1], to=sys.argv[2])
model = torch.nn.Linear(3, 2)
optimizer = torch.optim.Adam(model.parameters())
behind = WriteBehind(checkpoints)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    behind.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step})
    saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        model.weight.fill_(7)
behind.wait()
found = Checkpoints(sys.argv[3], to=sys.argv[2]).latest()
state = load_state(found.path)
assert state["step"] == found.step == 2
assert all(torch.equal(state["model"][name], tensor) for name, tensor in saved.items())
other = torch.nn.Linear(3, 2)
other.load_state_dict(state["model"])
torch.optim.Adam(other.parameters()).load_state_dict(state["optimizer"])
print("as saved")
"""


def test_a_torch_state_comes_back_on_another_machine_as_it_was_when_it_was_saved(tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in ("here", "shared", "there")]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "src")}
    command = [str(frameworks_python()), "-c", PROGRAM, *folders]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "as saved\n", done.stderr
