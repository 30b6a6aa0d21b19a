"""One rank of PyTorch's side of ddp.py: the same model, batch and optimizer with DistributedDataParallel over gloo.

Identity comes from the environment that torchrun would set; arguments are key=value as for bench_ddp_rank.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torchvision

args = dict(arg.split("=", 1) for arg in sys.argv[1:])
rank, size = int(args.get("rank", 0)), int(args.get("size", 1))
batch, classes = int(args["batch"]), int(args.get("classes", 10))
shape = [int(part) for part in args["shape"].split(",")]
torch.set_num_threads(int(args["threads"]))
torch.manual_seed(1)


def small_cnn():
    """As yoke/models/zoo/small_cnn.cc."""
    nn = torch.nn
    side = (shape[1] + 3) // 4
    return nn.Sequential(nn.Conv2d(shape[0], 16, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
                         nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(True),
                         nn.Flatten(), nn.Linear(32 * side * side, 128), nn.ReLU(True), nn.Linear(128, classes))


model = small_cnn() if args["model"] == "small_cnn" else getattr(torchvision.models, args["model"])(
    weights=None, num_classes=classes)
if size > 1:
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ["MASTER_PORT"] = args["port"]
    dist.init_process_group("gloo", rank=rank, world_size=size)
    model = torch.nn.parallel.DistributedDataParallel(model)
# What torch users write; decay on everything, as is usual there.
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
data = torch.randn(1024, *shape) if len(shape) == 1 or shape[-1] <= 64 else torch.randn(64, *shape)
targets = torch.randint(0, classes, (data.shape[0],))
loss_of = torch.nn.CrossEntropyLoss()
model.train()
seconds, loss = [], None
for step in range(int(args["steps"])):
    begin = time.perf_counter()
    at = (step * batch) % (data.shape[0] - batch + 1)
    x, y = data[at:at + batch].clone(), targets[at:at + batch].clone()
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(model(x), y)
    loss.backward()
    optimizer.step()
    loss = loss.item()
    seconds.append(time.perf_counter() - begin)
print(json.dumps({"seconds": seconds, "loss": loss}), flush=True)
if size > 1:
    dist.barrier()
    dist.destroy_process_group()
