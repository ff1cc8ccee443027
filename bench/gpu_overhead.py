"""What the platform costs a torch training loop on a GPU: the same program bare and as a job, turn by turn.

    python bench/gpu_overhead.py [ROUNDS]

Needs an NVIDIA GPU and torch. Prints the ratio of the medians, and shows that a GPU is handed out exclusively: a
second job waits until the first has ended.
"""

import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

from gangline import Client
from gangline.model import JobSpec, Phase, Resources, RoleName, RoleSpec

PROGRAM = """
import os, time, torch
assert torch.cuda.device_count() == 1, torch.cuda.device_count()
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data = torch.randn(4096, 4096, device="cuda")
def step():
    optimizer.zero_grad()
    loss = model(data).square().mean()
    loss.backward()
    optimizer.step()
for _ in range(5):
    step()
torch.cuda.synchronize()
began = time.perf_counter()
for _ in range(150):
    step()
torch.cuda.synchronize()
print(f"LOOP {time.perf_counter() - began:.6f} devices={os.environ.get('CUDA_VISIBLE_DEVICES')}", flush=True)
"""


def loop_seconds(output: str) -> float:
    return float(next(line.split()[1] for line in output.splitlines() if line.startswith("LOOP")))


def bare(program: Path) -> tuple[float, float]:
    began = time.perf_counter()
    output = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True).stdout
    return time.perf_counter() - began, loop_seconds(output)


def job_of(name: str, *command: str) -> JobSpec:
    role = RoleSpec(
        name=RoleName("worker"),
        command=command,
        resources=Resources(cpu_millis=4000, memory_mib=16384, gpu_millis=1000),
    )
    return JobSpec(name=name, roles=(role,))


def as_job(client: Client, program: Path, number: int) -> tuple[float, float]:
    job = client.submit(job_of(f"train-{number}", sys.executable, str(program)))
    job = client.wait(job.name)
    output = "\n".join(line.text for line in client.logs(job.name))
    assert job.phase is Phase.COMPLETED, output
    (replica,) = job.replicas
    return replica.finished_at - replica.started_at, loop_seconds(output)


def show_exclusive_hand_out(client: Client) -> None:
    devices = int(sum(node.capacity.gpus for node in client.nodes()))
    print(f"GPUs found: {devices}")
    holders = [client.submit(job_of(f"holder-{n}", "sleep", "600")) for n in range(devices)]
    for holder in holders:
        client.wait(holder.name, phases=[Phase.PROCESSING], timeout=60)
    waiter = client.submit(job_of("waiter", "true"))
    time.sleep(1)
    print(f"with every GPU taken, another job is {client.get(waiter.name).phase}")
    for node in client.top_nodes():
        print(f"top node: {node}")
    for holder in holders:
        client.delete(holder.name)
    print(f"when they are free again it is {client.wait(waiter.name, timeout=60).phase}")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as directory, Client.embedded() as client:
        program = Path(directory) / "loop.py"
        program.write_text(textwrap.dedent(PROGRAM))
        show_exclusive_hand_out(client)
        bare(program)
        pairs = [(bare(program), as_job(client, program, number)) for number in range(rounds)]
    for index, what in enumerate(("whole program", "training loop")):
        plain = statistics.median(pair[0][index] for pair in pairs)
        managed = statistics.median(pair[1][index] for pair in pairs)
        print(f"{what}: bare {plain:.3f} s, as a job {managed:.3f} s, ratio {managed / plain:.4f}")


if __name__ == "__main__":
    main()
