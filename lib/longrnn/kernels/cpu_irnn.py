r"""The incremental RNN on one CPU core: equations (5) and (8) of Kag et al. 2020.

Arrays are (time, batch, hidden), and step sizes (time, batch, K). All K inner steps of a round are
computed in one pass. Products with a matrix of low rank are computed with its two factors.

Forward pass of one round, with the drive :math:`r_k = W x_k + b` computed beforehand for all
rounds; form (8) multiplies twice:

.. math::
    s_i &= g_{i-1} + \sigma h_{k-1}, \qquad a_i = U s_i + r_k \;\; (\text{then } U a_i) \\
    z_i &= \phi(a_i), \qquad
    g_i = g_{i-1} + \eta_i (z_i - \alpha s_i)

from :math:`g_0 = 0` or :math:`h_{k-1}`. With :math:`U = \alpha I + V H` a product is :math:`\alpha
s + V (H s)`, which reads 2 d r weights instead of d^2, with the rank r.

Backward pass. Let :math:`\gamma_i` be the derivative of the loss with respect to :math:`g_i`; it
starts from :math:`\gamma_K = \lambda_k`, the derivative with respect to :math:`h_k` through
everything that follows and through the output. For i = K..1:

.. math::
    \delta_i &= \eta_i \gamma_i \odot \phi'_i, \qquad
    \rho_i = \delta_i \;\; (\text{in form (8) } U^\top \delta_i) \\
    \varsigma_i &= U^\top \rho_i - \alpha \eta_i \gamma_i, \qquad
    \gamma_{i-1} = \gamma_i + \varsigma_i

Then :math:`\lambda_{k-1} = o_{k-1} + \sigma \sum_i \varsigma_i` (plus :math:`\gamma_0` if
:math:`g_0 = h_{k-1}`), :math:`\partial L / \partial r_k = \sum_i \rho_i`, :math:`\partial L /
\partial \eta_i = \gamma_i \cdot (z_i - \alpha s_i)`, and U gets :math:`\rho_i s_i^\top` (in form
(8) :math:`\delta_i a_i^\top` too) of all inner steps in one product; of low rank, V gets
:math:`\rho_i (H s_i)^\top` and H :math:`(V^\top \rho_i) s_i^\top`.

Stored: the outputs, which exist anyway. Recomputed: the inner steps of a round, which stay in the
processor's cache.
"""

import numpy as np
import torch

from longrnn.kernels._cpu import ZERO, engine, scalar
from longrnn.kernels._cpu_activations import ACTIVATIONS, PHI, activate, by_phi, phi, times_slope
from longrnn.kernels._drive import drive
from longrnn.kernels._memory import empty_array_like
from longrnn.kernels._products import times_state
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import scalars_like


@scalar
def _multiply(U, V, H, alpha, s, projected, product):
    """Let `product` be U s for the rows s; of low rank through `projected`, which gets H s."""
    if U is not None:  # decided when compiling
        np.dot(s, U.T, product)
    if V is not None:
        np.dot(s, H.T, projected)
        np.dot(projected, V.T, product)
        product_ = product.ravel()
        s_ = s.ravel()
        for j in range(s_.size):
            product_[j] += alpha * s_[j]


@scalar
def _rank(V):
    """Return the rank of a matrix with the factor V; 0 if the matrix has no factors."""
    if V is None:  # decided when compiling
        return 0
    return V.shape[1]


@scalar
def _round(phi, numbers, U, V, H, eta, r, h, factors, H_factors, z, g):
    """Run the inner steps of a round with `eta` (batch, K).

    `factors`, `H_factors` and `z` receive the intermediate values. The rows of `factors` are those
    of all s_i and then, in form (8), of all a_i. `H_factors` gets their products with H, if any.
    """
    twice, from_zero, alpha, sign = numbers
    K = len(z)
    batch, d = h.shape
    g_ = g.ravel()
    h_ = h.ravel()
    r_ = r.ravel()
    if from_zero:
        for j in range(h_.size):
            g_[j] = ZERO
    else:
        for j in range(h_.size):
            g_[j] = h_[j]
    for i in range(K):
        rows = slice(i * batch, (i + 1) * batch)
        s = factors[rows].ravel()
        z_i = z[i].ravel()
        for j in range(h_.size):
            s[j] = g_[j] + sign * h_[j]
        _multiply(U, V, H, alpha, factors[rows], H_factors[rows], z[i])
        if twice:
            rows = slice((K + i) * batch, (K + i + 1) * batch)
            a = factors[rows].ravel()
            for j in range(a.size):
                a[j] = z_i[j] + r_[j]
            _multiply(U, V, H, alpha, factors[rows], H_factors[rows], z[i])
            for j in range(a.size):
                z_i[j] = activate(phi, z_i[j])
        else:
            for j in range(h_.size):
                z_i[j] = activate(phi, z_i[j] + r_[j])
        for k in range(batch):
            g_k = g[k]
            s_k = factors[i * batch + k]
            z_k = z[i, k]
            eta_k = eta[k, i]
            for j in range(d):
                g_k[j] += eta_k * (z_k[j] - alpha * s_k[j])


@by_phi
def _forward_kernel(numbers, U, V, H, eta, r, h0, outputs):
    """`eta` is (time, batch, K)."""
    K = eta.shape[2]
    batch, d = h0.shape
    factors = np.empty((2 * K * batch, d), h0.dtype)
    H_factors = np.empty((2 * K * batch, _rank(V)), h0.dtype)
    z = np.empty((K, batch, d), h0.dtype)
    h = h0
    for t in range(len(r)):
        _round(phi, numbers, U, V, H, eta[t], r[t], h, factors, H_factors, z, outputs[t])
        h = outputs[t]


@scalar
def _round_backward(
    phi, numbers, transposed, eta, factors, z, gamma, deltas, V_deltas, product, ones, carried,
    grad_r, grad_eta,
):  # fmt: skip
    """Backpropagate through the inner steps of a round; `gamma` goes from gamma_K to gamma_0.

    `factors` and `z` are those of `_round`. `deltas` gets a row for each row of `factors`: all
    rho_i and then, in form (8), all delta_i. `V_deltas` gets their products with V', `grad_r`
    (batch * hidden) and `grad_eta` (batch, K) the gradients. The gradient of the state before the
    round is added to `carried`. `transposed` is U', H', V', so that `_multiply` multiplies by the
    transpose. `product` is memory, and `ones` (hidden) are ones.
    """
    twice, _, alpha, sign = numbers
    K = len(z)
    batch, d = gamma.shape
    sums = np.empty(batch, gamma.dtype)
    for i in range(K - 1, -1, -1):
        first = i * batch  # row of delta_i, which is rho_i in form (5)
        if twice:
            first = (K + i) * batch
        delta_rows = slice(first, first + batch)
        rho_rows = slice(i * batch, (i + 1) * batch)
        for k in range(batch):
            gamma_k = gamma[k]
            s_k = factors[i * batch + k]
            z_k = z[i, k]
            share = product[k]
            delta_k = deltas[first + k]
            eta_k = eta[k, i]
            for j in range(d):
                share[j] = gamma_k[j] * (z_k[j] - alpha * s_k[j])
                delta_k[j] = times_slope(phi, eta_k * gamma_k[j], z_k[j])
        np.dot(product, ones, sums)  # the compiler does not vectorize a loop that sums
        for k in range(batch):
            grad_eta[k, i] = sums[k]
        if twice:
            _multiply(
                *transposed, alpha, deltas[delta_rows], V_deltas[delta_rows], deltas[rho_rows]
            )
        _multiply(*transposed, alpha, deltas[rho_rows], V_deltas[rho_rows], product)
        rho = deltas[rho_rows].ravel()
        for j in range(grad_r.size):
            grad_r[j] += rho[j]
        for k in range(batch):
            gamma_k = gamma[k]
            through = product[k]
            back_k = carried[k]
            eta_k = eta[k, i]
            for j in range(d):
                change = through[j] - alpha * eta_k * gamma_k[j]
                gamma_k[j] += change
                back_k[j] += sign * change


@by_phi
def _backward_kernel(
    numbers, U, V, H, transposed, eta, r, h0, outputs, grad_outputs, carried,
    grad_r, grad_eta, grad_U, grad_V, grad_H,
):  # fmt: skip
    """`carried` is the gradient of the final state and becomes that of the initial one.

    `transposed` is U', H', V'. `grad_r` and `grad_eta` receive the gradients of r and eta. The
    gradients of the matrices start at zero.
    """
    twice, from_zero, _, _ = numbers
    K = eta.shape[2]
    batch, d = h0.shape
    count = K * batch
    if twice:
        count = 2 * K * batch
    factors = np.empty((2 * K * batch, d), h0.dtype)
    H_factors = np.empty((2 * K * batch, _rank(V)), h0.dtype)
    deltas = np.empty_like(factors)
    V_deltas = np.empty_like(H_factors)
    z = np.empty((K, batch, d), h0.dtype)
    g = np.empty_like(h0)
    product = np.empty_like(h0)
    gamma = np.empty_like(h0)
    ones = np.ones(d, h0.dtype)
    back = carried.ravel()
    for t in range(len(outputs) - 1, -1, -1):
        h = h0
        if t > 0:
            h = outputs[t - 1]
        _round(phi, numbers, U, V, H, eta[t], r[t], h, factors, H_factors, z, g)
        gamma_ = gamma.ravel()
        o_t = grad_outputs[t].ravel()
        grad_r_t = grad_r[t].ravel()
        for j in range(back.size):
            gamma_[j] = o_t[j] + back[j]
            back[j] = grad_r_t[j] = ZERO
        _round_backward(
            phi, numbers, transposed, eta[t], factors, z, gamma, deltas, V_deltas, product, ones,
            carried, grad_r_t, grad_eta[t],
        )  # fmt: skip
        if not from_zero:
            carried += gamma
        if U is not None:
            grad_U += np.dot(deltas[:count].T, factors[:count])
        if V is not None:
            grad_V += np.dot(deltas[:count].T, H_factors[:count])
            grad_H += np.dot(V_deltas[:count].T, factors[:count])


def _forward(phi, twice, from_zero, scalars, U, V, H, eta, r, h0, outputs, h_end):
    numbers = (twice, from_zero, *scalars)
    _forward_kernel[phi](numbers, U, V, H, eta, r, h0, outputs)
    h_end[:] = outputs[-1]


def _backward(phi, twice, from_zero, scalars, U, V, H, eta, r, h0, outputs, grad_outputs, carried):
    numbers = (twice, from_zero, *scalars)
    grad_r = empty_array_like(r)
    grad_eta = empty_array_like(eta)
    gradients = []
    for matrix in (U, V, H):
        if matrix is None:
            matrix = h0[:0]
        gradients.append(np.zeros_like(matrix))
    transposed = tuple(map(_transpose, (U, H, V)))
    states = U, V, H, transposed, eta, r, h0, outputs, grad_outputs, carried
    _backward_kernel[phi](numbers, *states, grad_r, grad_eta, *gradients)
    return None, *gradients, grad_eta, grad_r, carried


def _transpose(matrix):
    """Return a transposed matrix; None for a matrix that is absent."""
    if matrix is None:
        return None
    return matrix.T


def reference(phi, twice, from_zero, scalars, U, V, H, eta, r, h):
    """Run (5) or (8) in plain PyTorch: the operator's reference.

    Parameters
    ----------
    phi : int
        Number of the activation.
    twice : bool
        Whether the matrix multiplies twice, as in form (8).
    from_zero : bool
        Whether g_0 is zero instead of the previous state.
    scalars : sequence of two numbers
        alpha and sigma.
    U : (d, d), (runs, d, d) or None
        The matrix, of one run or of several whose batches follow one another; None if it is of low
        rank.
    V, H : (d, rank), (rank, d) or None
        Factors of U - alpha I.
    eta : (time, batch, K)
        Step sizes.
    r : (time, batch, d)
        The drive.
    h : (batch, d)
        The initial state.

    Returns
    -------
    outputs : (time, batch, d)
        The output after every input.
    final : tuple of (batch, d)
        (h,) after the last input.
    """
    alpha, sign = scalars
    if U is None:
        U = alpha * torch.eye(len(V), dtype=V.dtype, device=V.device) + V @ H
    outputs = []
    for eta_k, r_k in zip(eta.unbind(0), r.unbind(0), strict=True):
        g = h
        if from_zero:
            g = torch.zeros_like(h)
        for eta_i in eta_k.unbind(1):
            s = g + sign * h
            a = times_state(U, s) + r_k
            if twice:
                a = times_state(U, a)
            g = g + eta_i[:, None] * (ACTIVATIONS[phi](a) - alpha * s)
        h = g
        outputs.append(h)
    return torch.stack(outputs), (h,)


_IRNN = Recurrence(
    "irnn_cpu",
    settings="int phi, bool twice, bool from_zero",
    inputs="scalars U? V? H? eta:1 r:1 h0:0",
    results="outputs h_end",
    saved="scalars U V H eta r h0 outputs",
    shapes=lambda a: [a.r.shape, a.h0.shape],
    forward=_forward,
    backward=_backward,
    reference=reference,
)


def step_sizes(eta, rounds, u):
    """Return the step sizes of every time step and sequence.

    Parameters
    ----------
    eta : (K,) or (K, length)
        Step sizes of the inner steps, in the second case for each round.
    rounds : sequence
        Empty, or one tensor (batch, hidden) with the number of rounds so far of each sequence.
    u : (time, batch, input)
        The inputs.

    Returns
    -------
    (time, batch, K)
    """
    if not rounds:
        return eta.expand(*u.shape[:2], len(eta))
    times = torch.arange(len(u), device=u.device)[:, None] + rounds[0][:, 0].long()
    return eta[:, times].permute(1, 2, 0)


@engine("irnn")
def irnn(weights, state, u):
    """Run the incremental RNN, equations (5) and (8) of Kag et al. 2020.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.irnn.IncrementalRNNCore.step`.
    state : tuple of (batch, d)
        (h,), or (h, k) with step sizes per time step, before the first input.
    u : (time, batch, p)
        The inputs.

    Returns
    -------
    outputs : (time, batch, d)
        h after every input.
    state : tuple of (batch, d)
        (h,), or (h, k) with step sizes per time step, after the last input.
    """
    U, V, H, W, b, eta, alpha, sign, form, from_zero, phi = weights
    h0, *rounds = state
    scalars = scalars_like(h0, alpha, sign)
    eta = step_sizes(eta, rounds, u)
    r = drive(u, W, b)
    outputs, (h,) = _IRNN(PHI[phi], form == 8, from_zero, scalars, U, V, H, eta, r, h0)
    return outputs, (h, *(part + len(u) for part in rounds))
