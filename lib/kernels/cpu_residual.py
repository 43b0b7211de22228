r"""The antisymmetric and the Lipschitz RNN on one CPU core: Euler steps of a dense recurrence.

Forward, with the drive :math:`g_t = R u_t + b` of all times computed before; the antisymmetric RNN has no A:

.. math:: x_t = x_{t-1} + \epsilon (A x_{t-1} + y_t), \qquad y_t = \tanh(W x_{t-1} + g_t)

Adjoint. Let :math:`\lambda_t` be the derivative of the loss by :math:`x_t` through everything that follows, and
:math:`o_t` the part that arrives at the output at t (the gradient of the final state belongs to :math:`o_T`):

.. math::
    \lambda_t &= o_t + \lambda_{t+1} + \epsilon A^\top \lambda_{t+1} + W^\top \delta_{t+1} \\
    \delta_t &= \epsilon \lambda_t \odot (1 - y_t^2)

Then :math:`\partial L / \partial g_t = \delta_t`, :math:`\partial L / \partial W = \sum_t \delta_t x_{t-1}^\top` and
:math:`\partial L / \partial A = \epsilon \sum_t \lambda_t x_{t-1}^\top`, one product each over the whole sequence.

Stored: the outputs and y_t, which cannot be had from the outputs without losing digits to a difference.
"""

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._cpu import array, drive, gradient_array, kernel, recurrent_gradient, tanh
from lib.kernels._cpu_engine import engine


@kernel
def _forward(A, W, epsilon, g, x0, outputs, y):
    zero = W.dtype.type(0)
    previous = x0
    for t in range(len(g)):
        np.dot(previous, W.T, y[t])
        if A is None:  # decided when compiling
            outputs[t].fill(zero)
        else:
            np.dot(previous, A.T, outputs[t])
        before, x, y_t, g_t = previous.ravel(), outputs[t].ravel(), y[t].ravel(), g[t].ravel()
        for i in range(x.size):
            y_t[i] = tanh(y_t[i] + g_t[i])
            x[i] = before[i] + epsilon * (x[i] + y_t[i])
        previous = outputs[t]


@kernel
def _backward(A, W, epsilon, y, from_outputs, carried, lambdas, delta):
    """`carried` is the gradient of the final state and becomes that of the initial one."""
    one = W.dtype.type(1)
    back = carried.ravel()
    linear = np.zeros_like(carried)
    for t in range(len(y) - 1, -1, -1):
        y_t, o_t = y[t].ravel(), from_outputs[t].ravel()
        lambda_t, delta_t, linear_t = lambdas[t].ravel(), delta[t].ravel(), linear.ravel()
        for i in range(y_t.size):
            lambda_t[i] = o_t[i] + back[i]
            delta_t[i] = epsilon * lambda_t[i] * (one - y_t[i] * y_t[i])
        np.dot(delta[t], W, carried)
        if A is not None:
            np.dot(lambdas[t], A, linear)
        for i in range(y_t.size):
            back[i] += lambda_t[i] + epsilon * linear_t[i]


class _Residual(torch.autograd.Function):
    @staticmethod
    def forward(
        A: Tensor | None, W: Tensor, epsilon: float, g: Tensor, x0: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        g, x0 = array(g), array(x0)
        outputs, y = np.empty_like(g), np.empty_like(g)
        _forward(*_arguments(A, W, epsilon), g, x0, outputs, y)
        return tuple(torch.from_numpy(part) for part in (outputs, outputs[-1].copy(), y))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        A, W, ctx.epsilon, _, x0 = inputs
        outputs, _, y = output
        ctx.mark_non_differentiable(y)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(A, W, x0, outputs, y)

    @staticmethod
    @once_differentiable
    def backward(ctx, from_outputs: Tensor | None, from_final: Tensor | None, _) -> tuple:
        A, W, *states = ctx.saved_tensors
        x0, outputs, y = (array(part) for part in states)
        lambdas, delta = np.empty_like(y), np.empty_like(y)
        from_outputs = gradient_array(from_outputs, outputs)
        carried = gradient_array(from_final, x0).copy()
        _backward(*_arguments(A, W, ctx.epsilon), y, from_outputs, carried, lambdas, delta)
        A_gradient = W_gradient = None
        if ctx.needs_input_grad[0]:
            A_gradient = ctx.epsilon * torch.from_numpy(recurrent_gradient(lambdas, x0, outputs))
        if ctx.needs_input_grad[1]:
            W_gradient = torch.from_numpy(recurrent_gradient(delta, x0, outputs))
        return A_gradient, W_gradient, None, torch.from_numpy(delta), torch.from_numpy(carried)


def _arguments(A: Tensor | None, W: Tensor, epsilon: float) -> tuple:
    """Return A, W and epsilon as the kernels take them, all of one type."""
    W = array(W)
    return None if A is None else array(A), W, W.dtype.type(epsilon)


@engine("antisymmetric")
def antisymmetric(weights, state, u):
    """The antisymmetric RNN, (9) of Chang et al.; shapes as in `lib.cells.Cell.forward`."""
    W, R, b, epsilon = weights
    outputs, x, _ = _Residual.apply(None, W, epsilon, drive(u, R, b), state[0])
    return outputs, (x,)


@engine("lipschitz")
def lipschitz(weights, state, u):
    """The Lipschitz RNN, (7) of Erichson et al.; shapes as in `lib.cells.Cell.forward`."""
    A, W, R, b, epsilon = weights
    outputs, x, _ = _Residual.apply(A, W, epsilon, drive(u, R, b), state[0])
    return outputs, (x,)
