"""How long a training loop stands still for a checkpoint: ``WriteBehind`` beside ``torch.save`` to the same disk.

    python bench/checkpoint_stall.py [--gigabytes N] [--every SECONDS] [--saves N] [--device cpu|cuda]

A state of 2 GB in tensors of 64 MB is saved every so often. The stall is the time of the call that saves; the first one
of each, in which buffers and files are made, is told apart. Needs PyTorch; a GPU if there is one.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import torch

from gangline.runtime import Checkpoints, WriteBehind


def work(state: dict[str, torch.Tensor], seconds: float) -> int:
    """Train, as far as memory is concerned: change the state for a while."""
    end, steps = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        for tensor in state.values():
            tensor.add_(1)
        steps += 1
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return steps


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--every", type=float, default=20.0)
    parser.add_argument("--saves", type=int, default=4)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    count = max(1, int(given.gigabytes * 1e9 / 64e6))
    state = {f"layer-{number}": torch.zeros(16_000_000, device=given.device) for number in range(count)}
    with tempfile.TemporaryDirectory() as directory:
        behind = WriteBehind(Checkpoints(Path(directory) / "behind", keep=1))
        ways = {
            "torch.save": lambda step: torch.save(state, Path(directory) / "state.pt"),
            "WriteBehind": lambda step: behind.save(step, state),
        }
        stalls: dict[str, list[float]] = {}
        for way, save in ways.items():
            for step in range(given.saves):
                work(state, given.every)
                begin = time.perf_counter()
                save(step)
                stalls.setdefault(way, []).append(time.perf_counter() - begin)
        behind.wait()
    print(f"{given.device}, {count * 64e6 / 1e9:g} GB, load {os.getloadavg()[0]:.1f}")
    for way, times in stalls.items():
        later = ", ".join(f"{seconds:.2f}" for seconds in times[1:])
        print(f"{way:12} first {times[0]:.2f} s, then {later} s")
    usual = {way: sorted(times[1:])[len(times[1:]) // 2] for way, times in stalls.items()}
    print(f"stall, the middle one of those after the first: {usual['WriteBehind'] / usual['torch.save']:.1%}")


if __name__ == "__main__":
    main()
