"""Small examples for several tests: a task that trains in a moment, and a linear cell."""

import numpy as np
import torch
from longrnn.cells import make_cell
from study.tasks import Split, Task


def toy_task(kind="pixels", n=24, steps=6, target="class"):
    """Return a task with nothing to learn: three classes or values, from pixels or tokens."""
    rng = np.random.default_rng(0)

    def part():
        if kind == "tokens":
            inputs = rng.integers(0, 9, (n, steps))
        else:
            inputs = rng.random((n, steps, 1), np.float32)
        if target == "value":
            return Split(inputs, rng.random((n, 3), np.float32))
        if target == "steps":
            return Split(inputs, rng.integers(0, 3, (n, steps)))
        return Split(inputs, rng.integers(0, 3, n))

    sizes = {"outputs": 3, "vocabulary_size": 0, "noise_inputs": 5}
    if kind == "tokens":
        sizes["vocabulary_size"] = 9
    return Task(name="toy", kind=kind, target=target, **sizes, train=part(), test=part())


def weights(model):
    """Return all parameters of a model as one vector."""
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def norm(model):
    """Return what a test records of a model: the squared norm of its weights."""
    return {"norm": sum(p.double().square().sum().item() for p in model.parameters())}


def linear(W):
    """Return the cell x_t = W x_{t-1} + R u_t in float64, whose adjoints have a closed form."""
    cell = make_cell("linear_rnn", 1, len(W)).double().requires_grad_(False)
    cell.W.copy_(torch.as_tensor(W))
    cell.b.zero_()
    return cell


def sums(x):
    """Return a loss for each sequence: the sum of its outputs."""
    return x.sum(1)


def autograd_norms(cell, u, loss):
    """Return log10 norms of the adjoint states for t = 0..T by plain autograd.

    There are two arrays (T+1, B), for the part that is read out and for the whole state. `loss` is
    a function of the last state, a tuple. Each state is cut from its step's graph and joined again
    by hand: parts of a state at one time must not count as functions of each other.
    """
    options = {"allow_unused": True, "materialize_grads": True}
    states = [cell.initial_state(u.shape[1])]
    with torch.no_grad():
        for u_t in u:
            states.append(cell.step(cell.weights(), states[-1], u_t))
    last = tuple(part.clone().requires_grad_() for part in states.pop())
    grads = [torch.autograd.grad(loss(last), last, **options)]
    for u_t, state in zip(u.flip(0), reversed(states), strict=True):
        start = tuple(part.clone().requires_grad_() for part in state)
        end = cell.step(cell.weights(), start, u_t)
        # A part that is read out and never read back (SRU's output) has the gradient zero.
        grads.append(torch.autograd.grad(end, start, grads[-1], **options))
    grads.reverse()
    readout = torch.stack([g[cell.readout].norm(dim=1).log10() for g in grads])
    full = torch.stack([torch.cat(g, 1).norm(dim=1).log10() for g in grads])
    return readout, full
