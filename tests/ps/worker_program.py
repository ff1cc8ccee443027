"""A worker as a process of its own, for tests that kill it: notes every batch it has trained on, then pushes ones.

Given a fourth argument, it goes on after its first batch when a file of that name exists.
"""

import sys
import threading
from pathlib import Path

import numpy as np

from gangline import ps

notes, examples, epochs = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
go_on = Path(sys.argv[4]) if len(sys.argv) > 4 else None
ones = {"w": np.ones(50, np.float32)}
with ps.connect({"w": np.zeros(50, np.float32)}) as session:
    for shard in session.shards(examples=examples, size=20, epochs=epochs):
        for batch in shard.batches(5):
            session.push_pull(ones)
            with notes.open("a") as file:
                file.write(" ".join(f"{shard.epoch}:{index}" for index in batch) + "\n")
            while go_on and not go_on.exists():
                threading.Event().wait(0.01)
