r"""IndRNN on the GPU, a layer at a time: one thread for each neuron of each sequence.

Forward and adjoint, and what is stored, are those of `longrnn.kernels.cpu_indrnn`. The kernels add
the bias of the drive, and compute the whole drive of a narrow layer
(`longrnn.kernels._cuda_chains`).
"""

import torch

from longrnn.kernels._cpu import PHI
from longrnn.kernels._cuda import cuda, engine, flag, kernel, launch_chains, real, repeated
from longrnn.kernels._cuda_chains import (
    add_to_drive_sums,
    chains_per_run,
    drive_in_pytorch,
    drive_of,
    fetch_drive,
    inputs_gradient,
    load_drive_weights,
    no_drive_sums,
    of_sequences,
    place_of_weights,
    product_or_inputs,
    source_of,
    start_of_drive,
    step_of_drive,
    store_drive_sums,
    sum_over_batch,
)
from longrnn.kernels._cuda_device import ZERO, activate, pipelined, times_slope
from longrnn.kernels._recurrence import Recurrence, Sources
from longrnn.kernels.cpu_indrnn import reference

inputs = 0
"""Compile-time constant: inputs whose weighted sum is the drive; 0 if the drive is given."""
arriving = 0
"""Compile-time constant: whether gradients of the outputs arrive."""
phi = 0
"""Compile-time constant: the number of the activation."""


@repeated
def _fetch(arrays, t):
    source, _, start, step, _, _, inputs = arrays
    return fetch_drive(source, start + t * step, inputs)


@repeated
def _step(neuron, h, fetched, arrays, t):
    phi, w, weights = neuron
    _, outputs, _, _, at, size, inputs = arrays
    h = activate(phi, w * h + drive_of(weights, fetched, inputs))
    outputs[at + t * size] = h
    return h


_steps = pipelined(_fetch, _step)


@kernel
def _forward_kernel(source, V, w, b, h0, outputs, h_end, T, d, run_chains, chains):
    i = cuda.grid(1)
    if i < chains:
        own = place_of_weights(i, d, run_chains)
        neuron = phi, w[own], load_drive_weights(V, b, own, inputs)
        start, step = start_of_drive(i, d, inputs), step_of_drive(chains, d, inputs)
        h_end[i] = _steps(neuron, h0[i], (source, outputs, start, step, i, chains, inputs), T)


@repeated
def _adjoint_fetch(arrays, n):
    source, outputs, from_outputs, _, end_of_drive, step, end, size, inputs, arriving = arrays
    here = end - n * size
    return (
        # V x itself is not needed, the inputs are.
        fetch_drive(source, end_of_drive - n * step if inputs > 0 else 0, inputs),
        outputs[here - size],
        from_outputs[here] if arriving else ZERO,
    )


@repeated
def _adjoint_step(neuron, state, fetched, arrays, n):
    """The state holds h, its gradient from the step after, and the sums for those of w, b and V."""
    phi, w = neuron
    h, back, w_sum, sums = state
    inputs_t, before, arrived = fetched
    _, _, _, delta, _, _, end, size, inputs, _ = arrays
    d = times_slope(phi, arrived + back, h)
    delta[end - n * size] = d
    return before, w * d, w_sum + d * before, add_to_drive_sums(sums, d, inputs_t, inputs)


_adjoint_steps = pipelined(_adjoint_fetch, _adjoint_step)


@kernel
def _backward_kernel(
    x, w, h0, outputs, from_outputs, from_h_end, delta, of_h0, stored, has_h_end,
    T, d, run_chains, chains,
):  # fmt: skip
    """`stored` (2 + inputs, chains) receives sums for the gradients of w, b and V."""
    i = cuda.grid(1)
    if i < chains:
        neuron = phi, w[place_of_weights(i, d, run_chains)]
        first, step = start_of_drive(i, d, inputs), step_of_drive(chains, d, inputs)
        end = i + (T - 1) * chains
        drives, steps = (first + (T - 1) * step, step), (end, chains)
        arrays = x, outputs, from_outputs, delta, *drives, *steps, inputs, arriving
        back = from_h_end[i] if has_h_end else real(0)
        state = outputs[end], back, real(0), no_drive_sums(real(0))
        state = _adjoint_steps(neuron, state, arrays, T - 1)
        fetched = (  # what came before the first step is not among the outputs
            fetch_drive(x, first if inputs > 0 else 0, inputs),
            h0[i],
            from_outputs[i] if arriving else ZERO,
        )
        _, of_h0[i], stored[i], sums = _adjoint_step(neuron, state, fetched, arrays, T - 1)
        store_drive_sums(stored, sums, chains + i, chains, inputs)


def _forward(phi, g, x, V, w, b, h0, outputs, h_end):
    source, inputs = source_of(g, x, V)
    launch_chains(
        _forward_kernel,
        h0.numel(),
        *(source, V, w, b, h0, outputs, h_end),
        *(len(outputs), h0.shape[1], chains_per_run(h0, w)),
        phi=phi,
        inputs=inputs,
    )


def _backward(phi, x, V, w, b, h0, outputs, from_outputs, from_h_end):
    source, inputs = source_of(outputs, x, V)
    delta, of_h0 = torch.empty_like(outputs), torch.empty_like(h0)
    stored = h0.new_empty(2 + inputs, *h0.shape)
    launch_chains(
        _backward_kernel,
        h0.numel(),
        *(source, w, h0, outputs, from_outputs, from_h_end, delta, of_h0, stored),
        *(flag(from_h_end), len(outputs), h0.shape[1], chains_per_run(h0, w)),
        phi=phi,
        inputs=inputs,
        arriving=flag(from_outputs),
    )
    of_w, of_b, of_V = sum_over_batch(stored, 2, w)
    if inputs == 0:
        return delta, None, None, of_w, of_b, of_h0
    return None, lambda: inputs_gradient(delta, V), of_V, of_w, of_b, of_h0


def _reference(phi, g, x, V, w, b, h0):
    w, b = of_sequences(w, h0), of_sequences(b, h0)
    return reference(phi, drive_in_pytorch(g, x, V) + b, w, h0)


def _shapes(a):
    T = len(a.g if a.x is None else a.x)
    return [(T, *a.h0.shape), a.h0.shape]


_INDRNN = Recurrence(
    "indrnn_cuda",
    settings="int phi",
    inputs="g?:1 x?:1 V? w b h0:0",
    results="outputs h_end",
    saved="x V w b h0 outputs",
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=_reference,
    arrays=False,
    runs=True,
)


@engine("indrnn", runs=True)
def indrnn(weights, state, u):
    """Run IndRNN, section 3 of Li et al.; shapes as in `longrnn.cells.Cell.forward`."""
    layers, phi = weights
    below = u
    final = []
    for (V, w, b), h0 in zip(layers, state, strict=True):
        g, x = product_or_inputs(below, V)
        if x is None:
            below, (h,) = _INDRNN(PHI[phi], g, None, None, w, b, h0, sources=Sources(below, V))
        else:
            below, (h,) = _INDRNN(PHI[phi], None, x, V, w, b, h0)
        final.append(h)
    return below, tuple(final)
