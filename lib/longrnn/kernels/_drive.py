"""The drive of a recurrence: the product of inputs and input weights, for all times at once."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from longrnn.kernels._memory import empty_tensor, is_large
from longrnn.kernels._modes import is_in_forward_mode, is_ordinary
from longrnn.kernels._runs import sequences_by_run


class Sources(NamedTuple):
    """The tensors from which the drive of a recurrence is computed.

    The drive is `V` times `below` plus `b`, and with a skip connection plus `skip` times `skipped`.
    It is as large as the outputs, and first derivatives do not need it, so it is not kept. Second
    derivatives compute it again from these tensors, which exist anyway.
    """

    below: Tensor | None = None
    """Inputs of the layer (time, batch, features); the drive itself if V is None."""
    V: Tensor | None = None
    """Input weights (rows, features), or (runs, rows, features)."""
    b: Tensor | None = None
    """Biases (rows,) or (runs, rows), if any."""
    skipped: Tensor | None = None
    """Outputs (time, batch, features) of the layer where a skip connection starts, if any."""
    skip: Tensor | None = None
    """Weights of the skip connection, of a shape like that of `V`."""

    def drive(self) -> Tensor:
        """Compute the drive.

        Returns
        -------
        (time, batch, rows)
        """
        if self.V is None:
            return self.below
        product = drive
        if self.V.dim() == 3:
            product = _drive_of_runs
        result = product(self.below, self.V, self.b)
        if self.skip is not None:
            result = result + product(self.skipped, self.skip)
        return result


def drive(u: Tensor, R: Tensor, b: Tensor | None = None) -> Tensor:
    """Compute the drive R u_t + b for all times at once.

    Parameters
    ----------
    u : (time, batch, p)
        The inputs.
    R : (rows, p)
        Input weights.
    b : (rows,), optional
        Biases.

    Returns
    -------
    (time, batch, rows)
        A contiguous tensor.
    """
    if not torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active():
        is_plain = u.is_contiguous() and is_ordinary((u, R, b))
        if is_plain and u.dtype == R.dtype and is_large(u, len(R)):
            return _Drive.apply(u, R, b)
    return F.linear(u, R, b).contiguous()


class _Drive(torch.autograd.Function):
    """The product of inputs and input weights in kept memory, equal to `F.linear` bit for bit."""

    @staticmethod
    def forward(ctx, u: Tensor, R: Tensor, b: Tensor | None) -> Tensor:
        ctx.save_for_backward(u, R)
        result = empty_tensor((*u.shape[:-1], len(R)), u.dtype)
        rows = u.view(-1, u.shape[-1])
        if b is None:
            torch.mm(rows, R.T, out=result.view(-1, len(R)))
        else:
            torch.addmm(b, rows, R.T, out=result.view(-1, len(R)))
        return result

    @staticmethod
    def backward(ctx, arrived: Tensor) -> tuple[Tensor | None, ...]:
        u, R = ctx.saved_tensors
        needs_u, needs_R, needs_b = ctx.needs_input_grad
        rows = arrived.reshape(-1, len(R))
        grad_u = grad_R = grad_b = None
        is_differentiated = torch.is_grad_enabled() or is_in_forward_mode()
        if needs_u and (is_differentiated or not is_ordinary((arrived,))):
            grad_u = (rows @ R).view_as(u)
        elif needs_u:
            grad_u = empty_tensor(u.shape, u.dtype)
            torch.mm(rows, R, out=grad_u.view(-1, u.shape[-1]))
        if needs_R:
            grad_R = rows.T @ u.view(-1, u.shape[-1])
        if needs_b:
            grad_b = rows.sum(0)
        return grad_u, grad_R, grad_b


def _drive_of_runs(u: Tensor, R: Tensor, b: Tensor | None = None) -> Tensor:
    """Return the drive of several runs; R is (runs, rows, p), and the batches follow each other."""
    rows = sequences_by_run(u, len(R))
    if b is None:
        result = rows @ R.mT
    else:
        result = torch.baddbmm(b[:, None], rows, R.mT)
    return result.unflatten(1, (len(u), -1)).movedim(0, 1).flatten(1, 2).contiguous()
