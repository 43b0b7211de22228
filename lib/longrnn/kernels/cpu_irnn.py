r"""The incremental RNN on one CPU core: all K inner steps of a round in one go, products of low rank kept so.

Forward of one round, with the drive :math:`r_k = W x_k + b` of all rounds computed before; form (8) multiplies twice:

.. math::
    s_i = g_{i-1} + \sigma h_{k-1}, \qquad a_i = U s_i + r_k \;\; (\text{then } U a_i), \qquad z_i = \phi(a_i), \qquad
    g_i = g_{i-1} + \eta_i (z_i - \alpha s_i)

from :math:`g_0 = 0` or :math:`h_{k-1}`. With :math:`U = \alpha I + V H` a product is :math:`\alpha s + V (H s)`, 2 d r numbers instead
of d^2.

Adjoint. Let :math:`\gamma_i` be the derivative of the loss by :math:`g_i`; it starts from :math:`\gamma_K = \lambda_k`, the derivative by
:math:`h_k` through everything that follows and through the output. For i = K..1:

.. math::
    \delta_i = \eta_i \gamma_i \odot \phi'_i, \qquad \rho_i = \delta_i \;\; (\text{in form (8) } U^\top \delta_i), \qquad
    \varsigma_i = U^\top \rho_i - \alpha \eta_i \gamma_i, \qquad \gamma_{i-1} = \gamma_i + \varsigma_i

Then :math:`\lambda_{k-1} = o_{k-1} + \sigma \sum_i \varsigma_i` (and :math:`\gamma_0`, where :math:`g_0 = h_{k-1}`),
:math:`\partial L / \partial r_k = \sum_i \rho_i`, :math:`\partial L / \partial \eta_i = \gamma_i \cdot (z_i - \alpha s_i)`, and U gets
:math:`\rho_i s_i^\top` (in form (8) :math:`\delta_i a_i^\top` too) of all inner steps in one product; of low rank, V gets
:math:`\rho_i (H s_i)^\top` and H :math:`(V^\top \rho_i) s_i^\top`.

Stored: the outputs, which exist anyway. Recomputed: the inner steps of a round, which stay in the processor's cache.
"""

import numpy as np
import torch

from longrnn.kernels._cpu import PHI, ZERO, activate, by_phi, engine, phi, scalar, times_slope
from longrnn.kernels._recurrence import Recurrence, drive, in_one


@scalar
def _multiply(U, V, H, alpha, s, inner, product):
    """Let `product` be U s for the rows s; of low rank through `inner`, which is H s."""
    if U is not None:  # decided when compiling
        np.dot(s, U.T, product)
    if V is not None:
        np.dot(s, H.T, inner)
        np.dot(inner, V.T, product)
        product_, s_ = product.ravel(), s.ravel()
        for j in range(s_.size):
            product_[j] += alpha * s_[j]


@scalar
def _round(phi, numbers, U, V, H, eta, r, h, factors, inner, z, g):
    """Run the inner steps of a round, `eta` (batch, K); `factors`, `inner` and `z` keep what they pass through.

    The rows of `factors` are those of all s_i and then, in form (8), of all a_i.
    """
    twice, from_zero, alpha, sign = numbers
    K, (batch, d) = len(z), h.shape
    g_, h_, r_ = g.ravel(), h.ravel(), r.ravel()
    for j in range(h_.size):
        g_[j] = ZERO if from_zero else h_[j]
    for i in range(K):
        rows = slice(i * batch, (i + 1) * batch)
        s, z_i = factors[rows].ravel(), z[i].ravel()
        for j in range(h_.size):
            s[j] = g_[j] + sign * h_[j]
        _multiply(U, V, H, alpha, factors[rows], inner[rows], z[i])
        if twice:
            rows = slice((K + i) * batch, (K + i + 1) * batch)
            a = factors[rows].ravel()
            for j in range(a.size):
                a[j] = z_i[j] + r_[j]
            _multiply(U, V, H, alpha, factors[rows], inner[rows], z[i])
            for j in range(a.size):
                z_i[j] = activate(phi, z_i[j])
        else:
            for j in range(h_.size):
                z_i[j] = activate(phi, z_i[j] + r_[j])
        for k in range(batch):
            g_k, s_k, z_k, eta_k = g[k], factors[i * batch + k], z[i, k], eta[k, i]
            for j in range(d):
                g_k[j] += eta_k * (z_k[j] - alpha * s_k[j])


@by_phi
def _forward(numbers, U, V, H, eta, r, h0, outputs):
    """`eta` is (time, batch, K)."""
    K, (batch, d) = eta.shape[2], h0.shape
    factors = np.empty((2 * K * batch, d), h0.dtype)
    inner = np.empty((2 * K * batch, 0 if V is None else V.shape[1]), h0.dtype)
    z, h = np.empty((K, batch, d), h0.dtype), h0
    for t in range(len(r)):
        _round(phi, numbers, U, V, H, eta[t], r[t], h, factors, inner, z, outputs[t])
        h = outputs[t]


@by_phi
def _backward(
    numbers, U, V, H, transposed, eta, r, h0, outputs, from_outputs, carried, by_r, by_eta, by_U, by_V, by_H
):  # fmt: skip
    """`transposed` is U', H', V', by which `_multiply` gives the product with the transpose.

    `carried` is the gradient of the final state and becomes that of the initial one; the gradients start at zero.
    """
    twice, from_zero, alpha, sign = numbers
    K, (batch, d) = eta.shape[2], h0.shape
    count = 2 * K * batch if twice else K * batch
    rank = 0 if V is None else V.shape[1]
    factors = np.empty((2 * K * batch, d), h0.dtype)
    inner = np.empty((2 * K * batch, rank), h0.dtype)
    deltas, outer = np.empty_like(factors), np.empty_like(inner)
    z, g, product = np.empty((K, batch, d), h0.dtype), np.empty_like(h0), np.empty_like(h0)
    back, gamma = carried.ravel(), np.empty_like(h0)
    ones, sums = np.ones(d, h0.dtype), np.empty(batch, h0.dtype)
    for t in range(len(outputs) - 1, -1, -1):
        h = h0 if t == 0 else outputs[t - 1]
        _round(phi, numbers, U, V, H, eta[t], r[t], h, factors, inner, z, g)
        gamma_, o_t, of_r = gamma.ravel(), from_outputs[t].ravel(), by_r[t].ravel()
        for j in range(back.size):
            gamma_[j] = o_t[j] + back[j]
            back[j] = of_r[j] = ZERO
        for i in range(K - 1, -1, -1):
            first = (K + i) * batch if twice else i * batch
            top, rows = slice(first, first + batch), slice(i * batch, (i + 1) * batch)
            rho = deltas[rows].ravel()
            for k in range(batch):
                gamma_k, s_k, z_k, share = gamma[k], factors[i * batch + k], z[i, k], product[k]
                delta_k, eta_k = deltas[first + k], eta[t, k, i]
                for j in range(d):
                    share[j] = gamma_k[j] * (z_k[j] - alpha * s_k[j])
                    delta_k[j] = times_slope(phi, eta_k * gamma_k[j], z_k[j])
            np.dot(product, ones, sums)  # a product, because a loop that sums is not vectorised
            for k in range(batch):
                by_eta[t, k, i] = sums[k]
            if twice:
                _multiply(*transposed, alpha, deltas[top], outer[top], deltas[rows])
            _multiply(*transposed, alpha, deltas[rows], outer[rows], product)
            for j in range(back.size):
                of_r[j] += rho[j]
            for k in range(batch):
                gamma_k, through, back_k, eta_k = gamma[k], product[k], carried[k], eta[t, k, i]
                for j in range(d):
                    change = through[j] - alpha * eta_k * gamma_k[j]
                    gamma_k[j] += change
                    back_k[j] += sign * change
        if not from_zero:
            carried += gamma
        if U is not None:
            by_U += np.dot(deltas[:count].T, factors[:count])
        if V is not None:
            by_V += np.dot(deltas[:count].T, inner[:count])
            by_H += np.dot(outer[:count].T, factors[:count])


def _states(settings, scalars, U, V, H, eta, r, h0):
    outputs = np.empty_like(r)
    phi, *choices = settings
    _forward[phi]((*choices, *scalars), U, V, H, eta, r, h0, outputs)
    return outputs, [outputs[-1]], [outputs]


def _gradients(settings, scalars, U, V, H, eta, r, h0, outputs, arrived, carried):
    of_r, of_eta = np.empty_like(r), np.empty_like(eta)
    of_matrices = [np.zeros_like(h0[:0] if part is None else part) for part in (U, V, H)]
    transposed = tuple(None if part is None else part.T for part in (U, H, V))
    arrays = U, V, H, transposed, eta, r, h0, outputs, arrived, carried, of_r, of_eta
    phi, *choices = settings
    _backward[phi]((*choices, *scalars), *arrays, *of_matrices)
    return *of_matrices, of_eta, of_r, carried


_IRNN = Recurrence(_states, _gradients, saved=tuple(range(8)))


def step_sizes(eta, rounds, u):
    """Return the step sizes (time, batch, K) of an input, by the rounds that each sequence has done where they depend on time."""
    if not rounds:
        return eta.expand(*u.shape[:2], len(eta))
    times = torch.arange(len(u), device=u.device)[:, None] + rounds[0][:, 0].long()
    return eta[:, times].permute(1, 2, 0)


@engine("irnn")
def irnn(weights, state, u):
    """The incremental RNN, (5) and (8) of Kag et al.; shapes as in `longrnn.cells.Cell.forward`."""
    U, V, H, W, b, eta, alpha, sign, form, from_zero, phi = weights
    h, *rounds = state
    settings, scalars = (PHI[phi], form == 8, from_zero), in_one(h, alpha, sign)
    drives = step_sizes(eta, rounds, u), drive(u, W, b)
    outputs, (h,) = _IRNN(settings, scalars, U, V, H, *drives, h)
    return outputs, (h, *(part + len(u) for part in rounds))
