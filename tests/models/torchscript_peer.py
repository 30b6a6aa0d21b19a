"""TorchScript files and what python makes of them: torchscript_peer.py FOLDER."""
import sys

import torch
from torch import nn

import peer


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 12), nn.BatchNorm1d(12), nn.ReLU(inplace=True))
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        x = x.flatten(1)
        return self.head(x + self.body(x))


def sequential():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Flatten(),
        nn.Linear(32, 16), nn.Dropout(0.0), nn.ReLU(inplace=True), nn.Linear(16, 5))


folder = sys.argv[1]
torch.set_num_threads(1)
torch.manual_seed(7)
image = torch.randn(6, 3, 4, 4)
targets = torch.tensor([0, 1, 2, 3, 4, 0])
model = sequential()
torch.jit.script(model).save(f"{folder}/scripted.ts")
torch.save(peer.run_both(model, image, targets), f"{folder}/scripted.pt")
torch.save(model.state_dict(), f"{folder}/state_dict.pth")

model = sequential()
with torch.no_grad():
    model(image)  # statistics other than the initial ones
model.eval()
torch.jit.trace(model, image).save(f"{folder}/traced.ts")
torch.save(peer.run_both(model, image, targets), f"{folder}/traced.pt")

model = Residual()
torch.jit.script(model).save(f"{folder}/residual.ts")
torch.save(peer.run_both(model, torch.randn(6, 3, 4), targets), f"{folder}/residual.pt")
