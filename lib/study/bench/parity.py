"""How far an engine is from a cell's reference: output, final state and every gradient, each by name."""

import copy

import torch
from longrnn import kernels
from longrnn.cells import Cell, State, make_cell
from torch import Tensor

Case = tuple[Cell, Tensor, State]
"""A cell, an input and an initial state, all asking for gradients."""


def random_case(
    name: str,
    time_steps: int,
    batch: int,
    hidden: int,
    dtype: torch.dtype = torch.float64,
    inputs: int = 2,
    **hyper_parameters,
) -> Case:
    """Return a cell with random weights, an input that is not contiguous, and an initial state."""
    torch.manual_seed(hidden + 100 * time_steps)
    cell = make_cell(name, inputs, hidden, **hyper_parameters).to(dtype)
    u = torch.randn(batch, time_steps, inputs, dtype=dtype).transpose(0, 1).requires_grad_()
    state = tuple(
        (0.5 * torch.randn(batch, hidden, dtype=dtype)).requires_grad_() for _ in range(cell.states)
    )
    if name in ("lu_rnn", "inverse_rnn"):  # the time of a sequence is that of all its neurons
        t = state[1].detach()[:, :1].expand(batch, hidden).clone()
        state = state[0], t.requires_grad_()
    with torch.no_grad():
        for label, parameter in cell.named_parameters():
            if label.split(".")[0] in ("b", "c"):  # the cells' own zeros would hide an error
                parameter += 0.1 * torch.randn_like(parameter)
    return cell, u, state


def everything(
    cell: Cell, u: Tensor, state: State, engine: str, *, use: tuple[str, ...] = ("outputs", "state")
) -> dict[str, Tensor]:
    """Run forward and backward; return outputs, final state and gradients by name, in float64.

    The loss is random weights times what `use` names.
    """
    outputs, final = cell(u, state, engine=engine)
    generator = torch.Generator().manual_seed(5)
    loss = outputs.new_zeros(())
    for label, tensors in {"outputs": (outputs,), "state": final}.items():
        for tensor in tensors:
            weight = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
            if label in use:
                loss = loss + (weight.to(tensor) * tensor).sum()
    named = dict(cell.named_parameters()) | {"u": u}
    named |= {f"initial state {i}": part for i, part in enumerate(state)}
    # A part of the state that is read out and never read back (SRU's output) has the gradient zero.
    gradients = torch.autograd.grad(
        loss, list(named.values()), allow_unused=True, materialize_grads=True
    )
    found = {"outputs": outputs} | {f"final state {i}": part for i, part in enumerate(final)}
    found |= {f"gradient of {label}": g for label, g in zip(named, gradients, strict=True)}
    return {label: tensor.detach().double() for label, tensor in found.items()}


def deviations(found: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    """Return the largest deviations by name, relative to the largest value expected."""
    assert found.keys() == expected.keys()
    scale = {label: max(truth.abs().max().item(), 1e-30) for label, truth in expected.items()}
    return {
        label: (found[label].cpu() - truth).abs().max().item() / scale[label]
        for label, truth in expected.items()
    }


def converted(to: str | torch.dtype, cell: Cell, u: Tensor, state: State) -> Case:
    """Return the case on a device or in a type, its tensors leaves again."""
    u, *state = (part.detach().to(to).requires_grad_() for part in (u, *state))
    return copy.deepcopy(cell).to(to), u, tuple(state)


def device_of(cell: str, engine: str) -> str | None:
    """Return the device on which an engine can run here, None where there is none."""
    here = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
    return next((on for on in here if kernels.takes(cell, engine, on)), None)
