r"""The adjoint norms of the basic RNN as a function that can be differentiated, on one CPU core.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.6 and
Algorithm 2. With the slopes :math:`s_t = 1 - x_t^2` and :math:`q_t = -2 x_t s_t` of tanh, the
forward pass computes the adjoints, backward in time,

.. math:: \lambda_{t-1} = W^\top (s_t \odot \lambda_t) \tag{2.21}

The backward pass computes the forward coadjoints, forward in time, from :math:`\gamma_1 = -\partial
G / \partial \lambda_1`:

.. math:: \gamma_t = s_t \odot W \gamma_{t-1} - \partial G / \partial \lambda_t \tag{2.23}

They give the gradients of the penalty G: with respect to the last adjoint :math:`-\gamma_T`, with
respect to the weights :math:`-\sum_{t>1} (s_t \odot \lambda_t) \gamma_{t-1}^\top` (the corrected
middle term of (2.25)), and with respect to the states, since :math:`\partial s_t / \partial x_t =
-2 x_t`,

.. math:: o_t = 2 x_t \odot \lambda_t \odot W \gamma_{t-1}

The ordinary backward pass of `longrnn.kernels.cpu_rnn` continues from there: its :math:`\delta_t =
s_t \odot (o_t + W^\top \delta_{t+1})` is the backward coadjoint :math:`\delta_t = - s_t \odot
\alpha_t - q_t \odot \lambda_t \odot W \gamma_{t-1}` with :math:`\alpha` of (2.24), and its product
with the states is the rest of (2.25). So Algorithm 2 takes six matrix products per step, and
backpropagation three.

Stored: the states and the adjoints. The penalty (2.20) depends on Euclidean norms alone, so its
derivative with respect to :math:`\lambda_t` is a multiple of :math:`\lambda_t`, which is computed
when it is needed. :math:`\gamma` and :math:`s \odot \lambda` are stored for `CHUNK_ROWS` rows at a
time, enough for a fast product.
"""

import numpy as np
import torch
from torch import Tensor

from longrnn.kernels._cpu import ONE, engine, kernel
from longrnn.kernels._memory import empty_array_like
from longrnn.kernels._products import sum_of_products
from longrnn.kernels._recurrence import Recurrence

CHUNK_ROWS = 512
"""Rows (steps times sequences) in one product for the weights' gradient."""


@kernel
def _adjoints(W, x, adjoints):
    """Fill the adjoints of all times, given the last one."""
    scaled = np.empty_like(adjoints[0])
    for t in range(len(x) - 1, 0, -1):
        x_t = x[t].ravel()
        lambda_t = adjoints[t].ravel()
        v = scaled.ravel()
        for i in range(v.size):
            v[i] = (ONE - x_t[i] * x_t[i]) * lambda_t[i]
        np.dot(scaled, W, adjoints[t - 1])


@kernel
def _coadjoints(W, x, adjoints, grad_penalty, gamma, scaled, at_states):
    """Compute the coadjoints of one chunk of time steps, from gamma[0] to gamma[-1]."""
    pushed = np.empty_like(gamma[0])  # W gamma_{t-1}
    for t in range(len(x)):
        np.dot(gamma[t], W.T, pushed)
        x_t = x[t].ravel()
        lambda_t = adjoints[t].ravel()
        m_t = grad_penalty[t].ravel()
        g = gamma[t + 1].ravel()
        v = scaled[t].ravel()
        o = at_states[t].ravel()
        p = pushed.ravel()
        for i in range(p.size):
            slope = ONE - x_t[i] * x_t[i]
            g[i] = slope * p[i] - m_t[i]  # (2.23)
            v[i] = slope * lambda_t[i]
            o[i] = (ONE + ONE) * x_t[i] * lambda_t[i] * p[i]


def _forward(W, x, last, norms, adjoints):
    adjoints[-1] = last
    _adjoints(W, x, adjoints)
    norms[:] = np.sqrt(np.einsum("tbi,tbi->tb", adjoints, adjoints))


def _backward(W, x, last, norms, adjoints, grad_norms):
    T, batch, d = x.shape
    # A norm of zero has many slopes: zero is PyTorch's choice too.
    slopes = np.divide(grad_norms, norms, out=np.zeros_like(norms), where=norms > 0)
    steps = min(T, max(1, CHUNK_ROWS // max(1, batch)))
    grad_W = np.zeros_like(W)
    grad_states = empty_array_like(x)
    gamma = np.zeros((steps + 1, batch, d), x.dtype)
    scaled = np.empty((steps, batch, d), x.dtype)
    for start in range(0, T, steps):
        chunk = slice(start, min(start + steps, T))
        k = chunk.stop - start
        grad_penalty = slopes[chunk, :, None] * adjoints[chunk]
        states = x[chunk], adjoints[chunk], grad_penalty
        _coadjoints(W, *states, gamma[: k + 1], scaled[:k], grad_states[chunk])
        grad_W -= sum_of_products(scaled[:k], gamma[:k])
        gamma[0] = gamma[k]
    return grad_W, grad_states, -gamma[0]


def _reference(W, x, last):
    """Compute the norms in plain PyTorch; arguments and results as for the operator."""
    adjoint = last
    adjoints = [last]
    for x_t in reversed(x[1:].unbind(0)):
        adjoint = ((1 - x_t * x_t) * adjoint) @ W
        adjoints.append(adjoint)
    return torch.linalg.vector_norm(torch.stack(adjoints[::-1]), dim=2), ()


_ADJOINT_NORMS = Recurrence(
    "rnn_adjoint_norms_cpu",
    inputs="W x:1 last:0",
    results="norms adjoints",
    final=0,
    saved="W x last norms adjoints",
    shapes=lambda a: [a.x.shape[:2], a.x.shape],
    forward=_forward,
    backward=_backward,
    reference=_reference,
)


@engine("rnn/adjoints")
def rnn_adjoint_norms(W: Tensor, outputs: Tensor, last: Tensor) -> Tensor:
    """Return the Euclidean norms of the adjoints lambda_1..lambda_T of the basic RNN.

    Parameters
    ----------
    W : (hidden, hidden)
        Recurrent weights.
    outputs : (time, batch, hidden)
        States, as an engine returns them.
    last : (batch, hidden)
        The last adjoint, in any sign.

    Returns
    -------
    (time, batch)
        Norms, differentiable by all three.
    """
    return _ADJOINT_NORMS(W, outputs, last)[0]
