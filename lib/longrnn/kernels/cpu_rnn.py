r"""Networks of one dense step on the CPU.

They share kernels, which are compiled for each of them (`form`).

Forward, with the drive :math:`g_t = R u_t + b` of all times computed before, from
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

Adjoint, with :math:`\alpha = \epsilon, \beta = 1` for the Euler steps, and
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
kept per neuron and sequence in the loop. Each of two matrices that take turns sums over its own
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
from longrnn.kernels._memory import empty_array_like
from longrnn.kernels._recurrence import (
    Recurrence,
    Sources,
    batches_of_runs,
    by_run,
    per_chain,
    per_sequence,
    scalars_like,
    state_product,
    state_products,
    times_state,
)
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
    sign = ONE if a > ZERO else (-ONE if a < ZERO else ZERO)
    size = abs(a) + b
    size = ZERO if size <= ZERO else size  # not max or min: NaN must pass
    return sign * size


@scalar
def _takes_turns(turns_t):
    """Return whether sequences stand at different turns, so that both matrices are needed."""
    for k in range(1, len(turns_t)):  # noqa: SIM110 - Numba compiles no generators
        if turns_t[k] != turns_t[0]:
            return True
    return False


@_by_form
def _forward_kernel(W, A, numbers, turns, g, x0, outputs, y, start, stop):
    """`y` may be the outputs; `turns` (time, batch) says where W is used, and A elsewhere.

    `numbers` are the modReLU's b (batch, hidden), epsilon, or alpha and beta.
    """
    flat = numbers.ravel()
    first = start * x0.shape[1] if form == MODRELU else 0
    phi = form - FAST if form >= FAST else TANH
    alpha, beta = flat[0] if form >= EULER else ONE, flat[1] if form >= FAST else ONE
    previous = x0[start:stop]
    other = np.empty_like(previous)
    for t in range(len(g)):
        y_here, x_here = y[t, start:stop], outputs[t, start:stop]
        M = A if form == INTERCHANGED and not turns[t, start] else W
        np.dot(previous, M.T, y_here)
        if form == INTERCHANGED and _takes_turns(turns[t, start:stop]):
            N = W if not turns[t, start] else A
            np.dot(previous, N.T, other)
            for k in range(start, stop):
                if turns[t, k] != turns[t, start]:
                    for i in range(x0.shape[1]):
                        y[t, k, i] = other[k - start, i]
        if form == LIPSCHITZ:
            np.dot(previous, A.T, x_here)
        x, y_t, before = x_here.ravel(), y_here.ravel(), previous.ravel()
        g_t = g[t, start:stop].ravel()
        for i in range(g_t.size):
            if form == MODRELU:
                y_t[i] = modrelu(y_t[i] + g_t[i], flat[first + i])
            else:
                y_t[i] = activate(phi, y_t[i] + g_t[i])
            if EULER <= form < FAST:
                linear = x[i] if form == LIPSCHITZ else ZERO
                x[i] = before[i] + alpha * (linear + y_t[i])
        if form >= FAST:
            for i in range(g_t.size):
                x[i] = alpha * y_t[i] + beta * before[i]
        previous = x_here


@_by_form
def _backward_kernel(
    W, A, numbers, turns, x0, outputs, y, from_outputs, carried, lambdas, delta, sums, start, stop
):
    """`carried` is the gradient of the final state and becomes that of the initial one.

    `sums` (numbers, batch, hidden) start at zero. The Lipschitz RNN keeps all `lambdas`, the
    others one.
    """
    flat, back = numbers.ravel(), carried[start:stop].ravel()
    linear = np.empty_like(carried[start:stop])
    phi = form - FAST if form >= FAST else TANH
    alpha, beta = flat[0] if form >= EULER else ONE, flat[1] if form >= FAST else ONE
    of_first, of_last = sums[0, start:stop].ravel(), sums[-1, start:stop].ravel()
    for t in range(len(outputs) - 1, -1, -1):
        y_t, o_t = y[t, start:stop].ravel(), from_outputs[t, start:stop].ravel()
        delta_here = delta[t, start:stop]
        delta_t = delta_here.ravel()
        at = t if form == LIPSCHITZ else 0
        lambda_here = lambdas[at, start:stop]
        lambda_t, before = lambda_here.ravel(), y_t
        if form >= FAST:
            before = x0[start:stop].ravel() if t == 0 else outputs[t - 1, start:stop].ravel()
        for i in range(y_t.size):
            arrived = o_t[i] + back[i]
            if form == MODRELU:
                arrived = ZERO if y_t[i] == ZERO else arrived
                delta_t[i] = arrived
                of_first[i] += -arrived if y_t[i] < ZERO else arrived
            elif form >= FAST:
                lambda_t[i] = arrived
                of_first[i] += arrived * y_t[i]
                of_last[i] += arrived * before[i]
            elif form >= EULER:
                lambda_t[i] = arrived
                delta_t[i] = times_slope(phi, alpha * arrived, y_t[i])
            else:
                delta_t[i] = times_slope(phi, arrived, y_t[i])
        if form >= FAST:  # apart: with many arrays in one loop the compiler does not vectorise it
            for i in range(y_t.size):
                delta_t[i] = times_slope(phi, alpha * lambda_t[i], y_t[i])
        M = A if form == INTERCHANGED and not turns[t, start] else W
        np.dot(delta_here, M, carried[start:stop])
        if form == INTERCHANGED and _takes_turns(turns[t, start:stop]):
            N = W if not turns[t, start] else A
            np.dot(delta_here, N, linear)
            for k in range(start, stop):
                if turns[t, k] != turns[t, start]:
                    for i in range(x0.shape[1]):
                        carried[k, i] = linear[k - start, i]
        if form == LIPSCHITZ:
            np.dot(lambda_here, A, linear)
            linear_t = linear.ravel()
            for i in range(y_t.size):
                back[i] += lambda_t[i] + alpha * linear_t[i]
        elif form >= EULER:
            for i in range(y_t.size):
                back[i] += beta * lambda_t[i] if form >= FAST else lambda_t[i]


_NO_TURNS = np.empty((0, 0), bool)


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


def _forward(form, turns, W, A, numbers, g, bias, x0, outputs, x_end, y):
    if turns is None:
        turns = _NO_TURNS
    if form < EULER:
        y = outputs
    weights = _weights(W, A, numbers, bias)
    run_networks(_forward_kernel[form], weights, x0, len(g), turns, g, x0, outputs, y)
    x_end[:] = outputs[-1]


def _backward(form, turns, W, A, numbers, bias, x0, outputs, y, from_outputs, carried):
    if turns is None:
        turns = _NO_TURNS
    if form < EULER:
        y = outputs
    delta = empty_array_like(outputs)
    sums = np.zeros((2, *x0.shape), x0.dtype)
    lambdas = empty_array_like(outputs if form == LIPSCHITZ else outputs[:1])
    weights = _weights(W, A, numbers, bias)
    states = turns, x0, outputs, y, from_outputs, carried
    run = _backward_kernel[form]
    run_networks(run, weights, x0, len(outputs), *states, lambdas, delta, sums)
    of_W = state_products(W, delta, x0, outputs)
    of_A = None
    of_numbers = None
    of_bias = None
    if form == INTERCHANGED:
        of_both = cache(lambda: _gradients_by_turns(W, turns, delta, x0, outputs))
        of_W = lambda: of_both()[0]  # noqa: E731
        of_A = lambda: of_both()[1]  # noqa: E731
    elif form == MODRELU:
        of_bias = sums[0]
    elif form == LIPSCHITZ:
        epsilon = numbers[..., :1, None] if W.ndim == 3 else numbers[0]
        of_A = lambda: epsilon * state_products(W, lambdas, x0, outputs)()  # noqa: E731
    elif form >= FAST:
        of_numbers = _sums_of_runs(W, sums)
    return None, of_W, of_A, of_numbers, delta, of_bias, carried


def _sums_of_runs(W, sums):
    """Return `sums` (numbers, batch, hidden) over the sequences and units of each run."""
    if W.ndim == 2:
        return sums.sum(axis=(1, 2))
    batches = batches_of_runs(len(W), sums.shape[1])
    return np.stack([sums[:, batch].sum(axis=(1, 2)) for batch in batches])


def _gradients_by_turns(W, turns, delta, x0, outputs):
    """Return the gradients of W and of its inverse, of one run or of each of several."""
    if W.ndim == 2:
        return _products_by_turns(turns, delta, x0, outputs)
    of_runs = []
    for batch in batches_of_runs(len(W), len(x0)):
        parts = turns[:, batch], delta[:, batch], x0[batch], outputs[:, batch]
        of_runs.append(_products_by_turns(*parts))
    of_W, of_inverse = zip(*of_runs, strict=True)
    return np.stack(of_W), np.stack(of_inverse)


def _products_by_turns(turns, delta, x0, outputs):
    """Return the gradients of W and of its inverse for one run."""
    if (turns != turns[:, :1]).any():
        by_W = turns[..., None]
        zero = delta.dtype.type(0)
        of_W = state_product(np.where(by_W, delta, zero), x0, outputs)()
        of_A = state_product(np.where(by_W, zero, delta), x0, outputs)()
        return of_W, of_A
    by_matrix = turns[:, 0]
    d = delta.shape[2]
    gradients = [np.zeros((d, d), delta.dtype) for _ in range(2)]
    borders = [0, *(np.flatnonzero(by_matrix[1:] != by_matrix[:-1]) + 1), len(by_matrix)]
    for start, stop in pairwise(borders):
        before = outputs[start - 1] if start else x0
        stretch = slice(start, stop)
        gradient = state_product(delta[stretch], before, outputs[stretch])
        gradients[0 if by_matrix[start] else 1] += gradient()
    return gradients


def reference(form, turns, W, A, numbers, g, bias, x):
    """Run the networks in plain PyTorch: the operator's reference.

    Parameters
    ----------
    form : int
        The network: `BASIC` and others.
    turns : (time, batch) or None
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
            a = torch.where(turns[t][:, None], a, times_state(A, x) + g_t)
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
    inputs="turns?:1 W A? numbers? g:1 bias?:0 x0:0",
    results="outputs x_end y",
    saved="turns W A numbers bias x0 outputs y",
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
    return _take_turns(L @ U, inverse, tau, Sources(u, R, b), state)


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
    return _take_turns(W, inverse, tau, Sources(u, R, b), state)


def _take_turns(W: Tensor, inverse: Tensor, tau: int, sources: Sources, state):
    """Run (2.28) by the rule of `longrnn.cells._interchange.alternate`."""
    x0, t = state
    g = sources.drive()
    # The time of a sequence is that of all its neurons.
    times = torch.arange(len(g), dtype=t.dtype, device=t.device)[:, None] + t[:, 0].detach()
    turns = times.remainder(2 * tau) < tau
    outputs, (x,) = _DENSE(INTERCHANGED, turns, W, inverse, None, g, None, x0, sources=sources)
    return outputs, (x, t + len(g))
