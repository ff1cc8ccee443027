"""The parameter server's exchange beside the same exchange with PyTorch and TensorFlow, in one run.

    python bench/ps_others.py [--megabytes 100] [--rounds 10] [--turns 3]

One worker, one server, loopback. Large model: push + apply (SGD) + pull of eight tensors. Small model: 4 KB, one
round trip at a time, through a whole `session.push_pull` (bench/ps_throughput.py: through the protocol alone).
Everybody applies the gradients on the server and sends the new values back; ours alone looks for NaN on both sides
and takes the gradient's norm, two more passes over the gradients. The best round counts, taken in turns, because
other work on the machine only ever makes a round slower. Runs in the environment of `make test-frameworks` (7 GB,
made once).
"""

import argparse
import os
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

LR = 0.01
SMALL_BYTES = 4096
SMALL_ROUNDS = 2000
# Every server is a fresh process: frameworks start threads, which a fork would lose.
processes = get_context("spawn")


def best(exchange, rounds):
    """Seconds of the fastest round after two that do not count."""
    times = []
    for _ in range(rounds + 2):
        began = time.perf_counter()
        exchange()
        times.append(time.perf_counter() - began)
    return min(times[2:])


def rate(exchange, rounds=SMALL_ROUNDS):
    exchange()
    began = time.perf_counter()
    for _ in range(rounds):
        exchange()
    return rounds / (time.perf_counter() - began)


def measure(exchange, nbytes, rounds):
    return rate(exchange) if nbytes == SMALL_BYTES else best(exchange, rounds)


def ours(nbytes, rounds, *, shared_memory):
    import numpy as np
    from ps_throughput import model_of, replica, servers

    from gangline import ps

    model = model_of(nbytes)
    gradients = {name: np.full_like(value, 0.5) for name, value in model.items()}
    with (
        servers(1) as (addresses, _),
        ps.connect(model, replica=replica(addresses), shared_memory=shared_memory) as session,
    ):
        return measure(lambda: session.push_pull(gradients), nbytes, rounds)


def torch_tensors(nbytes, value):
    import torch

    return [torch.full((nbytes // 32,), value) for _ in range(8)]


def join_gloo(rank, port):
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    return torch.distributed


def gloo_server(port, nbytes):
    import torch

    distributed = join_gloo(1, port)
    values, gradients, more = torch_tensors(nbytes, 0.0), torch_tensors(nbytes, 0.0), torch.ones(1)
    while distributed.recv(more, 0) is not None and more.item():
        for request in [distributed.irecv(gradient, 0) for gradient in gradients]:
            request.wait()
        for value, gradient in zip(values, gradients, strict=True):
            value.sub_(gradient, alpha=LR)
        for request in [distributed.isend(value, 0) for value in values]:
            request.wait()


def gloo(nbytes, rounds):
    import torch

    port = free_port()
    server = processes.Process(target=gloo_server, args=(port, nbytes))
    server.start()
    distributed = join_gloo(0, port)
    values, gradients = torch_tensors(nbytes, 0.0), torch_tensors(nbytes, 0.5)

    def exchange():
        distributed.send(torch.ones(1), 1)
        requests = [distributed.isend(gradient, 1) for gradient in gradients]
        requests += [distributed.irecv(value, 1) for value in values]
        for request in requests:
            request.wait()

    found = measure(exchange, nbytes, rounds)
    distributed.send(torch.zeros(1), 1)
    server.join()
    distributed.destroy_process_group()
    return found


VALUES = []


def rpc_apply(gradients):
    """On the server: apply, and answer with the values."""
    if not VALUES:
        VALUES.extend(gradient.clone().zero_() for gradient in gradients)
    for value, gradient in zip(VALUES, gradients, strict=True):
        value.sub_(gradient, alpha=LR)
    return VALUES


def join_rpc(name, rank, port):
    import torch
    from torch.distributed import rpc

    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}")
    rpc.init_rpc(name, rank=rank, world_size=2, rpc_backend_options=options)
    return rpc


def rpc_server(port):
    join_rpc("server", 1, port).shutdown()


def torch_rpc(nbytes, rounds):
    port = free_port()
    server = processes.Process(target=rpc_server, args=(port,))
    server.start()
    rpc = join_rpc("worker", 0, port)
    gradients = torch_tensors(nbytes, 0.5)
    found = measure(lambda: rpc.rpc_sync("server", rpc_apply, args=(gradients,)), nbytes, rounds)
    rpc.shutdown()
    server.join()
    return found


def tensorflow_server(port):
    import tensorflow as tf

    tf.distribute.Server({"ps": [f"127.0.0.1:{port}"]}, job_name="ps", task_index=0, protocol="grpc").join()


def tensorflow(nbytes, rounds):
    import tensorflow as tf

    port = free_port()
    server = processes.Process(target=tensorflow_server, args=(port,), daemon=True)
    server.start()
    cluster = {"ps": [f"127.0.0.1:{port}"], "worker": [f"127.0.0.1:{free_port()}"]}
    tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(cluster), job_name="worker", task_index=0)
    with tf.device("/job:ps/task:0"):
        values = [tf.Variable(tf.zeros(nbytes // 32)) for _ in range(8)]
    with tf.device("/job:worker/task:0"):
        gradients = [tf.fill([nbytes // 32], 0.5) for _ in range(8)]

    @tf.function
    def step(gradients):
        with tf.device("/job:ps/task:0"):
            updates = [value.assign_sub(LR * slope) for value, slope in zip(values, gradients, strict=True)]
        with tf.device("/job:worker/task:0"):
            return [tf.identity(update) for update in updates]

    found = measure(lambda: [value.numpy() for value in step(gradients)], nbytes, rounds)
    server.kill()
    return found


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


SYSTEMS = {
    "gangline, shared memory": lambda nbytes, rounds: ours(nbytes, rounds, shared_memory=True),
    "gangline, TCP": lambda nbytes, rounds: ours(nbytes, rounds, shared_memory=False),
    "PyTorch gloo, send and receive": gloo,
    "PyTorch RPC": torch_rpc,
    "TensorFlow, variables on a ps": tensorflow,
}


def measured_apart(name, nbytes, rounds):
    """One measurement in a process of its own: nobody inherits another framework's threads. None: it failed."""
    command = [sys.executable, __file__, "--only", name, "--bytes", str(nbytes), "--rounds", str(rounds)]
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False, timeout=300)
    if result.returncode:
        print(f"{name}: {result.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return float(result.stdout.split()[-1])


def compare(options):
    nbytes = options.megabytes * 1_000_000 // 32 * 32
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, model of {options.megabytes} MB, best round")
    large, small = {name: [] for name in SYSTEMS}, {name: [] for name in SYSTEMS}
    for _ in range(options.turns):
        for name in SYSTEMS:
            for found, size in ((large, nbytes), (small, SMALL_BYTES)):
                if (figure := measured_apart(name, size, options.rounds)) is not None:
                    found[name].append(figure)
    baseline = min(large["gangline, TCP"])
    for name in SYSTEMS:
        if not large[name] or not small[name]:
            print(f"{name:32} could not be measured")
            continue
        seconds, trips = min(large[name]), max(small[name])
        print(f"{name:32} {seconds * 1e3:7.1f} ms, {seconds / baseline:5.2f} x ours over TCP; {trips:7,.0f} small/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", choices=SYSTEMS, help=argparse.SUPPRESS)
    parser.add_argument("--bytes", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(SYSTEMS[options.only](options.bytes, options.rounds))
        return 0
    from tools.frameworks import frameworks_python

    python = frameworks_python()
    if Path(sys.executable) != python:
        return subprocess.run([python, __file__, *sys.argv[1:]], check=False).returncode
    compare(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
