"""The loops over time of networks with one dense step on the CPU.

The equations and their adjoints are in `longrnn.kernels.cpu_rnn`. The kernels are compiled for each
network, which has a number here, its `form`. From the state x a step computes y, and from both the
next state:

================  =====================================  ===============================
form              y                                      next state
================  =====================================  ===============================
`BASIC`           tanh(W x + g)                          y
`INTERCHANGED`    tanh(W x + g) or tanh(A x + g)         y
`MODRELU`         modrelu(W x + g, b)                    y
`EULER`           tanh(W x + g)                          x + epsilon y
`LIPSCHITZ`       tanh(W x + g)                          x + epsilon (A x + y)
`FAST` + phi      phi(W x + g)                           beta x + alpha y
================  =====================================  ===============================

Arrays are (time, batch, hidden). A call computes some sequences of the batch, start..stop-1: one
matrix product for all of them, then one loop over their units, which the compiler vectorizes. So
the arrays of one time step are flat there: ``y_t[i]`` is a unit of a sequence. A name that ends in
`_here` is the same memory as (sequences, d), for the product. The condition on the form is decided
when compiling.

In the backward kernel, ``arrived`` is lambda of a unit, the gradient of its state after the step.
It is the sum of what arrives at the output and of ``back``, which comes from the step after.
"""

import numpy as np

from longrnn.kernels._cpu import ONE, ZERO, scalar, variants
from longrnn.kernels._cpu_activations import PHI, TANH, activate, times_slope

BASIC, INTERCHANGED, MODRELU, EULER, LIPSCHITZ, FAST = range(6)
"""Forms of the networks, in an order that lets kernels compare them. From EULER on, the state is
not y. FastRNN's form is FAST plus the number of its activation."""
form = BASIC
"""Compile-time constant: the form of the network."""
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
def forward_kernel(W, A, numbers, uses_W, g, x0, outputs, y, start, stop):
    """Run the sequences start..stop-1.

    Parameters
    ----------
    W : (d, d)
        The matrix inside the activation.
    A : (d, d)
        The Lipschitz RNN's second matrix, or the matrix that is interchanged with W; not read in
        the other networks.
    numbers : (batch, d), (1,), (2,) or (0,)
        The modReLU's b, epsilon, FastRNN's alpha and beta, or nothing.
    uses_W : (time, batch)
        Whether W, and not A, multiplies the state; read only if they are interchanged.
    g : (time, batch, d)
        The drive.
    x0 : (batch, d)
        The initial state.
    outputs : (time, batch, d)
        Receives the states.
    y : (time, batch, d)
        Receives the values of the activation; the array `outputs` itself where y is the state.
    start, stop : int
        The sequences.
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
        # The products are written to the memory of y and x. The loop below reads each number of
        # them before it overwrites it.
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
def backward_kernel(
    W, A, numbers, uses_W, x0, outputs, y, grad_outputs, carried, lambdas, delta, sums, start, stop
):
    """Backpropagate through the sequences start..stop-1.

    Parameters
    ----------
    W, A, numbers, uses_W, x0, start, stop
        As for `forward_kernel`.
    outputs, y : (time, batch, d)
        What `forward_kernel` filled.
    grad_outputs : (time, batch, d)
        Gradients that arrive at the outputs.
    carried : (batch, d)
        Gradient of the final state, which becomes that of the initial one.
    lambdas : (time, batch, d) or (1, batch, d)
        Receives the lambdas of all times in the Lipschitz RNN, which needs them for the gradient
        of A; memory for those of one time in the other networks.
    delta : (time, batch, d)
        Receives the gradients of the drive.
    sums : (2, batch, d)
        Receives the gradients of `numbers` as sums over time; starts at zero.
    """
    flat = numbers.ravel()
    back = carried[start:stop].ravel()  # a view: the products below write to `carried`
    # The Lipschitz RNN's A' lambda, or a second product where W and A are interchanged.
    linear = np.empty_like(carried[start:stop])
    phi = TANH
    alpha = ONE
    beta = ONE
    if form >= EULER:
        alpha = flat[0]
    if form >= FAST:
        phi = form - FAST
        beta = flat[1]
    grad_first = sums[0, start:stop].ravel()  # of the modReLU's b, or of FastRNN's alpha
    grad_last = sums[-1, start:stop].ravel()  # of FastRNN's beta
    for t in range(len(outputs) - 1, -1, -1):
        y_t = y[t, start:stop].ravel()
        o_t = grad_outputs[t, start:stop].ravel()
        delta_here = delta[t, start:stop]
        delta_t = delta_here.ravel()
        lambda_here = lambdas[0, start:stop]
        if form == LIPSCHITZ:
            lambda_here = lambdas[t, start:stop]
        lambda_t = lambda_here.ravel()
        before = y_t  # any array of this type; only FastRNN reads `before`
        if form >= FAST:
            if t > 0:
                before = outputs[t - 1, start:stop].ravel()
            else:
                before = x0[start:stop].ravel()
        for i in range(y_t.size):
            arrived = o_t[i] + back[i]
            if form == MODRELU:  # the slope is 0 or 1; that with respect to b has the sign of y
                if y_t[i] == ZERO:
                    arrived = ZERO
                delta_t[i] = arrived
                if y_t[i] < ZERO:
                    arrived = -arrived
                grad_first[i] += arrived
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
