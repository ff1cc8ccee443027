"""A training with parameter servers is halted and resumed: every example counts once, on real processes."""

import sys
from pathlib import Path

from gangline.model import Phase, Resources
from gangline.sdk import Client
from gangline.testing.builders import make_role, make_spec

EXAMPLES, HALFWAY = 12, 5
TRAIN = f"""
import pathlib, sys, time
import numpy as np
from gangline import ps, runtime

halted = pathlib.Path(sys.argv[1])
with ps.connect({{"w": np.zeros(3)}}, settings=ps.Settings(learning_rate=1.0)) as session:
    for shard in session.shards(examples={EXAMPLES}, size=1, epochs=1):
        for _ in shard.batches(1):
            session.push_pull({{"w": np.ones(3)}})
        if session.parameters["w"][0] == -{HALFWAY}:
            print("halfway", flush=True)
            while not halted.exists() and not runtime.stopping():
                time.sleep(0.02)
    if not runtime.stopping():
        session.pull()
        print("counted", -int(session.parameters["w"][0]), flush=True)
"""
SMALL = Resources(cpu_millis=100)


def test_a_halted_training_goes_on_where_it_was_with_servers_at_other_addresses(tmp_path: Path) -> None:
    halted = tmp_path / "halted"
    servers = make_role("ps", replicas=2, command=(sys.executable, "-m", "gangline.ps"), resources=SMALL)
    worker = make_role("worker", command=(sys.executable, "-c", TRAIN, str(halted)), resources=SMALL)
    with Client.embedded(home=tmp_path / "home") as client:
        job = client.submit(make_spec("halted", roles=(servers, worker)))
        assert next(line.text for line in client.logs(job.id, follow=True, role="worker")) == "halfway"
        client.halt(job.id)
        client.wait(job.id, phases={Phase.HALTED}, timeout=60)
        halted.touch()
        client.resume(job.id)
        ended = client.wait(job.id, timeout=60)
        told = [line.text for line in client.logs(job.id, role="worker", attempt=ended.attempt)]
        client.delete(job.id)

    assert (ended.phase, told) == (Phase.COMPLETED, [f"counted {EXAMPLES}"])
