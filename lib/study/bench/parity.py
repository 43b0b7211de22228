"""Compare an engine with a cell's reference: outputs, final state and every gradient, by name."""

import copy

import torch
from longrnn import kernels
from longrnn.cells import Cell, State, make_cell
from torch import Tensor

Case = tuple[Cell, Tensor, State]
"""A cell, an input and an initial state. All tensors require gradients."""


def random_case(
    name: str,
    time_steps: int,
    batch: int,
    hidden: int,
    dtype: torch.dtype = torch.float64,
    inputs: int = 2,
    **hyper_parameters,
) -> Case:
    """Return a cell with random weights, an input that is not contiguous, and an initial state.

    Parameters
    ----------
    name : str
        Name of the cell.
    time_steps, batch, hidden, inputs : int
        Sizes.
    dtype : torch.dtype
        Type of all tensors.
    **hyper_parameters
        Hyperparameters of the cell.

    Returns
    -------
    Case
    """
    torch.manual_seed(hidden + 100 * time_steps)
    cell = make_cell(name, inputs, hidden, **hyper_parameters).to(dtype)
    u = torch.randn(batch, time_steps, inputs, dtype=dtype).transpose(0, 1).requires_grad_()
    state = [0.5 * torch.randn(batch, hidden, dtype=dtype) for _ in range(cell.states)]
    if name in ("lu_rnn", "inverse_rnn"):  # the second state is a time, equal for all neurons
        state[1] = state[1][:, :1].expand(batch, hidden).clone()
    with torch.no_grad():
        for label, parameter in cell.named_parameters():
            if label.split(".")[0] in ("b", "c"):  # initially zero, which would hide errors
                parameter += 0.1 * torch.randn_like(parameter)
    return cell, u, tuple(tensor.requires_grad_() for tensor in state)


def outputs_and_gradients(
    cell: Cell, u: Tensor, state: State, engine: str, *, use: tuple[str, ...] = ("outputs", "state")
) -> dict[str, Tensor]:
    """Run forward and backward, and return all results.

    Parameters
    ----------
    cell, u, state
        A case, see `random_case`.
    engine : str
        Name of the engine.
    use : tuple of str
        What the loss uses: ``outputs``, the final ``state``, or both. The loss is a sum with random
        weights.

    Returns
    -------
    dict
        Outputs, tensors of the final state, and gradients with respect to every parameter, the
        input and the initial state, by name, in float64.
    """
    outputs, final = cell(u, state, engine=engine)
    loss = _weighted_sum(outputs, final, use)
    sources = dict(cell.named_parameters())
    sources["u"] = u
    for index, tensor in enumerate(state):
        sources[f"initial state {index}"] = tensor
    # An initial state that the recurrence never reads (SRU's output) has the gradient zero.
    gradients = torch.autograd.grad(
        loss, list(sources.values()), allow_unused=True, materialize_grads=True
    )
    results = {"outputs": outputs}
    for index, tensor in enumerate(final):
        results[f"final state {index}"] = tensor
    for label, gradient in zip(sources, gradients, strict=True):
        results[f"gradient of {label}"] = gradient
    return {label: tensor.detach().double() for label, tensor in results.items()}


def _weighted_sum(outputs: Tensor, final: State, use: tuple[str, ...]) -> Tensor:
    """Return the loss of `outputs_and_gradients`. Its random weights do not depend on `use`."""
    generator = torch.Generator().manual_seed(5)
    loss = outputs.new_zeros(())
    for label, tensors in {"outputs": (outputs,), "state": final}.items():
        for tensor in tensors:
            weight = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
            if label in use:
                loss = loss + (weight.to(tensor) * tensor).sum()
    return loss


def deviations(results: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    """Return the largest deviation of every tensor, relative to its largest expected value.

    Parameters
    ----------
    results, expected : dict
        Results of `outputs_and_gradients`, on any device and on the CPU.

    Returns
    -------
    dict
        Deviations by name.
    """
    assert results.keys() == expected.keys()
    relative = {}
    for label, truth in expected.items():
        scale = max(truth.abs().max().item(), 1e-30)
        relative[label] = (results[label].cpu() - truth).abs().max().item() / scale
    return relative


def convert_case(to: str | torch.dtype, cell: Cell, u: Tensor, state: State) -> Case:
    """Convert a case to another device or type.

    Parameters
    ----------
    to : str or torch.dtype
        A device or a type.
    cell, u, state
        A case, see `random_case`.

    Returns
    -------
    Case
        A copy, in which all tensors are leaves.
    """
    new_u = u.detach().to(to).requires_grad_()
    new_state = tuple(tensor.detach().to(to).requires_grad_() for tensor in state)
    return copy.deepcopy(cell).to(to), new_u, new_state


def device_of(cell: str, engine: str) -> str | None:
    """Return the type of the device on which an engine can run on this machine.

    Parameters
    ----------
    cell, engine : str
        Their names.

    Returns
    -------
    str or None
        ``cpu``, ``cuda``, or None if it can't run.
    """
    devices = ["cpu"]
    if torch.cuda.is_available():
        devices.append("cuda")
    for device in devices:
        if kernels.can_run(cell, engine, device):
            return device
    return None
