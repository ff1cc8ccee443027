"""MNIST with PyTorch's DistributedDataParallel over gloo, started by torchrun, which reads PET_* from the PyTorchJob.

Goes on from the last epoch's checkpoint: torchrun restarts all processes when one of them is lost or joins.
"""

import gzip
import os
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
from torch import distributed, nn

BATCH, EPOCHS, TARGET = 100, 3, 0.95  # examples per process and step


def load(kind):
    """Images as rows between 0 and 1, and their labels."""
    folder = Path(os.environ["DATA_DIR"])
    with gzip.open(folder / f"{kind}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784).astype(np.float32) / 255
    with gzip.open(folder / f"{kind}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8).astype(np.int64)
    return torch.from_numpy(images), torch.from_numpy(labels)


def save(checkpoint, model, epoch):
    """Whole or not at all: a process that is killed while it writes leaves the last one as it was."""
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    draft = checkpoint.with_suffix(".part")
    torch.save({"model": model.state_dict(), "epoch": epoch}, draft)
    draft.replace(checkpoint)


def accuracy_of(model, images, labels):
    with torch.no_grad():
        return (model(images).argmax(dim=1) == labels).float().mean().item()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    # A peer that was lost meanwhile is missed after a minute, not after half an hour; torchrun then starts all again.
    distributed.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank, size = distributed.get_rank(), distributed.get_world_size()
    network = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    checkpoint, begin = Path(os.environ["CHECKPOINT_DIR"]) / "mnist.pt", 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        network.load_state_dict(saved["model"])
        begin = saved["epoch"]
    model = nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    images, labels = load("train")
    test_images, test_labels = load("t10k")
    for epoch in range(begin, EPOCHS):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))[rank::size]
        print(f"rank {rank} of {size} begins epoch {epoch + 1}, process {os.getpid()}", flush=True)
        for batch in order[: len(labels) // size].split(BATCH):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
        if rank == 0:
            save(checkpoint, network, epoch + 1)
        distributed.barrier()
    accuracy = accuracy_of(network, test_images, test_labels)
    print(f"rank {rank} of {size}: accuracy {accuracy:.4f}", flush=True)
    distributed.destroy_process_group()
    sys.exit(accuracy < TARGET)


if __name__ == "__main__":
    main()
