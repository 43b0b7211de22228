"""The loops of `longrnn.kernels._cpu_dense` as one PyTorch operator, with gradients and reference.

The equations are in `longrnn.kernels.cpu_rnn`.
"""

from functools import cache, partial
from itertools import pairwise

import numpy as np
import torch

from longrnn.kernels._cpu_activations import ACTIVATIONS
from longrnn.kernels._cpu_dense import (
    EULER,
    FAST,
    INTERCHANGED,
    LIPSCHITZ,
    MODRELU,
    backward_kernel,
    forward_kernel,
)
from longrnn.kernels._memory import empty_array_like
from longrnn.kernels._products import state_product, state_products, times_state
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import batches_of_runs, per_sequence, with_run_axis
from longrnn.kernels._threads import run_networks

_NO_CHOICE = np.empty((0, 0), bool)
"""Stands for `uses_W` if there is only one matrix; the kernels do not read it."""


def _weights(W, A, numbers, bias):
    """Return W, A and `numbers`, each with the networks as its first axis, for `run_networks`."""
    W_of_run = with_run_axis(W, W)
    networks = len(W_of_run)
    if bias is not None:  # of all sequences; a kernel reads that of its own
        numbers_of_run = [bias] * networks
    elif numbers is None:
        numbers_of_run = [np.empty(0, W.dtype)] * networks
    else:
        numbers_of_run = with_run_axis(W, numbers)
    A_of_run = W_of_run  # stands for a matrix that the kernels do not read
    if A is not None:
        A_of_run = with_run_axis(W, A)
    return [W_of_run, A_of_run, numbers_of_run]


def _forward(form, uses_W, W, A, numbers, g, bias, x0, outputs, x_end, y):
    if uses_W is None:
        uses_W = _NO_CHOICE
    if form < EULER:
        y = outputs
    weights = _weights(W, A, numbers, bias)
    run_networks(forward_kernel[form], weights, x0, len(g), uses_W, g, x0, outputs, y)
    x_end[:] = outputs[-1]


def _backward(form, uses_W, W, A, numbers, bias, x0, outputs, y, grad_outputs, carried):
    if uses_W is None:
        uses_W = _NO_CHOICE
    if form < EULER:
        y = outputs
    delta = empty_array_like(outputs)
    sums = np.zeros((2, *x0.shape), x0.dtype)
    kept_lambdas = outputs[:1]
    if form == LIPSCHITZ:
        kept_lambdas = outputs
    lambdas = empty_array_like(kept_lambdas)
    weights = _weights(W, A, numbers, bias)
    states = uses_W, x0, outputs, y, grad_outputs, carried
    run = backward_kernel[form]
    run_networks(run, weights, x0, len(outputs), *states, lambdas, delta, sums)
    grad_W = state_products(W, delta, x0, outputs)
    grad_A = None
    grad_numbers = None
    grad_bias = None
    if form == INTERCHANGED:
        grad_W, grad_A = _interchanged_gradients(W, uses_W, delta, x0, outputs)
    elif form == MODRELU:
        grad_bias = sums[0]
    elif form == LIPSCHITZ:
        grad_A = partial(_lipschitz_gradient, W, numbers, lambdas, x0, outputs)
    elif form >= FAST:
        grad_numbers = _sums_of_runs(W, sums)
    return None, grad_W, grad_A, grad_numbers, delta, grad_bias, carried


def _sums_of_runs(W, sums):
    """Return `sums` (numbers, batch, hidden) over the sequences and units of each run."""
    if W.ndim == 2:
        return sums.sum(axis=(1, 2))
    batches = batches_of_runs(len(W), sums.shape[1])
    return np.stack([sums[:, batch].sum(axis=(1, 2)) for batch in batches])


def _lipschitz_gradient(W, numbers, lambdas, x0, outputs):
    """Return the gradient of the Lipschitz RNN's A, of one run or of each of several."""
    epsilon = numbers[0]
    if W.ndim == 3:
        epsilon = numbers[..., :1, None]
    return epsilon * state_products(W, lambdas, x0, outputs)()


def _interchanged_gradients(W, uses_W, delta, x0, outputs):
    """Return functions that compute the gradients of W and of its inverse.

    One computation gives both, when the first of them is wanted.
    """
    both = cache(partial(_interchanged_sums, W, uses_W, delta, x0, outputs))

    def grad_W():
        return both()[0]

    def grad_inverse():
        return both()[1]

    return grad_W, grad_inverse


def _interchanged_sums(W, uses_W, delta, x0, outputs):
    """Return the gradients of W and of its inverse, of one run or of each of several."""
    if W.ndim == 2:
        return _interchanged_products(uses_W, delta, x0, outputs)
    gradients = []
    for batch in batches_of_runs(len(W), len(x0)):
        parts = uses_W[:, batch], delta[:, batch], x0[batch], outputs[:, batch]
        gradients.append(_interchanged_products(*parts))
    grad_W, grad_inverse = zip(*gradients, strict=True)
    return np.stack(grad_W), np.stack(grad_inverse)


def _interchanged_products(uses_W, delta, x0, outputs):
    """Return the gradients of W and of its inverse for one run.

    If all sequences interchange the matrices at the same times, each stretch of steps with one
    matrix is one product. Otherwise there are two products over all steps, with zeros for the
    deltas of the other matrix.
    """
    if (uses_W != uses_W[:, :1]).any():
        by_W = uses_W[..., None]
        zero = delta.dtype.type(0)
        grad_W = state_product(np.where(by_W, delta, zero), x0, outputs)()
        grad_A = state_product(np.where(by_W, zero, delta), x0, outputs)()
        return grad_W, grad_A
    by_W = uses_W.any(axis=1)  # not column 0, which an empty batch does not have
    grad_W = np.zeros(delta.shape[2:] * 2, delta.dtype)
    grad_A = np.zeros_like(grad_W)
    changes = np.flatnonzero(by_W[1:] != by_W[:-1]) + 1
    for start, stop in pairwise([0, *changes, len(by_W)]):
        before = x0
        if start > 0:
            before = outputs[start - 1]
        stretch = slice(start, stop)
        product = state_product(delta[stretch], before, outputs[stretch])()
        if by_W[start]:
            grad_W += product
        else:
            grad_A += product
    return grad_W, grad_A


def reference(form, uses_W, W, A, numbers, g, bias, x):
    """Run the networks in plain PyTorch: the operator's reference.

    Parameters
    ----------
    form : int
        The network: `BASIC` and others.
    uses_W : (time, batch) or None
        Whether W, and not A, multiplies the state; for `INTERCHANGED` only.
    W : (d, d) or (runs, d, d)
        The matrix inside the activation.
    A : (d, d), (runs, d, d) or None
        The second matrix, if the network has one.
    numbers : (n,), (runs, n) or None
        epsilon, or alpha and beta.
    g : (time, batch, d)
        The drive.
    bias : (d,), (batch, d) or None
        The modReLU's b.
    x : (batch, d)
        The initial state.

    Returns
    -------
    outputs : (time, batch, d)
        The output after every input.
    final : tuple of (batch, d)
        (x,) after the last input.
    """
    phi = torch.tanh
    if form >= FAST:
        phi = ACTIVATIONS[form - FAST]
        alpha, beta = (per_sequence(number, x) for number in numbers.unbind(-1))
    elif form >= EULER:
        epsilon = per_sequence(numbers[..., 0], x)
    outputs = []
    for t, g_t in enumerate(g.unbind(0)):
        a = times_state(W, x) + g_t
        if form == INTERCHANGED:
            a = torch.where(uses_W[t][:, None], a, times_state(A, x) + g_t)
        if form == MODRELU:
            x = a.sign() * torch.relu(a.abs() + bias)
        elif form >= FAST:
            x = alpha * phi(a) + beta * x
        elif form == LIPSCHITZ:
            x = x + epsilon * (times_state(A, x) + torch.tanh(a))
        elif form == EULER:
            x = x + epsilon * torch.tanh(a)
        else:
            x = torch.tanh(a)
        outputs.append(x)
    return torch.stack(outputs), (x,)


def shapes(a):
    """Return the shapes of the outputs, the final state, and y, which the adjoint may need.

    Parameters
    ----------
    a : namedtuple
        Settings and inputs of the operator, for the CPU or the GPU.

    Returns
    -------
    list of tuple
    """
    y = 0, *a.x0.shape
    if a.form >= EULER:
        y = a.g.shape
    return [a.g.shape, a.x0.shape, y]


DENSE = Recurrence(
    "dense_cpu",
    settings="int form",
    inputs="uses_W?:1 W A? numbers? g:1 bias?:0 x0:0",
    results="outputs x_end y",
    saved="uses_W W A numbers bias x0 outputs y",
    shapes=shapes,
    forward=_forward,
    backward=_backward,
    reference=reference,
    takes_networks=True,
)
"""``DENSE(form, uses_W, W, A, numbers, g, bias, x0) -> (outputs, (x_T,))``, see `reference`."""
