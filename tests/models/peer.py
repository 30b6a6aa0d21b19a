"""What the peers of the model tests share: running a model and writing what came out."""
import torch


def sample(tensor):
    """All of a small tensor, about 10,000 values of a large one, spread evenly."""
    flat = tensor.detach().flatten()
    stride = (flat.numel() // 10000) | 1 if flat.numel() > 20000 else 1
    return flat[::stride].clone()


def length(tensor):
    """The Euclidean length of all values; norm() would need a copy to be as exact."""
    flat = tensor.detach().flatten()
    return flat.dot(flat).float().sqrt()


def run(model, x, targets, training, into):
    """Forward and backward in one mode; outputs, loss, gradients and buffers go into a dictionary."""
    mode = "train/" if training else "eval/"
    model.train(training)
    model.zero_grad(set_to_none=True)
    output = model(x.clone())
    loss = torch.nn.functional.cross_entropy(output, targets)
    loss.backward()
    into[mode + "output"] = output.detach()
    into[mode + "loss"] = loss.detach()
    tensors = {"gradient/" + name: p.grad for name, p in model.named_parameters()}
    tensors.update({"buffer/" + name: b for name, b in model.named_buffers()})
    for name, tensor in tensors.items():
        into[mode + name] = sample(tensor)
        into[mode + "norm/" + name] = length(tensor)


def run_both(model, x, targets):
    """Evaluation first: training changes the buffers."""
    into = {"x": x, "targets": targets}
    for training in (False, True):
        run(model, x, targets, training, into)
    return into
