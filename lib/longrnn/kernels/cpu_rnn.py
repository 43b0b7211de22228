r"""Networks with one dense step on the CPU.

The basic RNN, the LU and the inverse RNN (Johnston 2024, (2.1) and (2.28)), the exponential RNN
(Lezcano-Casado and Martinez-Rubio 2019, section 4), the antisymmetric RNN (Chang et al. 2019, (9)),
the Lipschitz RNN (Erichson et al. 2021, (7)) and FastRNN (Kusupati et al. 2018, section 3.1) share
kernels, which are compiled for each of them (`form`). Arrays are (time, batch, hidden). PyTorch's
threads share the sequences (`longrnn.kernels._threads.run_networks`).

Forward pass, with the drive :math:`g_t = R u_t + b` computed beforehand for all times, from
:math:`y_t = \phi(M_t x_{t-1} + g_t)`:

.. math::
    x_t &= y_t & &\text{basic RNN, exponential RNN; LU and inverse RNN with }
        M_t \in \{W, W^{-1}\} \\
    x_t &= x_{t-1} + \epsilon (A x_{t-1} + y_t) & &\text{Lipschitz RNN; antisymmetric RNN
        without A} \\
    x_t &= \beta x_{t-1} + \alpha y_t & &\text{FastRNN}

where :math:`\phi` is tanh, FastRNN's own choice, or the exponential RNN's modReLU
:math:`\operatorname{sign}(a) \max(|a| + b, 0)`, whose drive has no b. :math:`M_t` is W except in
the LU and the inverse RNN, which interchange it with its inverse as definition 2.4 says (2.28).

Backward pass, with :math:`\alpha = \epsilon, \beta = 1` for the Euler steps, and
:math:`\alpha = 1, \beta = 0` where the state is :math:`y_t`:

.. math::
    \lambda_t = o_t + \beta \lambda_{t+1} + \alpha A^\top \lambda_{t+1}
                + M_{t+1}^\top \delta_{t+1}, \qquad
    \delta_t = \alpha \lambda_t \odot \phi'_t

where :math:`\phi'` follows from y: :math:`1 - y^2` for tanh, and :math:`[y \ne 0]` for the
exponential RNN, since its y has the sign of the argument. Then
:math:`\partial L / \partial g_t = \delta_t` and, one product each over the whole sequence,

.. math::
    \frac{\partial L}{\partial W} = \sum_t \delta_t x_{t-1}^\top, \qquad
    \frac{\partial L}{\partial A} = \epsilon \sum_t \lambda_t x_{t-1}^\top

The exponential RNN's b gets :math:`\sum_t \delta_t \odot \operatorname{sign}(y_t)`, and FastRNN's
:math:`\alpha, \beta` the sums of :math:`\lambda_t \odot y_t` and :math:`\lambda_t \odot x_{t-1}`,
kept per neuron and sequence in the loop. Each of two matrices that alternate sums over its own
steps, as if they were independent; PyTorch carries both gradients on to the parameters. Both are
formed once per call, the LU RNN's inverse by two triangular solves of the identity: 2 d^3
operations, against d^2 for every step and sequence. A step is then one matrix product, where two
solves would take several times as long for the same number of operations.

Stored: the outputs, which exist anyway, and y where it is not the state: computing it from the
outputs would lose digits to a difference. Recomputed: nothing.
"""

from functools import cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from longrnn.kernels._cpu import (
    ACTIVATIONS,
    ONE,
    PHI,
    TANH,
    ZERO,
    activate,
    engine,
    scalar,
    times_slope,
    variants,
)
from longrnn.kernels._drive import Sources
from longrnn.kernels._memory import empty_array_like
from longrnn.kernels._products import state_product, state_products, times_state
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import batches_of_runs, by_run, per_chain, per_sequence, scalars_like
from longrnn.kernels._threads import run_networks

BASIC, INTERCHANGED, MODRELU, EULER, LIPSCHITZ, FAST = range(6)
"""The networks; from EULER on the state is not y. FastRNN is FAST plus its activation's number."""
form = BASIC
"""Compile-time constant: the network."""


_by_form = variants("form", FAST + len(PHI))


@scalar
def modrelu(a, b):
    """Return the modReLU, sign(a) max(abs(a) + b, 0).

    Parameters
    ----------
    a : float
        The argument.
    b : float
        The bias.

    Returns
    -------
    float
        NaN stays NaN.
    """
    sign = ZERO
    if a > ZERO:
        sign = ONE
    elif a < ZERO:
        sign = -ONE
    size = abs(a) + b
    if size <= ZERO:  # not max: NaN must pass
        size = ZERO
    return sign * size


@scalar
def _differ(uses_W):
    """Return whether some sequences use W and others A."""
    for k in range(1, len(uses_W)):  # noqa: SIM110 - Numba compiles no generators
        if uses_W[k] != uses_W[0]:
            return True
    return False


@scalar
def _multiply_interchanged(uses_W, W, A, states, product, other):
    """Let `product` be the products of the rows of `states` with W or A.

    `uses_W` (batch) selects the matrix of each row. `other` is memory for the second product.
    """
    if uses_W[0]:
        np.dot(states, W, product)
    else:
        np.dot(states, A, product)
    if _differ(uses_W):
        if uses_W[0]:
            np.dot(states, A, other)
        else:
            np.dot(states, W, other)
        for k in range(len(uses_W)):
            if uses_W[k] != uses_W[0]:
                for i in range(product.shape[1]):
                    product[k, i] = other[k, i]


@_by_form
def _forward_kernel(W, A, numbers, uses_W, g, x0, outputs, y, start, stop):
    """Run the sequences start..stop-1.

    `numbers` are the modReLU's b (batch, hidden), epsilon, or alpha and beta. `uses_W` (time,
    batch) says whether W or A multiplies the state, if they are interchanged. `y` may be the
    outputs.
    """
    flat = numbers.ravel()
    first = 0  # index of the first sequence's bias
    if form == MODRELU:
        first = start * x0.shape[1]
    phi = TANH
    alpha = ONE
    beta = ONE
    if form >= EULER:
        alpha = flat[0]
    if form >= FAST:
        phi = form - FAST
        beta = flat[1]
    previous = x0[start:stop]
    other = np.empty_like(previous)
    for t in range(len(g)):
        y_here = y[t, start:stop]
        x_here = outputs[t, start:stop]
        if form == INTERCHANGED:
            _multiply_interchanged(uses_W[t, start:stop], W.T, A.T, previous, y_here, other)
        else:
            np.dot(previous, W.T, y_here)
        if form == LIPSCHITZ:
            np.dot(previous, A.T, x_here)
        x = x_here.ravel()
        y_t = y_here.ravel()
        before = previous.ravel()
        g_t = g[t, start:stop].ravel()
        for i in range(g_t.size):
            if form == MODRELU:
                y_t[i] = modrelu(y_t[i] + g_t[i], flat[first + i])
            else:
                y_t[i] = activate(phi, y_t[i] + g_t[i])
            if form == LIPSCHITZ:
                x[i] = before[i] + alpha * (x[i] + y_t[i])
            elif form == EULER:
                x[i] = before[i] + alpha * y_t[i]
        if form >= FAST:
            for i in range(g_t.size):
                x[i] = alpha * y_t[i] + beta * before[i]
        previous = x_here


@_by_form
def _backward_kernel(
    W, A, numbers, uses_W, x0, outputs, y, grad_outputs, carried, lambdas, delta, sums, start, stop
):
    """Backpropagate through the sequences start..stop-1.

    `carried` is the gradient of the final state and becomes that of the initial one. `sums`
    (numbers, batch, hidden) start at zero. The Lipschitz RNN keeps all `lambdas`, the others one.
    """
    flat = numbers.ravel()
    back = carried[start:stop].ravel()
    linear = np.empty_like(carried[start:stop])
    phi = TANH
    alpha = ONE
    beta = ONE
    if form >= EULER:
        alpha = flat[0]
    if form >= FAST:
        phi = form - FAST
        beta = flat[1]
    grad_first = sums[0, start:stop].ravel()
    grad_last = sums[-1, start:stop].ravel()
    for t in range(len(outputs) - 1, -1, -1):
        y_t = y[t, start:stop].ravel()
        o_t = grad_outputs[t, start:stop].ravel()
        delta_here = delta[t, start:stop]
        delta_t = delta_here.ravel()
        lambda_here = lambdas[0, start:stop]
        if form == LIPSCHITZ:
            lambda_here = lambdas[t, start:stop]
        lambda_t = lambda_here.ravel()
        before = y_t
        if form >= FAST:
            before = outputs[t - 1, start:stop].ravel() if t > 0 else x0[start:stop].ravel()
        for i in range(y_t.size):
            arrived = o_t[i] + back[i]
            if form == MODRELU:
                if y_t[i] == ZERO:
                    arrived = ZERO
                delta_t[i] = arrived
                grad_first[i] += -arrived if y_t[i] < ZERO else arrived
            elif form >= FAST:
                lambda_t[i] = arrived
                grad_first[i] += arrived * y_t[i]
                grad_last[i] += arrived * before[i]
            elif form >= EULER:
                lambda_t[i] = arrived
                delta_t[i] = times_slope(phi, alpha * arrived, y_t[i])
            else:
                delta_t[i] = times_slope(phi, arrived, y_t[i])
        if form >= FAST:  # a second loop: the compiler does not vectorize one over many arrays
            for i in range(y_t.size):
                delta_t[i] = times_slope(phi, alpha * lambda_t[i], y_t[i])
        if form == INTERCHANGED:
            uses_W_t = uses_W[t, start:stop]
            _multiply_interchanged(uses_W_t, W, A, delta_here, carried[start:stop], linear)
        else:
            np.dot(delta_here, W, carried[start:stop])
        if form == LIPSCHITZ:
            np.dot(lambda_here, A, linear)
            linear_t = linear.ravel()
            for i in range(y_t.size):
                back[i] += lambda_t[i] + alpha * linear_t[i]
        elif form >= FAST:
            for i in range(y_t.size):
                back[i] += beta * lambda_t[i]
        elif form == EULER:
            for i in range(y_t.size):
                back[i] += lambda_t[i]


_NO_CHOICE = np.empty((0, 0), bool)
"""Stands for `uses_W` if there is only one matrix; the kernels do not read it."""


def _weights(W, A, numbers, bias):
    """Return what the sequences of a network share: W, A and numbers, of every network."""
    W_of_run = by_run(W, W)
    networks = len(W_of_run)
    if bias is not None:  # of all sequences
        numbers_of_run = [bias] * networks
    elif numbers is None:
        numbers_of_run = [np.empty(0, W.dtype)] * networks
    else:
        numbers_of_run = by_run(W, numbers)
    A_of_run = W_of_run if A is None else by_run(W, A)
    return [W_of_run, A_of_run, numbers_of_run]


def _forward(form, uses_W, W, A, numbers, g, bias, x0, outputs, x_end, y):
    if uses_W is None:
        uses_W = _NO_CHOICE
    if form < EULER:
        y = outputs
    weights = _weights(W, A, numbers, bias)
    run_networks(_forward_kernel[form], weights, x0, len(g), uses_W, g, x0, outputs, y)
    x_end[:] = outputs[-1]


def _backward(form, uses_W, W, A, numbers, bias, x0, outputs, y, grad_outputs, carried):
    if uses_W is None:
        uses_W = _NO_CHOICE
    if form < EULER:
        y = outputs
    delta = empty_array_like(outputs)
    sums = np.zeros((2, *x0.shape), x0.dtype)
    lambdas = empty_array_like(outputs if form == LIPSCHITZ else outputs[:1])
    weights = _weights(W, A, numbers, bias)
    states = uses_W, x0, outputs, y, grad_outputs, carried
    run = _backward_kernel[form]
    run_networks(run, weights, x0, len(outputs), *states, lambdas, delta, sums)
    grad_W = state_products(W, delta, x0, outputs)
    grad_A = None
    grad_numbers = None
    grad_bias = None
    if form == INTERCHANGED:
        of_both = cache(lambda: _interchanged_gradients(W, uses_W, delta, x0, outputs))
        grad_W = lambda: of_both()[0]  # noqa: E731
        grad_A = lambda: of_both()[1]  # noqa: E731
    elif form == MODRELU:
        grad_bias = sums[0]
    elif form == LIPSCHITZ:
        epsilon = numbers[..., :1, None] if W.ndim == 3 else numbers[0]
        grad_A = lambda: epsilon * state_products(W, lambdas, x0, outputs)()  # noqa: E731
    elif form >= FAST:
        grad_numbers = _sums_of_runs(W, sums)
    return None, grad_W, grad_A, grad_numbers, delta, grad_bias, carried


def _sums_of_runs(W, sums):
    """Return `sums` (numbers, batch, hidden) over the sequences and units of each run."""
    if W.ndim == 2:
        return sums.sum(axis=(1, 2))
    batches = batches_of_runs(len(W), sums.shape[1])
    return np.stack([sums[:, batch].sum(axis=(1, 2)) for batch in batches])


def _interchanged_gradients(W, uses_W, delta, x0, outputs):
    """Return the gradients of W and of its inverse, of one run or of each of several."""
    if W.ndim == 2:
        return _interchanged_products(uses_W, delta, x0, outputs)
    of_runs = []
    for batch in batches_of_runs(len(W), len(x0)):
        parts = uses_W[:, batch], delta[:, batch], x0[batch], outputs[:, batch]
        of_runs.append(_interchanged_products(*parts))
    grad_W, grad_inverse = zip(*of_runs, strict=True)
    return np.stack(grad_W), np.stack(grad_inverse)


def _interchanged_products(uses_W, delta, x0, outputs):
    """Return the gradients of W and of its inverse for one run."""
    if (uses_W != uses_W[:, :1]).any():
        by_W = uses_W[..., None]
        zero = delta.dtype.type(0)
        grad_W = state_product(np.where(by_W, delta, zero), x0, outputs)()
        grad_A = state_product(np.where(by_W, zero, delta), x0, outputs)()
        return grad_W, grad_A
    by_W = uses_W[:, 0]
    grad_W = np.zeros(delta.shape[2:] * 2, delta.dtype)
    grad_A = np.zeros_like(grad_W)
    changes = np.flatnonzero(by_W[1:] != by_W[:-1]) + 1
    for start, stop in pairwise([0, *changes, len(by_W)]):
        before = outputs[start - 1] if start > 0 else x0
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
    phi = ACTIVATIONS[form - FAST] if form >= FAST else torch.tanh
    if form >= FAST:
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


def _shapes(a):
    y = a.g.shape if a.form >= EULER else (0, *a.x0.shape)
    return [a.g.shape, a.x0.shape, y]


_DENSE = Recurrence(
    "dense_cpu",
    settings="int form",
    inputs="uses_W?:1 W A? numbers? g:1 bias?:0 x0:0",
    results="outputs x_end y",
    saved="uses_W W A numbers bias x0 outputs y",
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=reference,
    runs=True,
)

NETWORKS = {
    "rnn": lambda W, R, b: (BASIC, W, None, None, None, R, b),
    "exponential": lambda B, R, b: (MODRELU, B, None, None, b, R, None),
    "antisymmetric": lambda W, R, b, epsilon: (EULER, W, None, [epsilon], None, R, b),
    "lipschitz": lambda A, W, R, b, epsilon: (LIPSCHITZ, W, A, [epsilon], None, R, b),
    "fastrnn": lambda U, W, b, alpha, beta, phi: (
        FAST + PHI[phi],
        U,
        None,
        [alpha, beta],
        None,
        W,
        b,
    ),
}
"""What a network passes to the kernels: form, W, A, numbers, modReLU's b, R and b of the drive.

Numbers are epsilon, or alpha and beta. The networks are the dissertation's (2.1), Lezcano-Casado's,
Chang's (9), Erichson's (7) and section 3.1 of Kusupati et al.
"""


SLOWER_FROM = {"rnn": 512}
"""Hidden sizes from which PyTorch's own layer is faster on several threads. With 32 sequences it
takes 0.6 to 0.7 of the time on two threads, and 1.1 to 1.3 times as long on one."""


def _register(cell: str) -> None:
    @engine(cell, slower_from=SLOWER_FROM.get(cell), runs=True)
    def run(weights, state, u):
        form, W, A, numbers, bias, R, b = NETWORKS[cell](*weights)
        (x0,) = state
        if form >= FAST:
            numbers = torch.stack(numbers)
        elif numbers is not None:
            numbers = scalars_like(W, *numbers)
        if bias is not None:
            bias = per_chain(bias, x0)
        sources = Sources(u, R, b)
        g = sources.drive()
        return _DENSE(form, None, W, A, numbers, g, bias, x0, sources=sources)


for _cell in NETWORKS:
    _register(_cell)


@engine("lu_rnn", runs=True)
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
    identity = torch.eye(len(L), dtype=L.dtype)
    half = torch.linalg.solve_triangular(L, identity, upper=False, unitriangular=True)
    inverse = torch.linalg.solve_triangular(U, half, upper=True)
    return _run_interchanged(L @ U, inverse, tau, Sources(u, R, b), state)


@engine("inverse_rnn", runs=True)
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
    # The time of a sequence is that of all its neurons.
    times = torch.arange(len(g), dtype=t.dtype, device=t.device)[:, None] + t[:, 0].detach()
    uses_W = times.remainder(2 * tau) < tau
    outputs, (x,) = _DENSE(INTERCHANGED, uses_W, W, inverse, None, g, None, x0, sources=sources)
    return outputs, (x, t + len(g))
