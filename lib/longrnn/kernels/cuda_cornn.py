"""coRNN on the GPU: equation (3) of Rusch and Mishra 2021.

The forward and adjoint equations, and what is stored, are those of `longrnn.kernels.cpu_cornn`.
The kernels are those of `longrnn.kernels.cuda_rnn`, compiled for coRNN.
"""

import torch

from longrnn.kernels import cuda_rnn as dense
from longrnn.kernels._cuda import engine
from longrnn.kernels._cuda_launch import is_present, launch_runs, most_units
from longrnn.kernels._products import state_products
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels.cpu_cornn import OPERATOR, run_by

_BUFFERS = dense.BUFFERS[dense.CORNN]


def _forward(dt, gamma, r, W, W_z, g, y0, z0, y, y_end, z_end, z, f):
    M_T = torch.cat([W.mT, W_z.mT], dim=-2)
    tensors = M_T, None, g, y0, z0, y, f, z, y_end, z_end
    numbers = dt, gamma, r, len(g)
    options = {"buffers": _BUFFERS, "form": dense.CORNN}
    launch_runs(dense.forward_kernel, y0, (M_T,), *tensors, *numbers, **options)


def _backward(dt, gamma, r, W, W_z, y0, z0, y, z, f, grad_y, grad_y_end, grad_z_end):
    delta = torch.empty_like(f)
    grad_y0 = torch.empty_like(y0)
    grad_z0 = torch.empty_like(z0)
    tensors = W, W_z, f, grad_y, grad_y_end, grad_z_end, delta, grad_y0, grad_z0
    flags = is_present(grad_y_end), is_present(grad_z_end)
    numbers = *flags, dt, gamma, r, len(y)
    options = {"buffers": _BUFFERS, "form": dense.CORNN, "arriving": is_present(grad_y)}
    launch_runs(dense.backward_kernel, y0, (W, W_z), *tensors, *numbers, **options)
    grad_W = state_products(W, delta, y0, y)
    grad_W_z = state_products(W_z, delta, z0, z)
    return grad_W, grad_W_z, delta, grad_y0, grad_z0


_CORNN = Recurrence("cornn_cuda", forward=_forward, backward=_backward, arrays=False, **OPERATOR)


@engine("cornn", most_units=most_units(_BUFFERS), runs=True)
def cornn(weights, state, u):
    """Run coRNN, equation (3) of Rusch and Mishra 2021.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.cornn.CoRNNCore.step`.
    state : tuple of (batch, d)
        (y, z) before the first input.
    u : (time, batch, p)
        The inputs.

    Returns
    -------
    outputs : (time, batch, d)
        y after every input.
    state : tuple of (batch, d)
        (y, z) after the last input.
    """
    return run_by(_CORNN, weights, state, u)
