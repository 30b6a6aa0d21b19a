"""torchvision's models on known weights: torchvision_peer.py FOLDER MODEL... writes FOLDER/MODEL.pt for each.

Weights are not written, only their names and shapes: both sides fill the i-th tensor of the state dict from a generator
seeded with i, by the rule of fill().
"""
import sys

import torch
import torchvision

import peer


def fill(state):
    for index, (name, tensor) in enumerate(state.items()):
        generator = torch.Generator().manual_seed(index)
        if name.endswith("num_batches_tracked"):
            tensor.fill_(index)
        elif name.endswith("running_var"):
            tensor.uniform_(0.5, 1.5, generator=generator)
        elif name.endswith("running_mean"):
            tensor.uniform_(-0.2, 0.2, generator=generator)
        elif tensor.dim() > 1:
            bound = (6 / tensor[0].numel()) ** 0.5
            # Drawing 100 million numbers takes long: large tensors repeat some, with a period that fits no row.
            parts = tensor.flatten().split(999983)
            parts[0].uniform_(-bound, bound, generator=generator)
            for part in parts[1:]:
                part.copy_(parts[0][:part.numel()])
        elif name.endswith("weight"):
            tensor.uniform_(0.8, 1.2, generator=generator)
        else:
            tensor.uniform_(-0.1, 0.1, generator=generator)


torch.set_num_threads(1)
for name in ("kaiming_uniform_", "kaiming_normal_", "uniform_", "normal_"):
    setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)  # slow, and fill() comes after it
for name in sys.argv[2:]:
    model = getattr(torchvision.models, name)(num_classes=7)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    state = model.state_dict()
    fill(state)
    generator = torch.Generator().manual_seed(1000)
    x = torch.randn(2, 3, 64, 64, generator=generator)
    into = peer.run_both(model, x, torch.tensor([3, 5]))
    into.update({"shape/" + key: torch.tensor(tensor.shape, dtype=torch.int64) for key, tensor in state.items()})
    torch.save(into, f"{sys.argv[1]}/{name}.pt")
