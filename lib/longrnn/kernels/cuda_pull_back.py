r"""Adjoint states of the LSTM and the GRU on the GPU: one launch forward, one backward.

Equations, and what is stored, are those of `longrnn.kernels.cpu_pull_back`. A block does some
sequences, a thread a unit, as in `longrnn.kernels.cuda_rnn`. Norms are computed by one thread per
sequence, every few steps. The backward kernels are for float64 alone.
"""

import math

import numpy as np
import torch

from longrnn.kernels import cpu_pull_back as cpu
from longrnn.kernels._cuda import (
    cuda,
    d,
    device,
    engine,
    launch_rows,
    real,
    tile,
    unbounded,
)
from longrnn.kernels._cuda_device import load, locate, products, shared
from longrnn.kernels._recurrence import drive

_lstm_cell, _lstm_output, _lstm_mu = map(shared, (cpu.lstm_cell, cpu.lstm_output, cpu.lstm_mu))
_lstm_of_i, _lstm_of_f, _lstm_of_g, _lstm_of_o = map(
    shared, (cpu.lstm_of_i, cpu.lstm_of_f, cpu.lstm_of_g, cpu.lstm_of_o)
)
_gru_n, _gru_output, _gru_of_n, _gru_of_r, _gru_of_z = map(
    shared, (cpu.gru_n, cpu.gru_output, cpu.gru_of_n, cpu.gru_of_r, cpu.gru_of_z)
)
_gated = shared(cpu.gated)

_LSTM_BUFFERS = 12
"""Vectors in shared memory of the LSTM's backward kernel; the forward kernels have two."""
_GRU_BUFFERS = 10
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
def _advance(memory, logs, scales, i, norm, least, lost, sequence):
    """Add the log10 of a norm to that of sequence i of a block, and keep what to divide by."""
    log = memory[logs + i]
    if log > -math.inf and not (least <= norm < math.inf):
        lost[sequence] = 1
    memory[logs + i] = log + _log10(norm)
    memory[scales + i] = norm if norm > 0.0 else 1.0


@unbounded  # with bounds some float64 registers spill
def _lstm_forward(W_T, arguments, h0, c0, h_end, cells, T, batch):
    """`arguments` (time, batch, 4 d), order i f g o, holds the drive and becomes theirs."""
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    g_i, by_i = cuda.local.array(tile, real), cuda.local.array(tile, real)
    g_f, by_f = cuda.local.array(tile, real), cuda.local.array(tile, real)
    g_g, by_g = cuda.local.array(tile, real), cuda.local.array(tile, real)
    g_o, by_o = cuda.local.array(tile, real), cuda.local.array(tile, real)
    before = cuda.local.array(tile, real)
    locate(places, cuda.blockIdx.x, batch, d)
    memory = cuda.shared.array(0, real)
    h, after = 0, d * tile
    load(memory, h, h0, places, row, rows, d)
    cuda.syncthreads()
    here = 0
    for t in range(T):
        for j in range(row, d, rows):
            for i in range(tile):  # under way during the products
                k = 4 * (here + places[i]) + j
                g_i[i], g_f[i] = arguments[k], arguments[k + d]
                g_g[i], g_o[i] = arguments[k + 2 * d], arguments[k + 3 * d]
                there = here + places[i] + j
                before[i] = cells[there - batch * d] if t > 0 else c0[places[i] + j]
            products(by_i, W_T, j, 4 * d, memory, h, d)
            products(by_f, W_T, d + j, 4 * d, memory, h, d)
            products(by_g, W_T, 2 * d + j, 4 * d, memory, h, d)
            products(by_o, W_T, 3 * d + j, 4 * d, memory, h, d)
            for i in range(tile):
                k, there = 4 * (here + places[i]) + j, here + places[i] + j
                a_i, a_f = by_i[i] + g_i[i], by_f[i] + g_f[i]
                a_g, a_o = by_g[i] + g_g[i], by_o[i] + g_o[i]
                arguments[k], arguments[k + d] = a_i, a_f
                arguments[k + 2 * d], arguments[k + 3 * d] = a_g, a_o
                c = _lstm_cell(a_i, a_f, a_g, before[i])
                cells[there] = c
                value = _lstm_output(a_o, c)
                memory[after + j * tile + i] = value
                if t == T - 1:
                    h_end[places[i] + j] = value
        cuda.syncthreads()
        h, after = after, h
        here += batch * d


@unbounded  # with bounds some float64 registers spill
def _lstm_backward(
    W, arguments, c0, cells, h_adjoint, c_adjoint, log_norm, wanted, least, lost, readout, full,
    every, T, batch,
):  # fmt: skip
    """The adjoints are those after the last step and become those before the first.

    Where `wanted`, `readout` and `full` (time, batch) receive the norms before a step.
    """
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    back = cuda.local.array(tile, real)
    sequence = min(cuda.blockIdx.x * tile + row, batch - 1)  # of a thread that computes norms
    locate(places, cuda.blockIdx.x, batch, d)
    memory = cuda.shared.array(0, real)
    deltas, after = 0, 4 * d * tile
    lambda_, mu = 8 * d * tile, 9 * d * tile  # each thread's own
    logs, scales = 10 * d * tile, 11 * d * tile  # of one thread per sequence
    load(memory, lambda_, h_adjoint, places, row, rows, d)
    load(memory, mu, c_adjoint, places, row, rows, d)
    if row < tile:
        memory[logs + row] = log_norm[sequence]
    here = (T - 1) * batch * d
    for t in range(T - 1, -1, -1):
        for j in range(row, d, rows):
            for i in range(tile):
                place = min(cuda.blockIdx.x * tile + i, batch - 1) * d
                k, there, own = 4 * (here + place) + j, here + place + j, j * tile + i
                a_i, a_f = arguments[k], arguments[k + d]
                a_g, a_o = arguments[k + 2 * d], arguments[k + 3 * d]
                before = cells[there - batch * d] if t > 0 else c0[place + j]
                c, of_h = cells[there], memory[lambda_ + own]
                of_c = _lstm_mu(a_o, c, of_h, memory[mu + own])
                memory[deltas + own] = _lstm_of_i(a_i, a_g, of_c)
                memory[deltas + d * tile + own] = _lstm_of_f(a_f, before, of_c)
                memory[deltas + 2 * d * tile + own] = _lstm_of_g(a_i, a_g, of_c)
                memory[deltas + 3 * d * tile + own] = _lstm_of_o(a_o, c, of_h)
                memory[mu + own] = _gated(a_f, of_c)
        cuda.syncthreads()
        for j in range(row, d, rows):
            products(back, W, j, d, memory, deltas, 4 * d)
            for i in range(tile):
                memory[lambda_ + j * tile + i] = back[i]
        if t % every == 0 or wanted[t] != 0.0:
            cuda.syncthreads()
            if row < tile:
                of_readout = _norm(memory, lambda_ + row, tile, d)
                norm = math.hypot(of_readout, _norm(memory, mu + row, tile, d))
                _advance(memory, logs, scales, row, norm, least[0], lost, sequence)
                if wanted[t] != 0.0:
                    share = of_readout / memory[scales + row]
                    readout[t * batch + sequence] = memory[logs + row] + _log10(share)
                    full[t * batch + sequence] = memory[logs + row]
            cuda.syncthreads()
            for j in range(row, d, rows):
                for i in range(tile):
                    memory[lambda_ + j * tile + i] /= memory[scales + i]
                    memory[mu + j * tile + i] /= memory[scales + i]
        deltas, after = after, deltas
        here -= batch * d
    for j in range(row, d, rows):
        for i in range(tile):
            h_adjoint[places[i] + j] = memory[lambda_ + j * tile + i]
            c_adjoint[places[i] + j] = memory[mu + j * tile + i]
    if row < tile:
        log_norm[sequence] = memory[logs + row]


@unbounded  # with bounds some float64 registers spill
def _gru_forward(W_T, arguments, h0, h_end, of_n, states, T, batch):
    """`arguments` (time, batch, 3 d), order r z n, holds the drive and becomes theirs."""
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    g_r, by_r = cuda.local.array(tile, real), cuda.local.array(tile, real)
    g_z, by_z = cuda.local.array(tile, real), cuda.local.array(tile, real)
    g_n, by_n = cuda.local.array(tile, real), cuda.local.array(tile, real)
    locate(places, cuda.blockIdx.x, batch, d)
    memory = cuda.shared.array(0, real)
    h, after = 0, d * tile
    load(memory, h, h0, places, row, rows, d)
    cuda.syncthreads()
    here = 0
    for t in range(T):
        for j in range(row, d, rows):
            for i in range(tile):  # under way during the products
                k = 3 * (here + places[i]) + j
                g_r[i], g_z[i], g_n[i] = arguments[k], arguments[k + d], arguments[k + 2 * d]
            products(by_r, W_T, j, 3 * d, memory, h, d)
            products(by_z, W_T, d + j, 3 * d, memory, h, d)
            products(by_n, W_T, 2 * d + j, 3 * d, memory, h, d)
            for i in range(tile):
                k, there, own = 3 * (here + places[i]) + j, here + places[i] + j, j * tile + i
                r, z = by_r[i] + g_r[i], by_z[i] + g_z[i]
                n = _gru_n(r, by_n[i], g_n[i])
                arguments[k], arguments[k + d], arguments[k + 2 * d] = r, z, n
                of_n[there], states[there] = by_n[i], memory[h + own]
                value = _gru_output(z, n, memory[h + own])
                memory[after + own] = value
                if t == T - 1:
                    h_end[places[i] + j] = value
        cuda.syncthreads()
        h, after = after, h
        here += batch * d


@unbounded  # with bounds some float64 registers spill
def _gru_backward(
    W, arguments, of_n, states, adjoint, log_norm, wanted, least, lost, readout, full,
    every, T, batch,
):  # fmt: skip
    """As `_lstm_backward`, with one adjoint."""
    row, rows = cuda.threadIdx.x, cuda.blockDim.x
    places = cuda.local.array(tile, np.int64)
    back = cuda.local.array(tile, real)
    sequence = min(cuda.blockIdx.x * tile + row, batch - 1)  # of a thread that computes norms
    locate(places, cuda.blockIdx.x, batch, d)
    memory = cuda.shared.array(0, real)
    deltas, after = 0, 3 * d * tile
    lambda_, through = 6 * d * tile, 7 * d * tile  # each thread's own
    logs, scales = 8 * d * tile, 9 * d * tile  # of one thread per sequence
    load(memory, lambda_, adjoint, places, row, rows, d)
    if row < tile:
        memory[logs + row] = log_norm[sequence]
    here = (T - 1) * batch * d
    for t in range(T - 1, -1, -1):
        for j in range(row, d, rows):
            for i in range(tile):
                place = min(cuda.blockIdx.x * tile + i, batch - 1) * d
                k, there, own = 3 * (here + place) + j, here + place + j, j * tile + i
                r, z, n = arguments[k], arguments[k + d], arguments[k + 2 * d]
                of_h = memory[lambda_ + own]
                d_n = _gru_of_n(z, n, of_h)
                memory[deltas + own] = _gru_of_r(r, of_n[there], d_n)
                memory[deltas + d * tile + own] = _gru_of_z(z, n, states[there], of_h)
                memory[deltas + 2 * d * tile + own] = _gated(r, d_n)
                memory[through + own] = _gated(z, of_h)
        cuda.syncthreads()
        for j in range(row, d, rows):
            products(back, W, j, d, memory, deltas, 3 * d)
            for i in range(tile):
                own = j * tile + i
                memory[lambda_ + own] = back[i] + memory[through + own]
        if t % every == 0 or wanted[t] != 0.0:
            cuda.syncthreads()
            if row < tile:
                norm = _norm(memory, lambda_ + row, tile, d)
                _advance(memory, logs, scales, row, norm, least[0], lost, sequence)
                if wanted[t] != 0.0:
                    readout[t * batch + sequence] = memory[logs + row]
                    full[t * batch + sequence] = memory[logs + row]
            cuda.syncthreads()
            for j in range(row, d, rows):
                for i in range(tile):
                    memory[lambda_ + j * tile + i] /= memory[scales + i]
        deltas, after = after, deltas
        here -= batch * d
    for j in range(row, d, rows):
        for i in range(tile):
            adjoint[places[i] + j] = memory[lambda_ + j * tile + i]
    if row < tile:
        log_norm[sequence] = memory[logs + row]


_STORED_BYTES = 2**32


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
        """Return the state after some steps, and what `pull_back` needs."""
        W, R, b = weights
        arguments = drive(u, R, b)
        h0, c0 = (part.contiguous() for part in state)
        cells = u.new_empty(len(u), *c0.shape)
        h_end = torch.empty_like(h0)
        parts = W.T.contiguous(), arguments, h0, c0, h_end, cells
        launch_rows(_lstm_forward, h0, *parts, len(u), buffers=2, weights=W.numel())
        return (h_end, cells[-1]), (arguments, c0, cells)

    @staticmethod
    def pull_back(weights, saved, carried, every, wanted):
        """Pull `carried` back over the steps; as `longrnn.kernels.cpu_pull_back.LSTM`."""
        return _pull_back(_lstm_backward, _LSTM_BUFFERS, weights, saved, carried, every, wanted)


@engine("gru/pull_back", most_units=_most_units)
class GRU:
    """The GRU's steps and their adjoints, as `longrnn.kernels.cpu_pull_back.GRU`."""

    vectors = cpu.GRU.vectors
    stored_bytes = _STORED_BYTES

    @staticmethod
    def forward(weights, state, u):
        """Return the state after some steps, and what `pull_back` needs."""
        W, R, b = weights
        arguments = drive(u, R, b)
        h0 = state[0].contiguous()
        of_n = u.new_empty(len(u), *h0.shape)
        states = torch.empty_like(of_n)
        h_end = torch.empty_like(h0)
        parts = W.T.contiguous(), arguments, h0, h_end, of_n, states
        launch_rows(_gru_forward, h0, *parts, len(u), buffers=2, weights=W.numel())
        return (h_end,), (arguments, of_n, states)

    @staticmethod
    def pull_back(weights, saved, carried, every, wanted):
        """Pull `carried` back over the steps; as `longrnn.kernels.cpu_pull_back.LSTM`."""
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
    launch_rows(run, adjoints[0], *parts, buffers=buffers, weights=W.numel())
    return readout, full
