r"""Adjoint states of the LSTM and the GRU on the GPU: one launch forward, one backward.

The equations, and what is stored, are those of `longrnn.kernels.cpu_pull_back`. As in
`longrnn.kernels.cuda_rnn` there is one block per few sequences and one thread per hidden unit. In
the backward kernels one thread per sequence computes norms, every few steps. These kernels are for
float64 alone.
"""

import math

import numpy as np
import torch

from longrnn.kernels import cpu_pull_back as cpu
from longrnn.kernels._cuda import cuda, d, device, engine, real, tile, unbounded
from longrnn.kernels._cuda_dense import (
    dot_products,
    load_vectors,
    set_offsets,
    state_before,
    store_vectors,
)
from longrnn.kernels._cuda_device import device_version
from longrnn.kernels._cuda_launch import launch_dense
from longrnn.kernels._drive import drive

_lstm_cell = device_version(cpu.lstm_cell)
_lstm_output = device_version(cpu.lstm_output)
_lstm_mu = device_version(cpu.lstm_mu)
_lstm_of_i = device_version(cpu.lstm_of_i)
_lstm_of_f = device_version(cpu.lstm_of_f)
_lstm_of_g = device_version(cpu.lstm_of_g)
_lstm_of_o = device_version(cpu.lstm_of_o)
_gru_n = device_version(cpu.gru_n)
_gru_output = device_version(cpu.gru_output)
_gru_of_n = device_version(cpu.gru_of_n)
_gru_of_r = device_version(cpu.gru_of_r)
_gru_of_z = device_version(cpu.gru_of_z)
_gated = device_version(cpu.gated)
_is_due = device_version(cpu.is_due)

_FORWARD_BUFFERS = 2
"""Vectors in shared memory of the forward kernels."""
_LSTM_BUFFERS = 12
"""Vectors in shared memory of the LSTM's backward kernel."""
_GRU_BUFFERS = 10
"""Vectors in shared memory of the GRU's backward kernel."""
_WIDEST = 256
"""Hidden size up to which the registers of a block fit a multiprocessor in float64."""


@device
def _log10(norm):
    """Return log10 of a norm that may be zero."""
    if norm == 0.0:
        return -math.inf
    return math.log10(norm)


@device
def _norm(memory, first, stride, count):
    """Return the norm of a vector; scaled so that no square underflows."""
    largest = 0.0
    k = 0
    while k < count:
        value = abs(memory[first + k * stride])
        if value > largest or value != value:
            largest = value
        k += 1
    if largest == 0.0 or largest != largest or largest == math.inf:
        return largest
    total = 0.0
    k = 0
    while k < count:
        value = memory[first + k * stride] / largest
        total += value * value
        k += 1
    return largest * math.sqrt(total)


@device
def _add_norm(memory, logs, scales, i, norm, least, lost, sequence):
    """Add the log10 of a norm to that of sequence i of a block, and keep the divisor in `scales`.

    `lost` is set for a sequence whose norm fell below `least` or is not finite.
    """
    log = memory[logs + i]
    if log > -math.inf and not (least <= norm < math.inf):
        lost[sequence] = 1
    memory[logs + i] = log + _log10(norm)
    memory[scales + i] = norm if norm > 0.0 else 1.0


@device
def _divide(memory, vectors, scales, thread, threads, tile, d):
    """Divide vectors (d, tile) in shared memory by one number per sequence."""
    for j in range(thread, d, threads):
        for i in range(tile):
            memory[vectors + j * tile + i] /= memory[scales + i]


@unbounded  # with bounds some float64 registers spill
def _lstm_forward(W_T, arguments, h0, c0, h_end, cells, T, batch):
    """Run all steps of the sequences of a block.

    `arguments` (time, batch, 4 d), order i f g o, holds the drive, and gets the arguments of the
    activations.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    g_i = cuda.local.array(tile, real)
    g_f = cuda.local.array(tile, real)
    g_g = cuda.local.array(tile, real)
    g_o = cuda.local.array(tile, real)
    by_i = cuda.local.array(tile, real)
    by_f = cuda.local.array(tile, real)
    by_g = cuda.local.array(tile, real)
    by_o = cuda.local.array(tile, real)
    before = cuda.local.array(tile, real)
    set_offsets(offsets, cuda.blockIdx.x, batch, d)
    memory = cuda.shared.array(0, real)
    now = 0
    following = d * tile
    load_vectors(memory, now, h0, offsets, thread, threads, d)
    cuda.syncthreads()
    base = 0  # offset of the time step in arrays that are d wide
    for t in range(T):
        for j in range(thread, d, threads):
            for i in range(tile):  # read before the products, which hide the latency
                k = 4 * (base + offsets[i]) + j
                g_i[i] = arguments[k]
                g_f[i] = arguments[k + d]
                g_g[i] = arguments[k + 2 * d]
                g_o[i] = arguments[k + 3 * d]
                index = base + offsets[i] + j
                before[i] = state_before(cells, index - batch * d, c0, offsets[i] + j, t)
            dot_products(by_i, W_T, j, 4 * d, memory, now, d)
            dot_products(by_f, W_T, d + j, 4 * d, memory, now, d)
            dot_products(by_g, W_T, 2 * d + j, 4 * d, memory, now, d)
            dot_products(by_o, W_T, 3 * d + j, 4 * d, memory, now, d)
            for i in range(tile):
                k = 4 * (base + offsets[i]) + j
                a_i = by_i[i] + g_i[i]
                a_f = by_f[i] + g_f[i]
                a_g = by_g[i] + g_g[i]
                a_o = by_o[i] + g_o[i]
                arguments[k] = a_i
                arguments[k + d] = a_f
                arguments[k + 2 * d] = a_g
                arguments[k + 3 * d] = a_o
                c = _lstm_cell(a_i, a_f, a_g, before[i])
                cells[base + offsets[i] + j] = c
                value = _lstm_output(a_o, c)
                memory[following + j * tile + i] = value
                if t == T - 1:
                    h_end[offsets[i] + j] = value
        cuda.syncthreads()
        now, following = following, now
        base += batch * d


@device
def _lstm_deltas(arguments, before, c, memory, deltas, stride, lambda_, mu):
    """Write the gradients of the arguments of one unit's activations, and mu before the step.

    The four gradients are `stride` apart in shared memory, from `deltas` on. `lambda_` and `mu` are
    the indices there of the adjoints after the step.
    """
    a_i, a_f, a_g, a_o = arguments
    of_h = memory[lambda_]
    of_c = _lstm_mu(a_o, c, of_h, memory[mu])
    memory[deltas] = _lstm_of_i(a_i, a_g, of_c)
    memory[deltas + stride] = _lstm_of_f(a_f, before, of_c)
    memory[deltas + 2 * stride] = _lstm_of_g(a_i, a_g, of_c)
    memory[deltas + 3 * stride] = _lstm_of_o(a_o, c, of_h)
    memory[mu] = _gated(a_f, of_c)


@unbounded  # with bounds some float64 registers spill
def _lstm_backward(
    W, arguments, c0, cells, h_adjoint, c_adjoint, log_norm, wanted, least, lost, readout, full,
    every, T, batch,
):  # fmt: skip
    """Pull the adjoints back over all steps of the sequences of a block.

    The adjoints (batch, d) are those after the last step, and become those before the first. At
    the times that are `wanted`, `readout` and `full` (time, batch) receive the norms before a step.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    total = cuda.local.array(tile, real)
    sequence = min(cuda.blockIdx.x * tile + thread, batch - 1)  # of a thread that computes norms
    set_offsets(offsets, cuda.blockIdx.x, batch, d)
    memory = cuda.shared.array(0, real)
    now = 0  # the deltas of this step, and of the one after it
    following = 4 * d * tile
    lambda_ = 8 * d * tile  # values that only one thread uses between two normalizations
    mu = 9 * d * tile
    logs = 10 * d * tile  # numbers of the threads that compute norms
    scales = 11 * d * tile
    load_vectors(memory, lambda_, h_adjoint, offsets, thread, threads, d)
    load_vectors(memory, mu, c_adjoint, offsets, thread, threads, d)
    if thread < tile:
        memory[logs + thread] = log_norm[sequence]
    base = (T - 1) * batch * d
    for t in range(T - 1, -1, -1):
        for j in range(thread, d, threads):
            for i in range(tile):
                offset = min(cuda.blockIdx.x * tile + i, batch - 1) * d
                k = 4 * (base + offset) + j
                a = arguments[k], arguments[k + d], arguments[k + 2 * d], arguments[k + 3 * d]
                index = base + offset + j
                before = state_before(cells, index - batch * d, c0, offset + j, t)
                slot = j * tile + i
                _lstm_deltas(
                    a, before, cells[index],
                    memory, now + slot, d * tile, lambda_ + slot, mu + slot,
                )  # fmt: skip
        cuda.syncthreads()
        for j in range(thread, d, threads):
            dot_products(total, W, j, d, memory, now, 4 * d)
            for i in range(tile):
                memory[lambda_ + j * tile + i] = total[i]
        if _is_due(t, every, wanted[t]):
            cuda.syncthreads()
            if thread < tile:
                of_readout = _norm(memory, lambda_ + thread, tile, d)
                norm = math.hypot(of_readout, _norm(memory, mu + thread, tile, d))
                _add_norm(memory, logs, scales, thread, norm, least[0], lost, sequence)
                if wanted[t] != 0.0:
                    share = of_readout / memory[scales + thread]
                    readout[t * batch + sequence] = memory[logs + thread] + _log10(share)
                    full[t * batch + sequence] = memory[logs + thread]
            cuda.syncthreads()
            _divide(memory, lambda_, scales, thread, threads, tile, d)
            _divide(memory, mu, scales, thread, threads, tile, d)
        now, following = following, now
        base -= batch * d
    store_vectors(h_adjoint, memory, lambda_, offsets, thread, threads, d)
    store_vectors(c_adjoint, memory, mu, offsets, thread, threads, d)
    if thread < tile:
        log_norm[sequence] = memory[logs + thread]


@unbounded  # with bounds some float64 registers spill
def _gru_forward(W_T, arguments, h0, h_end, products, states, T, batch):
    """Run all steps of the sequences of a block.

    `arguments` (time, batch, 3 d), order r z n, holds the drive, and gets the arguments of the
    activations. `products` and `states` (time, batch, d) get the part of n that is W h, and h
    before the step.
    """
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    g_r = cuda.local.array(tile, real)
    g_z = cuda.local.array(tile, real)
    g_n = cuda.local.array(tile, real)
    by_r = cuda.local.array(tile, real)
    by_z = cuda.local.array(tile, real)
    by_n = cuda.local.array(tile, real)
    set_offsets(offsets, cuda.blockIdx.x, batch, d)
    memory = cuda.shared.array(0, real)
    now = 0
    following = d * tile
    load_vectors(memory, now, h0, offsets, thread, threads, d)
    cuda.syncthreads()
    base = 0  # offset of the time step in arrays that are d wide
    for t in range(T):
        for j in range(thread, d, threads):
            for i in range(tile):  # read before the products, which hide the latency
                k = 3 * (base + offsets[i]) + j
                g_r[i] = arguments[k]
                g_z[i] = arguments[k + d]
                g_n[i] = arguments[k + 2 * d]
            dot_products(by_r, W_T, j, 3 * d, memory, now, d)
            dot_products(by_z, W_T, d + j, 3 * d, memory, now, d)
            dot_products(by_n, W_T, 2 * d + j, 3 * d, memory, now, d)
            for i in range(tile):
                k = 3 * (base + offsets[i]) + j
                index = base + offsets[i] + j
                slot = j * tile + i
                r = by_r[i] + g_r[i]
                z = by_z[i] + g_z[i]
                n = _gru_n(r, by_n[i], g_n[i])
                arguments[k] = r
                arguments[k + d] = z
                arguments[k + 2 * d] = n
                products[index] = by_n[i]
                states[index] = memory[now + slot]
                value = _gru_output(z, n, memory[now + slot])
                memory[following + slot] = value
                if t == T - 1:
                    h_end[offsets[i] + j] = value
        cuda.syncthreads()
        now, following = following, now
        base += batch * d


@device
def _gru_deltas(arguments, product, before, of_h, memory, deltas, stride, direct):
    """Write the gradients of the products of one unit, and what reaches h before the step directly.

    The three gradients are `stride` apart in shared memory, from `deltas` on. `of_h` is the adjoint
    after the step.
    """
    r, z, n = arguments
    d_n = _gru_of_n(z, n, of_h)
    memory[deltas] = _gru_of_r(r, product, d_n)
    memory[deltas + stride] = _gru_of_z(z, n, before, of_h)
    memory[deltas + 2 * stride] = _gated(r, d_n)
    memory[direct] = _gated(z, of_h)


@unbounded  # with bounds some float64 registers spill
def _gru_backward(
    W, arguments, products, states, adjoint, log_norm, wanted, least, lost, readout, full,
    every, T, batch,
):  # fmt: skip
    """Pull the adjoint back over all steps of the sequences of a block, as `_lstm_backward`."""
    thread = cuda.threadIdx.x
    threads = cuda.blockDim.x
    offsets = cuda.local.array(tile, np.int64)
    total = cuda.local.array(tile, real)
    sequence = min(cuda.blockIdx.x * tile + thread, batch - 1)  # of a thread that computes norms
    set_offsets(offsets, cuda.blockIdx.x, batch, d)
    memory = cuda.shared.array(0, real)
    now = 0  # the deltas of this step, and of the one after it
    following = 3 * d * tile
    lambda_ = 6 * d * tile  # values that only one thread uses between two normalizations
    direct = 7 * d * tile
    logs = 8 * d * tile  # numbers of the threads that compute norms
    scales = 9 * d * tile
    load_vectors(memory, lambda_, adjoint, offsets, thread, threads, d)
    if thread < tile:
        memory[logs + thread] = log_norm[sequence]
    base = (T - 1) * batch * d
    for t in range(T - 1, -1, -1):
        for j in range(thread, d, threads):
            for i in range(tile):
                offset = min(cuda.blockIdx.x * tile + i, batch - 1) * d
                k = 3 * (base + offset) + j
                a = arguments[k], arguments[k + d], arguments[k + 2 * d]
                index = base + offset + j
                slot = j * tile + i
                _gru_deltas(
                    a, products[index], states[index], memory[lambda_ + slot],
                    memory, now + slot, d * tile, direct + slot,
                )  # fmt: skip
        cuda.syncthreads()
        for j in range(thread, d, threads):
            dot_products(total, W, j, d, memory, now, 3 * d)
            for i in range(tile):
                slot = j * tile + i
                memory[lambda_ + slot] = total[i] + memory[direct + slot]
        if _is_due(t, every, wanted[t]):
            cuda.syncthreads()
            if thread < tile:
                norm = _norm(memory, lambda_ + thread, tile, d)
                _add_norm(memory, logs, scales, thread, norm, least[0], lost, sequence)
                if wanted[t] != 0.0:
                    readout[t * batch + sequence] = memory[logs + thread]
                    full[t * batch + sequence] = memory[logs + thread]
            cuda.syncthreads()
            _divide(memory, lambda_, scales, thread, threads, tile, d)
        now, following = following, now
        base -= batch * d
    store_vectors(adjoint, memory, lambda_, offsets, thread, threads, d)
    if thread < tile:
        log_norm[sequence] = memory[logs + thread]


_STORED_BYTES = 2**32
"""Bytes that one stretch of steps may store."""


def _most_units(dtype: torch.dtype) -> int:
    """Return the largest hidden size of these kernels; shared memory would hold more."""
    return _WIDEST


@engine("lstm/pull_back", "chrono_lstm/pull_back", most_units=_most_units)
class LSTM:
    """The LSTM's steps and their adjoints, as `longrnn.kernels.cpu_pull_back.LSTM`."""

    vectors = cpu.LSTM.vectors
    stored_bytes = _STORED_BYTES

    @staticmethod
    def forward(weights, state, u):
        """Run some steps.

        Parameters
        ----------
        weights : tuple
            W, R and b; see `longrnn.cells.lstm.LSTMCore.step`.
        state : tuple of (batch, d)
            The state before the first step.
        u : (time, batch, p)
            The inputs of the steps.

        Returns
        -------
        state : tuple of (batch, d)
            The state after the last step.
        saved : tuple of Tensor
            What `pull_back` needs.
        """
        W, R, b = weights
        arguments = drive(u, R, b)
        h0, c0 = (part.contiguous() for part in state)
        cells = u.new_empty(len(u), *c0.shape)
        h_end = torch.empty_like(h0)
        parts = W.T.contiguous(), arguments, h0, c0, h_end, cells
        launch_dense(_lstm_forward, h0, *parts, len(u), buffers=_FORWARD_BUFFERS, weights=W.numel())
        return (h_end, cells[-1]), (arguments, c0, cells)

    @staticmethod
    def pull_back(weights, saved, carried, every, wanted):
        """Pull adjoints back over some steps.

        Parameters
        ----------
        weights : tuple
            As for `forward`.
        saved : tuple of Tensor
            From `forward`.
        carried : Carried
            The adjoints after the last step; they become those before the first.
        every : int
            Number of steps between two normalizations.
        wanted : (time,)
            Not zero at the steps before which norms are wanted.

        Returns
        -------
        readout, full : (time, batch)
            log10 norms of the adjoints of h and of the full state, before the wanted steps.
        """
        return _pull_back(_lstm_backward, _LSTM_BUFFERS, weights, saved, carried, every, wanted)


@engine("gru/pull_back", most_units=_most_units)
class GRU:
    """The GRU's steps and their adjoints, as `longrnn.kernels.cpu_pull_back.GRU`."""

    vectors = cpu.GRU.vectors
    stored_bytes = _STORED_BYTES

    @staticmethod
    def forward(weights, state, u):
        """Run some steps.

        Parameters
        ----------
        weights : tuple
            W, R and b; see `longrnn.cells.gru.GRUCore.step`.
        state : tuple of (batch, d)
            The state before the first step.
        u : (time, batch, p)
            The inputs of the steps.

        Returns
        -------
        state : tuple of (batch, d)
            The state after the last step.
        saved : tuple of Tensor
            What `pull_back` needs.
        """
        W, R, b = weights
        arguments = drive(u, R, b)
        h0 = state[0].contiguous()
        products = u.new_empty(len(u), *h0.shape)
        states = torch.empty_like(products)
        h_end = torch.empty_like(h0)
        parts = W.T.contiguous(), arguments, h0, h_end, products, states
        launch_dense(_gru_forward, h0, *parts, len(u), buffers=_FORWARD_BUFFERS, weights=W.numel())
        return (h_end,), (arguments, products, states)

    @staticmethod
    def pull_back(weights, saved, carried, every, wanted):
        """Pull adjoints back over some steps.

        Parameters
        ----------
        weights : tuple
            As for `forward`.
        saved : tuple of Tensor
            From `forward`.
        carried : Carried
            The adjoints after the last step; they become those before the first.
        every : int
            Number of steps between two normalizations.
        wanted : (time,)
            Not zero at the steps before which norms are wanted.

        Returns
        -------
        readout, full : (time, batch)
            log10 norms of the adjoints of h and of the full state, before the wanted steps.
        """
        return _pull_back(_gru_backward, _GRU_BUFFERS, weights, saved, carried, every, wanted)


def _pull_back(run, buffers, weights, saved, carried, every, wanted):
    """Launch a backward kernel."""
    readout = wanted.new_zeros(len(wanted), len(carried.log_norm))
    full = torch.zeros_like(readout)
    least = wanted.new_full((1,), cpu.LEAST)
    adjoints = carried.adjoint.unbind(0)
    norms = carried.log_norm, wanted, least, carried.lost, readout, full
    W = weights[0].contiguous()
    parts = W, *saved, *adjoints, *norms, every, len(wanted)
    launch_dense(run, adjoints[0], *parts, buffers=buffers, weights=W.numel())
    return readout, full
