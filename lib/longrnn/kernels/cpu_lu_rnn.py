r"""The LU and the inverse RNN on the CPU: a matrix that is interchanged with its inverse.

Johnston 2024, (2.28) and definition 2.4. The equations are in `longrnn.kernels.cpu_rnn`.

Both matrices are formed once per call, the LU RNN's inverse by two triangular solves of the
identity: 2 d^3 operations, against d^2 for every step and sequence. A step is then one matrix
product, where two solves would take several times as long for the same number of operations.
"""

import torch
from torch import Tensor

from longrnn.kernels._cpu import engine
from longrnn.kernels._cpu_dense import INTERCHANGED
from longrnn.kernels._cpu_dense_operator import DENSE
from longrnn.kernels._drive import Sources


@engine("lu_rnn", takes_networks=True)
def lu_rnn(weights, state, u):
    """Run the LU RNN, equation (2.28) of Johnston 2024.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.lu_rnn.LURNNCore.step`.
    state : tuple of (batch, d)
        (x, t) before the first input.
    u : (time, batch, p)
        The inputs.

    Returns
    -------
    outputs : (time, batch, d)
        x after every input.
    state : tuple of (batch, d)
        (x, t) after the last input.
    """
    L, U, R, b, tau = weights
    identity = torch.eye(len(L), dtype=L.dtype, device=L.device)
    half = torch.linalg.solve_triangular(L, identity, upper=False, unitriangular=True)
    inverse = torch.linalg.solve_triangular(U, half, upper=True)
    return _run_interchanged(L @ U, inverse, tau, Sources(u, R, b), state)


@engine("inverse_rnn", takes_networks=True)
def inverse_rnn(weights, state, u):
    """Run the inverse RNN, section 2.9 of Johnston 2024.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.inverse_rnn.InverseRNNCore.step`.
    state : tuple of (batch, d)
        (x, t) before the first input.
    u : (time, batch, p)
        The inputs.

    Returns
    -------
    outputs : (time, batch, d)
        x after every input.
    state : tuple of (batch, d)
        (x, t) after the last input.
    """
    W, inverse, R, b, tau = weights
    return _run_interchanged(W, inverse, tau, Sources(u, R, b), state)


def _run_interchanged(W: Tensor, inverse: Tensor, tau: int, sources: Sources, state):
    """Run (2.28) by the rule of `longrnn.cells._interchange.alternate`."""
    x0, t = state
    g = sources.drive()
    steps = g.shape[0]  # `len` would fix the length in a traced program
    # The time of a sequence is that of all its neurons.
    times = torch.arange(steps, dtype=t.dtype, device=t.device)[:, None] + t[:, 0].detach()
    uses_W = times.remainder(2 * tau) < tau
    outputs, (x,) = DENSE(INTERCHANGED, uses_W, W, inverse, None, g, None, x0, sources=sources)
    return outputs, (x, t + steps)
