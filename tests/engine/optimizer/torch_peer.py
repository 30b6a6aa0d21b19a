"""Writes what torch.optim and torch's schedulers make of given gradients, for torch_peer_test.cc to compare with.

usage: torch_peer.py FOLDER

parameters.txt   a line for each parameter: name, dimensions, elements
weights.bin      the first weights, f32, parameters in that order
gradients.bin    the gradients of each step
<case>.bin       for each optimizer: the weights after each step, then the state after the last one, each tensor whole
rates.txt        for each schedule: its name and the rate of each epoch
torch.txt        the version

Ends with 77 where torch is absent.
"""
import sys

try:
    import numpy as np
    import torch
    from torch.optim import lr_scheduler
except ImportError:
    sys.exit(77)

STEPS = 50
PARAMETERS = [("conv.weight", (8, 3, 3, 3)), ("conv.bias", (8,)), ("norm.weight", (8,)), ("norm.bias", (8,)),
              ("wide.weight", (70, 61)), ("wide.bias", (61,)), ("head.weight", (3, 61)), ("head.bias", (3,))]


def without_decay(shape):
    return len(shape) <= 1


def first_weights(random):
    return [(random.standard_normal(shape) * 0.3).astype(np.float32) for _, shape in PARAMETERS]


def all_gradients(random):
    """Of many sizes, so that clipping matters for some elements and some steps and not for others."""
    steps = []
    for _ in range(STEPS):
        size = 10.0 ** random.uniform(-2, 0.5)
        steps.append([(size * random.standard_normal(shape) * 10.0 ** random.uniform(-3, 0.5, shape)).astype(np.float32)
                      for _, shape in PARAMETERS])
    return steps


def flat(arrays):
    return np.concatenate([np.asarray(array, dtype=np.float32).reshape(-1) for array in arrays])


def with_torch(make, weights, gradients, decay, decay_all=False, clip_norm=None, clip_value=None):
    parameters = [torch.nn.Parameter(torch.from_numpy(weight.copy())) for weight in weights]
    plain = [p for p in parameters if without_decay(p.shape) and not decay_all]
    other = [p for p in parameters if not (without_decay(p.shape) and not decay_all)]
    groups = [{"params": other, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}]
    optimizer = make([group for group in groups if group["params"]])
    rows = []
    for step in gradients:
        for parameter, gradient in zip(parameters, step):
            parameter.grad = torch.from_numpy(gradient.copy())
        if clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, clip_norm)
        if clip_value is not None:
            torch.nn.utils.clip_grad_value_(parameters, clip_value)
        optimizer.step()
        rows.append(flat([parameter.detach().numpy() for parameter in parameters]))
    for key in ("momentum_buffer", "exp_avg", "exp_avg_sq"):
        if optimizer.state[parameters[0]].get(key) is not None:
            rows.append(flat([optimizer.state[parameter][key].numpy() for parameter in parameters]))
    return rows


def lamb(weights, gradients, lr, decay, beta1=0.9, beta2=0.999, eps=1e-6):
    """The paper's algorithm in double precision: torch.optim has none."""
    w = [weight.astype(np.float64) for weight in weights]
    m = [np.zeros_like(x) for x in w]
    v = [np.zeros_like(x) for x in w]
    rows = []
    for step, gradient in enumerate(gradients, 1):
        for i, g in enumerate(gradient):
            g = g.astype(np.float64)
            m[i] = beta1 * m[i] + (1 - beta1) * g
            v[i] = beta2 * v[i] + (1 - beta2) * g * g
            direction = (m[i] / (1 - beta1**step)) / (np.sqrt(v[i] / (1 - beta2**step)) + eps)
            ratio = 1.0
            if not without_decay(w[i].shape):
                direction = direction + decay * w[i]
                ratio = np.linalg.norm(w[i]) / np.linalg.norm(direction)
            w[i] = w[i] - lr * ratio * direction
        rows.append(flat(w))
    return rows + [flat(m), flat(v)]


def optimizer_cases(weights, gradients):
    sgd, adam, adamw = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW

    def run(make, decay=0.0, **more):
        return with_torch(make, weights, gradients, decay, **more)

    momentum = lambda p: sgd(p, lr=0.05, momentum=0.9)
    return {
        "sgd": run(lambda p: sgd(p, lr=0.05)),
        "sgd_decay": run(lambda p: sgd(p, lr=0.05), decay=0.01),
        "sgd_momentum": run(momentum),
        "sgd_momentum_decay": run(momentum, decay=0.01),
        "sgd_decay_all": run(momentum, decay=0.01, decay_all=True),
        "sgd_nesterov": run(lambda p: sgd(p, lr=0.05, momentum=0.9, nesterov=True), decay=0.01),
        "sgd_clip_value": run(momentum, clip_value=0.5),
        "sgd_clip_norm": run(momentum, clip_norm=20.0),
        "adam": run(lambda p: adam(p, lr=0.003)),
        "adam_decay": run(lambda p: adam(p, lr=0.003, betas=(0.8, 0.99), eps=1e-6), decay=0.1),
        "adam_clip_norm": run(lambda p: adam(p, lr=0.003), clip_norm=20.0),
        "adamw": run(lambda p: adamw(p, lr=0.003), decay=0.1),
        "adamw_clip_value": run(lambda p: adamw(p, lr=0.003), decay=0.1, clip_value=0.5),
        "lamb": lamb(weights, gradients, lr=0.01, decay=0.1),
    }


def rates(make, epochs, base=0.4):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=base)
    schedule = make(optimizer)
    values = []
    for _ in range(epochs):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return values


def rate_cases(epochs=20):
    return {
        "constant": rates(lambda o: lr_scheduler.LambdaLR(o, lambda _: 1.0), epochs),
        "step": rates(lambda o: lr_scheduler.StepLR(o, step_size=6, gamma=0.3), epochs),
        "multistep": rates(lambda o: lr_scheduler.MultiStepLR(o, milestones=[3, 9, 15], gamma=0.3), epochs),
        "exponential": rates(lambda o: lr_scheduler.ExponentialLR(o, gamma=0.9), epochs),
        "cosine": rates(lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=epochs, eta_min=0.02), epochs),
        "polynomial": rates(lambda o: lr_scheduler.PolynomialLR(o, total_iters=epochs, power=2.0), epochs),
        "warmup": rates(lambda o: lr_scheduler.LinearLR(o, start_factor=0.1, end_factor=1.0, total_iters=7), epochs),
    }


def main(folder):
    torch.set_num_threads(1)
    random = np.random.default_rng(7)
    weights = first_weights(random)
    gradients = all_gradients(random)
    with open(f"{folder}/parameters.txt", "w") as file:
        for (name, shape), weight in zip(PARAMETERS, weights):
            file.write(f"{name} {len(shape)} {weight.size}\n")
    flat(weights).tofile(f"{folder}/weights.bin")
    np.stack([flat(step) for step in gradients]).tofile(f"{folder}/gradients.bin")
    for name, rows in optimizer_cases(weights, gradients).items():
        np.stack(rows).tofile(f"{folder}/{name}.bin")
    with open(f"{folder}/rates.txt", "w") as file:
        for name, values in rate_cases().items():
            file.write(name + " " + " ".join(repr(value) for value in values) + "\n")
    with open(f"{folder}/torch.txt", "w") as file:
        file.write(torch.__version__)


main(sys.argv[1])
