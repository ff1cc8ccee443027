"""A service inside a program that ends without a word: nothing of it may stay behind."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gangline import Client
from gangline.errors import InvalidInputError
from tools.cluster.processes import wait_until

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


THREADED = """
import threading
import gangline
from gangline.model import JobSpec, Resources, RoleName, RoleSpec

client = gangline.Client.embedded()

def late():
    threading.main_thread().join()
    role = RoleSpec(name=RoleName("worker"), command=("true",), resources=Resources(cpu_millis=10))
    client.submit(JobSpec(name="late", roles=(role,)))
    print(client.wait("late").phase)

threading.Thread(target=late).start()
"""


def test_a_thread_that_outlives_the_main_one_still_has_its_service() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", THREADED], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "COMPLETED\n", "")


FORKING = """
import os, sys
import gangline
from gangline.model import JobSpec, Resources, RoleName, RoleSpec, Tenant

command = ("sh", "-c", "echo $$; exec sleep 1000")
role = RoleSpec(name=RoleName("worker"), command=command, resources=Resources(cpu_millis=10))
with gangline.Client.embedded(tenant="blue") as client:
    client.submit(JobSpec(name="own", roles=(role,)))
    client.submit(JobSpec(name="foreign", roles=(role,), tenant=Tenant("red")))
    red = gangline.Client(client.address, tenant="red")
    processes = [next(each.logs(job, follow=True)).text for each, job in ((client, "own"), (red, "foreign"))]
    child = os.fork()
    if child == 0:
        sys.exit(0)
    os.waitpid(child, 0)
    assert not client.get("own").deleting, "a child that leaves the block does not close its parent's service"
    print(*processes, client.address.removeprefix("unix:"))
"""


def test_a_forked_child_leaves_the_service_alone_and_closing_it_ends_the_jobs_of_every_tenant() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    *processes, socket = done.stdout.split()
    assert [process for process in processes if Path("/proc", process).exists()] == []
    assert not Path(socket).parent.parent.exists()


KILLED = """
import os, signal
import gangline
from gangline.model import JobSpec, Resources, RoleName, RoleSpec

command = ("sh", "-c", "echo $$; exec sleep 1000")
role = RoleSpec(name=RoleName("worker"), command=command, resources=Resources(cpu_millis=10))
client = gangline.Client.embedded()
client.submit(JobSpec(name="abandoned", roles=(role,)))
print(next(client.logs("abandoned", follow=True)).text, client.address.removeprefix("unix:"), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_program_ran_ends_too() -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    process, socket = done.stdout.split()
    gone = (Path("/proc", process), Path(socket).parent.parent)
    assert wait_until(lambda: not any(path.exists() for path in gone), seconds=120)


def test_a_machine_is_not_divided_into_no_nodes() -> None:
    with pytest.raises(InvalidInputError, match="nodes: 0 does not fit"):
        Client.embedded(nodes=0)
