"""How fast the parameter server is, beside what its transport can do at all, measured in the same run.

    [GANGLINE_ENCRYPT=1] python bench/ps_throughput.py [--megabytes 100] [--seconds 3]

Large model: push + apply (SGD) + pull by one worker of one server, over shared memory and over loopback TCP. The raw
limit moves the same bytes between two processes the same way and does nothing with them; over shared memory it copies
as often as our exchange could at best, which ours may exceed because it overlaps the two directions. Both are the
best of several rounds, taken in turns, because other work on the machine only ever makes them slower. Small model:
round trips of a 4 KB model with several pipelined clients, and what they cost in processor time of the server, which
says what a processor of its own would carry. Scaling: the large exchange with 1, 2 and 4 servers.
"""

import argparse
import json
import mmap
import multiprocessing
import os
import socket
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from gangline import ps, runtime
from gangline.ps.protocol import messages as m
from gangline.ps.protocol.authentication import Credentials
from gangline.ps.protocol.link import RemoteLink
from gangline.ps.server.loop import Server

# Forked before any thread exists; the children inherit the loaded modules and start at once.
context = multiprocessing.get_context("fork")


secret_file = tempfile.NamedTemporaryFile(prefix="ps-bench-")  # noqa: SIM115  # for as long as this program runs
secret_file.write(os.urandom(32).hex().encode())
secret_file.flush()
# Here and not in `replica` alone: processes that a benchmark starts find it too.
os.environ["GANGLINE_SECRET_FILE"] = secret_file.name


def credentials():
    return Credentials.of(runtime.current())


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def serve(address, servers, ready):
    server = Server(
        address, servers=servers, settings=ps.Settings(), job="bench", directory=None, credentials=credentials()
    )
    ready.set()
    server.run(runtime.stopping)


@contextmanager
def servers(number):
    addresses = tuple(free_address() for _ in range(number))
    started = []
    for address in addresses:
        ready = context.Event()
        process = context.Process(target=serve, args=(address, addresses, ready))
        process.start()
        ready.wait(10)
        started.append(process)
    try:
        yield addresses, [process.pid for process in started]
    finally:
        for process in started:
            process.terminate()
            process.join()


def replica(addresses, index=0):
    return runtime.current({
        "GANGLINE_SECRET_FILE": secret_file.name, "GANGLINE_ENCRYPT": os.environ.get("GANGLINE_ENCRYPT", "0"),
        "GANGLINE_ROLE": "worker", "GANGLINE_INDEX": str(index), "GANGLINE_JOB_ID": "bench",
        "GANGLINE_CLUSTER": json.dumps({"ps": list(addresses)}),
    })  # fmt: skip


def model_of(nbytes):
    """Eight tensors of equal size."""
    return {f"layer{number}": np.zeros(nbytes // 32, np.float32) for number in range(8)}


def exchange_seconds(addresses, nbytes, rounds, *, shared_memory):
    model = model_of(nbytes)
    gradients = {name: np.full_like(value, 0.5) for name, value in model.items()}
    with ps.connect(model, replica=replica(addresses), shared_memory=shared_memory) as session:
        times = []
        for _ in range(rounds + 2):
            began = time.perf_counter()
            session.push_pull(gradients)
            times.append(time.perf_counter() - began)
    return min(times[2:])


def raw_tcp_server(listener, nbytes):
    connection, _ = listener.accept()
    buffer = memoryview(np.zeros(nbytes, np.uint8))
    while read_whole(connection, buffer):
        connection.sendall(buffer)


def read_whole(sock, buffer):
    filled = 0
    while filled < len(buffer):
        size = sock.recv_into(buffer[filled:])
        if not size:
            return False
        filled += size
    return True


def raw_tcp_seconds(nbytes, rounds):
    listener = socket.create_server(("127.0.0.1", 0))
    process = context.Process(target=raw_tcp_server, args=(listener, nbytes))
    process.start()
    out, back = memoryview(np.ones(nbytes, np.uint8)), memoryview(np.zeros(nbytes, np.uint8))
    times = []
    with socket.create_connection(listener.getsockname()) as sock:
        for _ in range(rounds + 2):
            began = time.perf_counter()
            sock.sendall(out)
            read_whole(sock, back)
            times.append(time.perf_counter() - began)
    process.join()
    return min(times[2:])


def raw_shared_server(sock, memory, nbytes):
    private = np.ones(nbytes, np.uint8)
    whole = np.frombuffer(memory, np.uint8)
    while sock.recv(1):
        np.copyto(private, whole[:nbytes])
        np.copyto(whole[nbytes:], private)
        sock.send(b"x")


def raw_shared_seconds(nbytes, rounds):
    """Four copies: into the shared memory and out of it, there and back."""
    memory = mmap.mmap(-1, 2 * nbytes)
    here, there = socket.socketpair()
    process = context.Process(target=raw_shared_server, args=(there, memory, nbytes))
    process.start()
    there.close()
    whole = np.frombuffer(memory, np.uint8)
    out, back = np.ones(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
    times = []
    for _ in range(rounds + 2):
        began = time.perf_counter()
        np.copyto(whole[:nbytes], out)
        here.send(b"x")
        here.recv(1)
        np.copyto(back, whole[nbytes:])
        times.append(time.perf_counter() - began)
    here.close()
    process.terminate()
    process.join()
    return min(times[2:])


def small_client(address, number, seconds, depth, total):
    """Push and pull one 4 KB block, `depth` requests under way at a time."""
    link = RemoteLink(address, job="bench", sender=f"client-{number}", credentials=credentials())
    payload = memoryview(np.zeros(1024, np.float32)).cast("B")
    target = memoryview(bytearray(4096))
    sequence = done = 0
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        for _ in range(depth):
            sequence += 1
            link.send(m.Push(f"client-{number}", 1, sequence, sequence, 1, (0,), (0,), pull=True), [payload])
        for _ in range(depth):
            link.receive([target])
        done += depth
    link.close()
    with total.get_lock():
        total.value += done


def small_round_trips(seconds, clients, depth):
    model = {"w": np.zeros(1024, np.float32)}
    with servers(1) as (addresses, pids), ps.connect(model, replica=replica(addresses)) as session:
        session.pull()
        spent = processor_seconds(pids[0])
        total = context.Value("l", 0)
        processes = [
            context.Process(target=small_client, args=(addresses[0], number, seconds, depth, total))
            for number in range(clients)
        ]
        began = time.perf_counter()
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        wall = time.perf_counter() - began
        return total.value / wall, total.value / (processor_seconds(pids[0]) - spent)


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def echo_server(listener):
    connection, _ = listener.accept()
    while data := connection.recv(65536):
        connection.sendall(data)


def raw_small_round_trips(seconds):
    """One byte there and back, one at a time: what the system's sockets and Python allow."""
    listener = socket.create_server(("127.0.0.1", 0))
    process = context.Process(target=echo_server, args=(listener,))
    process.start()
    done = 0
    with socket.create_connection(listener.getsockname()) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            sock.sendall(b"x")
            sock.recv(1)
            done += 1
    process.join()
    return done / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    nbytes = options.megabytes * 1_000_000 // 32 * 32
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, model of {options.megabytes} MB")
    for transport, raw_seconds in (("shared memory", raw_shared_seconds), ("tcp", raw_tcp_seconds)):
        raw, ours = [], []
        for _ in range(options.turns):
            raw.append(raw_seconds(nbytes, options.rounds))
            with servers(1) as (addresses, _):
                ours.append(exchange_seconds(addresses, nbytes, options.rounds, shared_memory=transport != "tcp"))
        share = f"{min(raw) / min(ours):.0%} of the limit"
        print(f"{transport:14} push+apply+pull {min(ours) * 1e3:6.1f} ms, raw {min(raw) * 1e3:6.1f} ms: {share}")
    for clients, depth in ((1, 1), (2, 16), (4, 16)):
        rate, by_processor = small_round_trips(options.seconds, clients, depth)
        print(
            f"small model    {rate:8,.0f} round trips/s with {clients} clients, {depth} under way each;"
            f" {by_processor:,.0f} per second of the server's processor time"
        )
    print(f"raw            {raw_small_round_trips(options.seconds):8,.0f} one-byte round trips/s, one at a time")
    baseline = None
    for number in (1, 2, 4):
        with servers(number) as (addresses, _):
            ours = exchange_seconds(addresses, nbytes, options.rounds, shared_memory=True)
        baseline = baseline or ours
        print(f"{number} servers      {ours * 1e3:6.1f} ms, {baseline / ours:.2f} x one server")


if __name__ == "__main__":
    main()
