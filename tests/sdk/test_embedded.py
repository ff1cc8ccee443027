"""A service inside a program that ends without a word: nothing of it may stay behind."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import multiprocessing
import gangline
from gangline.model import JobSpec, Resources, RoleName, RoleSpec

client = gangline.Client.embedded()
command = ("sh", "-c", "echo $$; exec sleep 1000")
role = RoleSpec(name=RoleName("worker"), command=command, resources=Resources(cpu_millis=10))
client.submit(JobSpec(name="forgotten", roles=(role,)))
process = next(client.logs("forgotten", follow=True)).text
child = multiprocessing.get_context("fork").Process(target=int)
child.start()
child.join()
assert child.exitcode == 0
assert not client.get("forgotten").deleting, "the end of a child is not the end of the program"
print(process, client.address.removeprefix("unix:"))
"""


def test_what_a_forgotten_client_runs_ends_with_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    process, socket = done.stdout.split()
    assert not Path("/proc", process).exists()
    assert not Path(socket).parent.parent.exists()
