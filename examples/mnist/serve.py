"""From training to an address: train, register, serve, send every test digit; train better, promote, watch.

    python serve.py --data ../../data/mnist

The answers of the service must be as good as what the training measured, and no request may fail while the second model
takes over from the first.
"""

import argparse
import json
import sys
import threading
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import numpy as np
from chaos import with_epochs
from train import load as load_digits
from train import normalise

import gangline
from gangline.model import DataMove
from gangline.model.kinds.service import ReplicaRange, RolloutRules, ServiceSpec

HERE = Path(__file__).resolve().parent
MODEL = "mnist-served"
ROWS = 500


def train(client, data, epochs, name):
    """Train with the example's own job file; what it leaves becomes the next version of the model."""
    job = gangline.load(HERE / "job.yaml")
    roles = tuple(replace(role, command=with_epochs(role.command, epochs)) for role in job.roles)
    inputs = (DataMove(str(data.resolve()), "$DATA_DIR"),)
    outputs = (DataMove("$RESULT_DIR/model", f"model://{MODEL}"),)
    client.submit(replace(job, name=name, roles=roles, inputs=inputs, outputs=outputs))
    done = client.wait(name)
    if done.phase != "COMPLETED":
        raise SystemExit(f"{name}: {done.phase} {done.message}")
    accuracy = next(each.value for each in client.latest_metrics(name) if each.name == "accuracy")
    return client.models.get(MODEL).status.versions[-1].number, accuracy


def ask(address, images):
    """Send rows as one binary tensor of the Open Inference Protocol; returns the digit of each."""
    rows = np.ascontiguousarray(normalise(images), np.float32)
    size = {"parameters": {"binary_data_size": rows.nbytes}}
    tensor = {"name": "input", "shape": list(rows.shape), "datatype": "FP32", **size}
    head = json.dumps({"inputs": [tensor]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
    request = urllib.request.Request(f"{address}/v2/models/digits/infer", head + rows.tobytes(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        scores = json.load(answer)["outputs"][0]
    return np.array(scores["data"]).reshape(scores["shape"]).argmax(axis=1)


def accuracy_of(address, images, labels):
    found = np.concatenate([ask(address, images[at : at + ROWS]) for at in range(0, len(images), ROWS)])
    return float((found == labels).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "data" / "mnist")
    parser.add_argument("--epochs", type=int, nargs=2, default=(1, 5), help="of the first and of the better training")
    parser.add_argument("--pause", type=float, default=5.0, help="seconds that each step of the rollout lasts")
    options = parser.parse_args()
    client, mark = gangline.Client(), time.strftime("%H%M%S")
    images, labels = load_digits(options.data, "t10k")

    first, trained = train(client, options.data, options.epochs[0], f"{MODEL}-{mark}-a")
    client.models.promote(MODEL, first, "production")
    rollout = RolloutRules(steps=(20, 50), pause_seconds=options.pause)
    replicas = ReplicaRange(min=1, max=2)
    client.services.create(
        ServiceSpec(name="digits", model=f"model://{MODEL}@production", replicas=replicas, rollout=rollout)
    )
    try:
        address = client.services.wait_ready("digits", timeout=120).status.address
        served = accuracy_of(address, images, labels)
        print(f"version {first}: accuracy {trained:.4f} in training, {served:.4f} at {address}", flush=True)
        good = abs(served - trained) < 0.0005

        second, better = train(client, options.data, options.epochs[1], f"{MODEL}-{mark}-b")
        failed, over = [], threading.Event()

        def keep_asking():
            while not over.is_set():
                try:
                    ask(address, images[:20])
                except OSError as error:
                    failed.append(error)
                over.wait(0.05)

        asking = threading.Thread(target=keep_asking)
        asking.start()
        try:
            client.models.promote(MODEL, second, "production")
            told = 0
            for service in client.services.watch("digits", timeout=300):
                for event in service.status.events[told:]:
                    print(f"{event.reason}: {event.message}", flush=True)
                told = len(service.status.events)
                if service.status.last_number == 2 and service.status.rollout is None:
                    break
        finally:
            over.set()
            asking.join()
        served = accuracy_of(address, images, labels)
        print(
            f"version {second}: accuracy {better:.4f} in training, {served:.4f} served; {len(failed)} requests failed"
        )
        return 0 if good and abs(served - better) < 0.0005 and not failed else 1
    finally:
        client.services.delete("digits")


if __name__ == "__main__":
    sys.exit(main())
