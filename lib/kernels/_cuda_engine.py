"""What the GPU engines share: the run axis, checks of what comes in, and the parts that PyTorch computes.

Tensors carry a leading run axis, (run, time, batch, hidden), so that many networks train in one launch.
"""

from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from lib.kernels._cuda import DEVICES, DTYPES, obstacle
from lib.kernels._registry import register


def engine(*cells: str, name: str = "numba-cuda", **more) -> Callable:
    """Return a decorator that registers a function as the engine `name` of `cells`.

    The function sees a leading run axis everywhere: weights (run, ...), states (run, batch, hidden), input
    (run, time, batch, input). Registered, it takes one network, with shapes as in `lib.cells.Cell.forward`, or many: weights
    from `lib.kernels.stack_runs` and an input of four dimensions, whose first may be 1 where all runs read the same.
    It checks what it gets, and says so in a sentence where the device has too little memory.
    """
    label = cells[0]

    def add(run: Callable) -> Callable:
        @wraps(run)
        def checked(weights, state, u, **options):
            alone = u.dim() == 3
            if alone:
                weights, state, u = (
                    tree_map_only(Tensor, _one_run, part) for part in (weights, tuple(state), u)
                )
            _check(label, weights, state, u)
            try:
                outputs, final = run(weights, state, u, **options)
            except torch.OutOfMemoryError:
                raise torch.OutOfMemoryError(_too_large(label, state, u)) from None
            return (outputs[0], tuple(part[0] for part in final)) if alone else (outputs, final)

        register(name, *cells, devices=DEVICES, dtypes=DTYPES, obstacle=obstacle, **more)(checked)
        return checked

    return add


def tensors_of(structure) -> list[Tensor]:
    return [part for part in tree_leaves(structure) if isinstance(part, Tensor)]


def _one_run(tensor: Tensor) -> Tensor:
    return tensor[None]


def _check(cell: str, weights, state, u: Tensor) -> None:
    if u.dim() != 4 or 0 in u.shape:
        raise ValueError(
            f"{cell}: expected an input (time, batch, input) or (run, time, batch, input) with no size of 0, "
            f"got {tuple(u.shape)}"
        )
    tensors = tensors_of((weights, state, u))
    own = u.dtype, u.device
    wrong = next((part for part in tensors if (part.dtype, part.device) != own), None)
    if wrong is not None:
        raise ValueError(
            f"{cell}: expected weights and states of {u.dtype} on {u.device} like the input, "
            f"got {wrong.dtype} on {wrong.device}; convert them with .to(...)"
        )
    if u.is_cuda and u.device.index != 0:
        raise ValueError(
            f"{cell}: expected tensors on cuda:0, got {u.device}; choose a GPU with CUDA_VISIBLE_DEVICES"
        )
    runs = {len(part) for part in (*tensors_of(state), *tensors_of(weights))}
    batches = {part.shape[1:] for part in state}
    if len(runs) != 1 or u.shape[0] not in (1, *runs):
        raise ValueError(
            f"{cell}: expected weights, states and input of equally many runs, got {sorted(runs)} "
            f"and an input of {u.shape[0]}"
        )
    if len(batches) != 1 or state[0].dim() != 3 or state[0].shape[1] != u.shape[2]:
        raise ValueError(
            f"{cell}: expected states (run, batch, hidden) with batch={u.shape[2]}, "
            f"got {', '.join(str(tuple(part.shape)) for part in state)}"
        )


def check_hidden(cell: str, state, hidden: int) -> None:
    """Raise `ValueError` where the states, (run, batch, hidden), are not of the weights' hidden size."""
    if state[0].shape[-1] != hidden:
        raise ValueError(
            f"{cell}: expected states (run, batch, hidden) with hidden={hidden}, got {tuple(state[0].shape)}"
        )


def _too_large(cell: str, state, u: Tensor) -> str:
    size = u.shape[1] * state[0].numel() * u.element_size() / 2**30
    free = f", {torch.cuda.mem_get_info()[0] / 2**30:.1f} GiB are free" if u.is_cuda else ""
    return (
        f"{cell} needs several arrays (run, time, batch, hidden) of {size:.2g} GiB each{free}; "
        "use fewer runs, a smaller batch or shorter sequences"
    )


def drive(cell: str, u: Tensor, V: Tensor, b: Tensor | None = None) -> Tensor:
    """Return V u_t + b for all times at once, contiguous (run, time, batch, rows).

    Parameters
    ----------
    cell
        Who asks, for the error.
    u : (run, time, batch, input)
        The input; its first size may be 1.
    V : (run, rows, input)
        Weights.
    b : (run, rows), optional
        Biases.
    """
    runs, rows, features = V.shape
    if u.shape[-1] != features:
        raise ValueError(
            f"{cell}: expected an input of {features} features, got {tuple(u.shape)}, whose last size is {u.shape[-1]}"
        )
    flat = u.reshape(len(u), -1, features).expand(runs, -1, -1)
    b = V.new_zeros(runs, rows) if b is None else b
    return torch.baddbmm(b[:, None], flat, V.mT).view(runs, *u.shape[1:3], rows)


def per_chain(value: Tensor | float, like: Tensor) -> Tensor:
    """Return one value for each chain, contiguous and shaped as `like`, (run, batch, hidden).

    `value` is a number, one for each run (run,), or one for each neuron (run, hidden). Autograd sums over what
    shared a value.
    """
    if not isinstance(value, Tensor):
        return torch.full_like(like, value)
    value = value.to(like)
    value = value[:, None, None] if value.dim() == 1 else value[:, None]
    return value.expand_as(like).contiguous()


def gradient(arrived: Tensor | None, like: Tensor) -> Tensor:
    """Return a gradient that arrived, contiguous, or zeros like `like` where none did."""
    return torch.zeros_like(like) if arrived is None else arrived.contiguous()


def recurrent_gradient(delta: Tensor, x0: Tensor, outputs: Tensor) -> Tensor:
    r"""Return :math:`\sum_t \delta_t x_{t-1}^\top`, (run, rows, hidden), over times and sequences.

    Parameters
    ----------
    delta : (run, time, batch, rows)
        Adjoints of the product of the matrix and the state.
    x0 : (run, batch, hidden)
        State before the first input.
    outputs : (run, time, batch, hidden)
        States after every input.
    """
    rest = torch.bmm(delta[:, 1:].flatten(1, 2).mT, outputs[:, :-1].flatten(1, 2))
    return torch.baddbmm(rest, delta[:, 0].mT, x0)
