"""One rank of PyTorch's gloo all-reduce, measured as bench_allreduce measures ours: allreduce_peer.py RANK SIZE FILE."""
import sys
import time

import torch
import torch.distributed as dist

rank, size, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=size)
for count in (4_096, 65_536, 1_048_576, 26_214_400, 104_857_600):
    data = torch.ones(count // 4)
    seconds = []
    for i in range(-3, min(300, max(5, 200_000_000 // count))):
        dist.barrier()
        begin = time.perf_counter()
        dist.all_reduce(data)
        took = time.perf_counter() - begin
        if i >= 0:
            seconds.append(took)
        data[:16] = 1
    slowest = torch.tensor(seconds)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(count, *("%.9f" % s for s in slowest.tolist()), flush=True)
dist.destroy_process_group()
