r"""The incremental RNN on the GPU: a block for a few sequences, a thread for each unit.

The forward and adjoint equations are those of `longrnn.kernels.cpu_irnn`, for (5) and (8) of Kag et
al. 2020. A matrix of low rank is formed once per call: as two products it would take one barrier
more in every inner step, and leave most threads idle during the first product.

One launch takes several runs, whose batches follow one another. A block computes sequences of one
run, and reads the matrix and the step sizes of one network.

The vectors of a block are in shared memory, as in `longrnn.kernels.cuda_rnn`; a name that ends in
`_at` is the offset of a vector there. In global memory, arrays of all inner steps are (time, batch,
inner step, d). `round_row` is the row of a round of a sequence in an array (time * batch, ..). A
row of `factors` and of `deltas` has d numbers: a round of a sequence has one for each s and, in
form (8), after these one for each a.

Stored for the backward pass: the outputs, the factors of all products (s, and in form (8) a), and
the activations z of all inner steps. The backward kernel writes deltas, one for each factor.
PyTorch computes the gradients of the matrix and of the step sizes from both.
"""

from functools import partial

import numpy as np
import torch

from longrnn.kernels._cpu_activations import PHI
from longrnn.kernels._cuda import cuda, device, engine
from longrnn.kernels._cuda_dense import dot_products, run_of, set_offsets_in_run
from longrnn.kernels._cuda_device import ZERO, activate, load_or_zero, times_slope
from longrnn.kernels._cuda_kernel import arriving, d, many_registers, real, tile
from longrnn.kernels._cuda_launch import is_present, launch_runs, most_units
from longrnn.kernels._drive import drive
from longrnn.kernels._products import sums_of_products
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import broadcast_over_sequences, sum_over_runs
from longrnn.kernels.cpu_irnn import reference, step_sizes

_BUFFERS = 4
"""Vectors in shared memory of each kernel."""
varying = 0
"""Compile-time constant: whether there are step sizes for every time step and sequence."""


@device
def _step_size(eta, run, round_row, inner, K, varying):
    """Return the size of an inner step, of a run or, if it is `varying`, of a round.

    `eta` is (runs, K), or (time * batch, K) if it is varying.
    """
    if varying:
        return eta[round_row * K + inner]
    return eta[run * K + inner]


@many_registers
def _forward_kernel(
    phi, K, twice, previous, alpha, sign, U_T, eta, r, h0, factors, z, outputs, h_end, T,
    sequences, batch,
):  # fmt: skip
    """Run all rounds of the sequences of a block.

    `twice` is 1 in form (8), `previous` is 1 if g_0 is the state before the round. `U_T` (d, d) is
    transposed, one after the other for all runs. There are `sequences` per run, together `batch`.
    `eta` is (runs, K), or (time, batch, K) if it is varying. `r`, the drive, and `outputs` are
    (time, batch, d), `h0` and `h_end` (batch, d). `factors` (time, batch, K or 2 K, d) gets all s
    and then all a of a round, `z` (time, batch, K, d) the activations.

    An inner step has one `turn` for each product with the matrix: form (5) multiplies s, form (8)
    s and then a.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    in_batch = cuda.local.array(tile, np.int64)  # index of each sequence of the block
    r_t = cuda.local.array(tile, real)
    total = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(in_batch, cuda.blockIdx.x, run, sequences, 1)
    U_start = run * d * d
    count = K + K * twice  # factors per round
    memory = cuda.shared.array(0, real)
    # Other threads read s and a only, so that h and g need no barriers.
    h_at = 0  # (d, tile), as all vectors that follow
    g_at = d * tile
    s_at = 2 * d * tile
    a_at = 3 * d * tile
    j = thread  # no `range`: its length would take a division
    while j < d:
        for i in range(tile):
            memory[h_at + j * tile + i] = h0[in_batch[i] * d + j]
        j += threads
    base = 0  # row of the round's first sequence in arrays (time * batch, ..)
    for _ in range(T):
        j = thread
        while j < d:
            for i in range(tile):
                slot = j * tile + i
                memory[g_at + slot] = load_or_zero(memory, h_at + slot, previous)
            j += threads
        for inner in range(K):
            j = thread
            while j < d:
                for i in range(tile):
                    slot = j * tile + i
                    factor_row = (base + in_batch[i]) * count + inner
                    value = memory[g_at + slot] + sign * memory[h_at + slot]
                    memory[s_at + slot] = value
                    factors[factor_row * d + j] = value
                j += threads
            cuda.syncthreads()  # s is complete, and a of the inner step before is read
            factor_at = s_at  # what the matrix multiplies
            for turn in range(1 + twice):
                j = thread
                while j < d:
                    for i in range(tile):  # read before the product, which hides the latency
                        r_t[i] = r[(base + in_batch[i]) * d + j]
                    dot_products(total, U_T, U_start + j, d, memory, factor_at, d)
                    for i in range(tile):
                        slot = j * tile + i
                        round_row = base + in_batch[i]
                        value = total[i]
                        if turn == 0:
                            value += r_t[i]
                        if turn < twice:
                            memory[a_at + slot] = value
                            factors[(round_row * count + K + inner) * d + j] = value
                        else:
                            value = activate(phi, value)
                            z[(round_row * K + inner) * d + j] = value
                            step = _step_size(eta, run, round_row, inner, K, varying)
                            memory[g_at + slot] += step * (value - alpha * memory[s_at + slot])
                    j += threads
                if turn == 0:
                    cuda.syncthreads()  # s is read, and in form (8) a is complete
                factor_at = a_at
        j = thread
        while j < d:
            for i in range(tile):
                slot = j * tile + i
                memory[h_at + slot] = memory[g_at + slot]
                outputs[(base + in_batch[i]) * d + j] = memory[g_at + slot]
            j += threads
        base += batch
    j = thread
    while j < d:
        for i in range(tile):
            h_end[in_batch[i] * d + j] = memory[h_at + j * tile + i]
        j += threads


@many_registers  # otherwise registers spill at width 128
def _backward_kernel(
    phi, K, twice, previous, alpha, sign, U, eta, factors, z, grad_outputs, grad_h_end,
    deltas, shares, grad_h0, has_h_end, T, sequences, batch,
):  # fmt: skip
    """Backpropagate through all rounds of the sequences of a block.

    `U` is (runs, d, d); the other arguments are those of `_forward_kernel`. `grad_outputs` (time,
    batch, d) and `grad_h_end` (batch, d) arrive, or are absent. `deltas`, of the shape of
    `factors`, gets what multiplies each factor in the gradient of U: rho for s and, in form (8),
    delta for a. `shares` (time, batch, K, d) gets the terms of the gradients of eta, which are sums
    over d.

    As in the forward kernel an inner step has one `turn` for each product: form (8) multiplies
    delta and then rho, form (5) delta alone, which is its rho.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    in_batch = cuda.local.array(tile, np.int64)  # index of each sequence of the block
    total = cuda.local.array(tile, real)
    run = run_of(cuda.blockIdx.x, sequences, tile)
    set_offsets_in_run(in_batch, cuda.blockIdx.x, run, sequences, 1)
    U_start = run * d * d
    count = K + K * twice  # factors per round
    memory = cuda.shared.array(0, real)
    # Other threads read delta and rho only, so that gamma and back need no barriers.
    gamma_at = 0  # (d, tile), as all vectors that follow
    back_at = d * tile  # gradient of the state before the round
    delta_at = 2 * d * tile
    rho_at = 3 * d * tile
    j = thread  # no `range`: its length would take a division
    while j < d:
        for i in range(tile):
            arrived = load_or_zero(grad_h_end, in_batch[i] * d + j, has_h_end)
            memory[back_at + j * tile + i] = arrived
        j += threads
    base = (T - 1) * batch  # row of the round's first sequence in arrays (time * batch, ..)
    for _ in range(T):
        j = thread
        while j < d:
            for i in range(tile):
                slot = j * tile + i
                index = (base + in_batch[i]) * d + j
                arrived = load_or_zero(grad_outputs, index, arriving)
                memory[gamma_at + slot] = arrived + memory[back_at + slot]
                memory[back_at + slot] = ZERO
            j += threads
        for inner in range(K - 1, -1, -1):
            j = thread
            while j < d:
                for i in range(tile):
                    slot = j * tile + i
                    round_row = base + in_batch[i]
                    factor_row = round_row * count + inner
                    z_row = round_row * K + inner
                    step = _step_size(eta, run, round_row, inner, K, varying)
                    z_i = z[z_row * d + j]
                    gamma = memory[gamma_at + slot]
                    shares[z_row * d + j] = gamma * (z_i - alpha * factors[factor_row * d + j])
                    delta = times_slope(phi, step * gamma, z_i)
                    memory[delta_at + slot] = delta
                    # Subtracted before the product, which would otherwise keep the step size in
                    # a register: at 1,024 units, registers spilled.
                    decay = alpha * step * gamma
                    memory[gamma_at + slot] = gamma - decay
                    memory[back_at + slot] -= sign * decay
                    if twice > 0:
                        deltas[(factor_row + K) * d + j] = delta
                j += threads
            factor_at = delta_at  # what the transposed matrix multiplies
            for turn in range(1 + twice):
                cuda.syncthreads()  # the vector at `factor_at` is complete
                j = thread
                while j < d:
                    dot_products(total, U, U_start + j, d, memory, factor_at, d)
                    for i in range(tile):
                        slot = j * tile + i
                        if turn == twice:
                            factor_row = (base + in_batch[i]) * count + inner
                            deltas[factor_row * d + j] = memory[factor_at + slot]
                            memory[gamma_at + slot] += total[i]
                            memory[back_at + slot] += sign * total[i]
                        else:
                            memory[rho_at + slot] = total[i]
                    j += threads
                factor_at = rho_at
            cuda.syncthreads()  # in form (5) delta is read; form (8) does not need this barrier
        j = thread
        while j < d:
            for i in range(tile):
                slot = j * tile + i
                if previous > 0:
                    memory[back_at + slot] += memory[gamma_at + slot]
            j += threads
        base -= batch
    j = thread
    while j < d:
        for i in range(tile):
            grad_h0[in_batch[i] * d + j] = memory[back_at + j * tile + i]
        j += threads


def _forward(phi, K, twice, previous, alpha, sign, U, eta, etas, r, h0, outputs, h_end, factors, z):
    numbers = phi, K, twice, previous, alpha, sign
    step_sizes, options = _step_sizes_of(eta, etas)
    options["buffers"] = _BUFFERS
    tensors = U.mT.contiguous(), step_sizes, r, h0, factors, z, outputs, h_end
    launch_runs(_forward_kernel, h0, (U,), *numbers, *tensors, len(r), **options)


def _backward(
    phi, K, twice, previous, alpha, sign, U, eta, etas, r, h0, factors, z, grad_outputs, grad_h_end
):
    deltas = torch.empty_like(factors)
    shares = torch.empty_like(z)
    grad_h0 = torch.empty_like(h0)
    numbers = phi, K, twice, previous, alpha, sign
    step_sizes, options = _step_sizes_of(eta, etas)
    options |= {"buffers": _BUFFERS, "arriving": is_present(grad_outputs)}
    tensors = U, step_sizes, factors, z, grad_outputs, grad_h_end, deltas, shares, grad_h0
    has_h_end = is_present(grad_h_end)
    launch_runs(_backward_kernel, h0, (U,), *numbers, *tensors, has_h_end, len(z), **options)
    grad_U = partial(sums_of_products, U, deltas, factors)
    grad_etas = partial(shares.sum, dim=-1)

    def grad_eta():
        return sum_over_runs(U, grad_etas())

    grad_r = deltas[:, :, :K].sum(dim=2)
    return grad_U, grad_eta, grad_etas, grad_r, grad_h0


def _step_sizes_of(eta, etas):
    """Return the step sizes that the kernels read, and their compile-time constant."""
    if etas is None:
        return eta, {"varying": 0}
    return etas, {"varying": 1}


def _reference(phi, K, twice, previous, alpha, sign, U, eta, etas, r, h0):
    if etas is None:
        etas = broadcast_over_sequences(eta, h0).expand(*r.shape[:2], K)
    return reference(phi, twice > 0, previous == 0, (alpha, sign), U, None, None, etas, r, h0)


def _shapes(a):
    T, batch, d = a.r.shape
    products = a.K + a.K * a.twice
    return [a.r.shape, a.h0.shape, (T, batch, products, d), (T, batch, a.K, d)]


# `r` is saved for second derivatives only. It is small compared to the factors.
_IRNN = Recurrence(
    "irnn_cuda",
    settings="int phi, int K, int twice, int previous, float alpha, float sign",
    inputs="U eta? etas?:1 r:1 h0:0",  # step sizes (K,), or of every time step and sequence
    results="outputs h_end factors z",
    saved="U eta etas r h0 factors z",
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=_reference,
    arrays=False,
    takes_networks=True,
)


@engine("irnn", most_units=most_units(_BUFFERS), takes_networks=True)
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
    if U is None:
        U = alpha * torch.eye(len(V), dtype=V.dtype, device=V.device) + V @ H
    numbers = PHI[phi], len(eta), int(form == 8), int(not from_zero), float(alpha), float(sign)
    etas = None
    if rounds:
        etas = step_sizes(eta, rounds, u).contiguous()
        eta = None
    outputs, (h,) = _IRNN(*numbers, U, eta, etas, drive(u, W, b), h0)
    return outputs, (h, *(part + len(u) for part in rounds))
