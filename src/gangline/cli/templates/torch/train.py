"""Fit a line with DistributedDataParallel. Gangline sets MASTER_ADDR, RANK and WORLD_SIZE; alone it trains alone."""

import os

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from gangline import runtime

EPOCHS = 20

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29500")
rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
cuda = torch.cuda.is_available()
device = torch.device("cuda:0" if cuda else "cpu")
distributed.init_process_group("nccl" if cuda else "gloo", rank=rank, world_size=world)

torch.manual_seed(0)
inputs = torch.linspace(-1, 1, 1024).reshape(-1, 1)
outputs = 3 * inputs + 1
data = torch.utils.data.TensorDataset(inputs, outputs)
sampler = torch.utils.data.DistributedSampler(data)
batches = torch.utils.data.DataLoader(data, batch_size=64, sampler=sampler)
model = DistributedDataParallel(nn.Linear(1, 1).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
checkpoints = runtime.Checkpoints(runtime.current().checkpoint_directory)
start = 0
if (saved := checkpoints.latest()) is not None:
    state = torch.load(saved.path / "model.pt", map_location=device)
    model.module.load_state_dict(state)
    start = saved.step + 1

for epoch in range(start, EPOCHS):
    sampler.set_epoch(epoch)
    for batch, wanted in batches:
        loss = nn.functional.mse_loss(model(batch.to(device)), wanted.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    runtime.report(step=epoch, total_steps=EPOCHS, loss=loss.item())
    if rank == 0:
        checkpoints.save(epoch, lambda folder: torch.save(model.module.state_dict(), folder / "model.pt"))
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)
    if runtime.stopping():
        break
distributed.destroy_process_group()
