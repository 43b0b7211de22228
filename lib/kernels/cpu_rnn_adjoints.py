r"""The adjoint states of the basic RNN as a function that can be differentiated, on one CPU core.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024. With the slopes
:math:`s_t = 1 - x_t^2` and :math:`q_t = -2 x_t s_t` of tanh, forward is the adjoint system, backwards in time,

.. math:: \lambda_{t-1} = W^\top (s_t \odot \lambda_t) \tag{2.21}

and backward the forward coadjoints, forwards in time, from :math:`\gamma_1 = -\partial G / \partial \lambda_1`:

.. math:: \gamma_t = s_t \odot W \gamma_{t-1} - \partial G / \partial \lambda_t \tag{2.23}

They give what the penalty G leaves at the arguments: at the last adjoint :math:`-\gamma_T`, at the weights
:math:`-\sum_{t>1} (s_t \odot \lambda_t) \gamma_{t-1}^\top`, the middle term of (2.25) put right, and at the states, where
:math:`\partial s_t / \partial x_t = -2 x_t`,

.. math:: o_t = 2 x_t \odot \lambda_t \odot W \gamma_{t-1}

Carried on by the ordinary backward pass of `lib.kernels.cpu_rnn`, whose
:math:`\delta_t = s_t \odot (o_t + W^\top \delta_{t+1})`, this is the backward coadjoint: :math:`\delta_t = - s_t \odot \alpha_t -
q_t \odot \lambda_t \odot W \gamma_{t-1}` with :math:`\alpha` of (2.24), and the rest of (2.25) is that pass's own product with the states.
So Algorithm 2 costs six matrix products a step where backpropagation costs three.

Stored: the states and the adjoints, which exist anyway. The products that make the weights' gradient need
:math:`\gamma` and :math:`s \odot \lambda` over some steps at once to be fast: over `CHUNK_ROWS` rows, not over all times.
"""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cpu import array, kernel
from lib.kernels._registry import register

CHUNK_ROWS = 512
"""Rows (steps times sequences) in one product for the weights' gradient."""


@kernel
def _adjoints(W, x, last, adjoints):
    one = W.dtype.type(1)
    adjoints[-1] = last
    scaled = np.empty_like(last)
    for t in range(len(x) - 1, 0, -1):
        x_t, lambda_t, v = x[t].ravel(), adjoints[t].ravel(), scaled.ravel()
        for i in range(v.size):
            v[i] = (one - x_t[i] * x_t[i]) * lambda_t[i]
        np.dot(scaled, W, adjoints[t - 1])


@kernel
def _coadjoints(W, x, adjoints, from_penalty, steps, W_gradient, at_states):
    """Return minus the last forward coadjoint; fill the gradients of the weights and the states."""
    one, two = W.dtype.type(1), W.dtype.type(2)
    T, batch, d = x.shape
    gamma = np.empty((steps + 1, batch, d), W.dtype)  # gamma_t, a chunk and the step before it
    scaled = np.empty((steps, batch, d), W.dtype)  # s_t lambda_t
    pushed = np.empty((batch, d), W.dtype)  # W gamma_{t-1}
    first, to_states = gamma[0].ravel(), at_states[0].ravel()
    from_first = from_penalty[0].ravel()
    for i in range(first.size):
        first[i] = -from_first[i]
        to_states[i] = 0
    for start in range(1, T, steps):
        stop = min(start + steps, T)
        for t in range(start, stop):
            k = t - start
            np.dot(gamma[k], W.T, pushed)
            x_t, lambda_t, m_t = x[t].ravel(), adjoints[t].ravel(), from_penalty[t].ravel()
            g, v, o, p = (
                gamma[k + 1].ravel(),
                scaled[k].ravel(),
                at_states[t].ravel(),
                pushed.ravel(),
            )
            for i in range(p.size):
                slope = one - x_t[i] * x_t[i]
                g[i] = slope * p[i] - m_t[i]  # (2.23)
                v[i] = slope * lambda_t[i]
                o[i] = two * x_t[i] * lambda_t[i] * p[i]
        rows = (stop - start) * batch
        W_gradient -= np.dot(
            scaled[: stop - start].reshape(rows, d).T, gamma[: stop - start].reshape(rows, d)
        )
        gamma[0] = gamma[stop - start]
    return -gamma[0]


class _Adjoints(torch.autograd.Function):
    @staticmethod
    def forward(W: Tensor, x: Tensor, last: Tensor) -> Tensor:
        W, x, last = array(W), array(x), array(last)
        adjoints = np.empty_like(x)
        _adjoints(W, x, last, adjoints)
        return torch.from_numpy(adjoints)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        W, x, _ = inputs
        ctx.save_for_backward(W, x, output)

    @staticmethod
    @once_differentiable
    def backward(ctx, from_penalty: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        W, x, adjoints = (array(saved) for saved in ctx.saved_tensors)
        W_gradient, at_states = np.zeros_like(W), np.empty_like(x)
        steps = max(1, CHUNK_ROWS // x.shape[1])
        last = _coadjoints(W, x, adjoints, array(from_penalty), steps, W_gradient, at_states)
        return tuple(torch.from_numpy(part) for part in (W_gradient, at_states, last))


@register("numba-cpu", "rnn/adjoints", devices=("cpu",), dtypes=(torch.float32, torch.float64))
def rnn_adjoints(W: Tensor, outputs: Tensor, last: Tensor) -> Tensor:
    """Return the adjoint states of the basic RNN, in any sign.

    Parameters
    ----------
    W : (hidden, hidden)
        Recurrent weights.
    outputs : (time, batch, hidden)
        The states x_1..x_T, as an engine returned them.
    last : (batch, hidden)
        The last adjoint, lambda_T.

    Returns
    -------
    (time, batch, hidden)
        lambda_1..lambda_T, differentiable once by all three arguments.
    """
    return _Adjoints.apply(W, outputs, last)
