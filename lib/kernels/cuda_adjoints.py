r"""The adjoint states of a network on the GPU, each step renormalised: one block for some sequences, one thread for each unit.

Nothing here knows a cell. Pulled back over a step, a state p that the matrix M multiplies, and where there is one a state q beside it,
go through numbers of their own unit and one product:

.. math::
    m &= q + c^0 \odot p, \qquad \delta^k = c^k \odot m \ (k < K), \quad \delta^K = c^K \odot p \\
    p' &= M^\top (\delta^1, \dots, \delta^K) + e \odot p, \qquad q' = f \odot m

Without q, m is p; with it, e is zero. `lib.probes.fused` says what the coefficients are for each cell. UnICORNN's layers pull back through
one another, (6) of Rusch and Mishra, from the last down, with :math:`s_l` the slope of tanh times h:

.. math::
    \lambda_l &\mathrel{+}= V_{l+1}^\top \delta_{l+1}, \qquad \mu_l \mathrel{+}= h_l \lambda_l, \qquad \delta_l = -s_l \mu_l \\
    \lambda_l' &= \lambda_l + w_l \delta_l - h_l \alpha \mu_l, \qquad \mu_l' = \mu_l

After every step a sequence's adjoint is divided by its largest number, which is written down: nothing leaves the range of float32, and the
logarithms are summed outside. The largest is found in two rounds, of `GROUPS` parts and of what they found.

Stored: the adjoints of all times, and what they were divided by.
"""

import numpy as np
import torch
from torch import Tensor

from lib.kernels._cuda import cuda, d, device, kernel, launch_chains, launch_rows, real, tile
from lib.kernels._cuda_device import ONE, ZERO, _unsigned, locate, origin, products

GROUPS = 8
gates = states = layers = 1
"""In the text of a kernel: products of a step, states of a unit, and layers."""


@device
def _largest(memory, first, stride, end):
    """Return the largest size of a number from `first` on before `end`."""
    found = ZERO
    while first < end:
        value = abs(memory[_unsigned(first)])
        found = value if value > found else found
        first += stride
    return found


@kernel
def _dense(M, coefficients, carried, adjoints, factors, T, batch):
    """`M` is (run, gates d, d), `coefficients` (run, time, batch, gates + states, d) hold all c, then e, or c^0 and f.

    `carried` (run, batch, states, d) is the last adjoint; `adjoints` (run, time, batch, states, d) receives the earlier ones.
    """
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places, total = cuda.local.array(tile, np.int64), cuda.local.array(tile, real)
    run = locate(places, cuda.blockIdx.x, batch, 1)
    groups, width = min(GROUPS, d), (gates + states) * d
    weights, here = run * gates * d * d, (run * T + T - 1) * batch
    memory = cuda.shared.array(0, real)
    p, q, delta, part = 0, d * tile, states * d * tile, (states + gates) * d * tile
    for j in range(row, d, rows):
        for i in range(tile):
            own, there = j * tile + i, (run * batch + places[i]) * states * d + j
            memory[p + own] = carried[there]
            if states > 1:
                memory[q + own] = carried[there + d]
    for _ in range(T):
        for j in range(row, d, rows):
            for i in range(tile):
                own, at = j * tile + i, (here + places[i]) * width + j
                first = memory[p + own]
                both = first
                if states > 1:
                    both = memory[q + own] + coefficients[at + gates * d] * first
                    memory[q + own] = coefficients[at + (gates + 1) * d] * both
                    memory[p + own] = ZERO
                else:
                    memory[p + own] = coefficients[at + gates * d] * first
                for k in range(gates - 1):
                    memory[delta + k * d * tile + own] = coefficients[at + k * d] * both
                last = coefficients[at + (gates - 1) * d] * first
                memory[delta + (gates - 1) * d * tile + own] = last
        cuda.syncthreads()
        for j in range(row, d, rows):
            products(total, M, weights + j, d, memory, delta, gates * d)
            for i in range(tile):
                memory[p + j * tile + i] += total[i]
        cuda.syncthreads()
        for k in range(row, groups * tile, rows):
            memory[part + k] = _largest(memory, p + k, groups * tile, delta)
        cuda.syncthreads()
        for j in range(row, d, rows):
            for i in range(tile):
                own, at = j * tile + i, here + places[i]
                largest = _largest(memory, part + i, tile, part + groups * tile)
                if j == 0:
                    factors[at] = largest
                largest = largest if largest > ZERO else ONE
                for k in range(states):
                    value = memory[p + k * d * tile + own] / largest
                    memory[p + k * d * tile + own] = value
                    adjoints[(at * states + k) * d + j] = value
        here -= batch


@kernel
def _oscillators(w, h, frequency, V, slopes, carried, adjoints, factors, T, batch):
    """`w`, `h` and `frequency`, h alpha, are (run, layers, d), `V` (run, layers, d, d), `slopes` (run, time, batch, layers, d).

    `carried` and `adjoints` as in `_dense`, with two states for each layer.
    """
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places, total = cuda.local.array(tile, np.int64), cuda.local.array(tile, real)
    run = locate(places, cuda.blockIdx.x, batch, 1)
    groups, here = min(GROUPS, d), (run * T + T - 1) * batch
    memory = cuda.shared.array(0, real)
    end, after = 2 * layers * d * tile, (2 * layers + 1) * d * tile  # of the states; the deltas
    delta, part = end, (2 * layers + 2) * d * tile
    for j in range(row, d, rows):
        for i in range(tile):
            for k in range(2 * layers):
                there = ((run * batch + places[i]) * 2 * layers + k) * d + j
                memory[(k * d + j) * tile + i] = carried[there]
    for _ in range(T):
        for layer in range(layers - 1, -1, -1):
            for j in range(row, d, rows):
                own, unit = 2 * layer * d * tile + j * tile, (run * layers + layer) * d + j
                if layer < layers - 1:
                    products(total, V, (unit + d - j) * d + j, d, memory, after, d)
                for i in range(tile):
                    lambda_, mu = memory[own + i], memory[own + d * tile + i]
                    if layer < layers - 1:
                        lambda_ += total[i]
                    mu += h[unit] * lambda_
                    value = -slopes[((here + places[i]) * layers + layer) * d + j] * mu
                    memory[delta + j * tile + i] = value
                    memory[own + i] = lambda_ + w[unit] * value - frequency[unit] * mu
                    memory[own + d * tile + i] = mu
            cuda.syncthreads()
            delta, after = after, delta
        for k in range(row, groups * tile, rows):
            memory[part + k] = _largest(memory, k, groups * tile, end)
        cuda.syncthreads()
        for j in range(row, d, rows):
            for i in range(tile):
                at = here + places[i]
                largest = _largest(memory, part + i, tile, part + groups * tile)
                if j == 0:
                    factors[at] = largest
                largest = largest if largest > ZERO else ONE
                for k in range(2 * layers):
                    own = (k * d + j) * tile + i
                    memory[own] /= largest
                    adjoints[(at * 2 * layers + k) * d + j] = memory[own]
        here -= batch


@kernel
def _accumulate(keep, add, c0, c, T, size, chains):
    i = cuda.grid(1)
    if i < chains:
        at, value = origin(i, T, size), c0[i]
        for _ in range(T):
            value = keep[at] * value + add[at]
            c[at] = value
            at += size


def accumulated(keep: Tensor, add: Tensor, c0: Tensor) -> Tensor:
    """Return all c_t = keep_t c_{t-1} + add_t, (time, ..), for `keep` and `add` of that shape and `c0` (..)."""
    c = torch.empty_like(add)
    launch_chains(_accumulate, c0.numel(), keep, add, c0, c, len(add), c0.numel())
    return c


def dense_adjoints(M: Tensor, coefficients: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    """Pull adjoints back through a network with one product a step.

    Parameters
    ----------
    M : (run, gates * hidden, hidden)
        What the state is multiplied by.
    coefficients : (run, time, batch, gates + states, hidden)
        c^1 .. c^K, then e, or c^0 and f (see above).
    last : (run, batch, states, hidden)
        The last adjoint.

    Returns
    -------
    adjoints : (run, time, batch, states, hidden)
        Those before every step, the largest number of each sequence 1 (or all 0).
    factors : (run, time, batch)
        What each was divided by.
    """
    adjoints, factors = _empty(coefficients, last)
    gates, states = M.shape[1] // M.shape[2], last.shape[2]
    parts = M.contiguous(), coefficients, last.contiguous(), adjoints, factors, factors.shape[1]
    more = {"buffers": gates + states + 1, "gates": gates, "states": states}
    launch_rows(_dense, last[:, :, 0], *parts, **more)
    return adjoints, factors


def oscillator_adjoints(
    w: Tensor, h: Tensor, alpha: float, V: Tensor, slopes: Tensor, last: Tensor
) -> tuple[Tensor, Tensor]:
    """Pull adjoints back through UnICORNN.

    Parameters
    ----------
    w, h : (run, layers, hidden)
        Recurrent weights and steps.
    alpha
        Frequency.
    V : (run, layers, hidden, hidden)
        Input weights; those of the first layer are not read.
    slopes : (run, time, batch, layers, hidden)
        The slope of tanh, times h.
    last : (run, batch, 2 * layers, hidden)
        The last adjoint, of the positions and velocities of each layer in turn.

    Returns
    -------
    As from `dense_adjoints`, with 2 * layers states.
    """
    adjoints, factors = _empty(slopes, last)
    layers = w.shape[1]
    constants = (part.contiguous() for part in (w, h, alpha * h, V))
    parts = *constants, slopes, last.contiguous(), adjoints, factors, factors.shape[1]
    launch_rows(_oscillators, last[:, :, 0], *parts, buffers=2 * layers + 3, layers=layers)
    return adjoints, factors


def _empty(coefficients: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    runs, steps, batch, _, hidden = coefficients.shape
    adjoints = last.new_empty(runs, steps, batch, last.shape[2], hidden)
    return adjoints, last.new_empty(runs, steps, batch)
