r"""IndRNN on the GPU, one layer at a time: one thread per neuron and sequence.

The forward and adjoint equations, and what is stored, are those of `longrnn.kernels.cpu_indrnn`.
The kernels add the bias of the drive, and compute the whole drive of a narrow layer
(`longrnn.kernels._cuda_chains`).
"""

from typing import NamedTuple

import torch

from longrnn.kernels._cpu_activations import PHI
from longrnn.kernels._cuda import cuda, engine, inlined_late
from longrnn.kernels._cuda_chains import (
    chains_per_run,
    drive_in_pytorch,
    inputs_gradient,
    product_or_inputs,
    source_of,
)
from longrnn.kernels._cuda_chains_device import (
    add_to_drive_sums,
    drive_of,
    fetch_drive,
    load_drive_weights,
    neuron_of,
    no_drive_sums,
    start_of_drive,
    step_of_drive,
    store_drive_sums,
)
from longrnn.kernels._cuda_device import ZERO, activate, times_slope
from longrnn.kernels._cuda_kernel import arriving, kernel, real
from longrnn.kernels._cuda_launch import is_present, launch_chains
from longrnn.kernels._cuda_pipeline import pipelined
from longrnn.kernels._cuda_sums import sum_over_batch
from longrnn.kernels._drive import Sources
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import broadcast_over_sequences
from longrnn.kernels.cpu_indrnn import reference

inputs = 0
"""Compile-time constant: the number of inputs of a narrow layer, 0 for a wide one."""
phi = 0
"""Compile-time constant: the number of the activation."""


class _Arrays(NamedTuple):
    """Arrays of the forward kernel, and where the numbers of a chain are in them."""

    source: object
    """V x, or the inputs."""
    outputs: object
    drive_start: int
    """Offset of the first time in `source`."""
    drive_step: int
    """Distance between two times in `source`."""
    chain: int
    """Offset of the first time in `outputs`."""
    chains: int
    """Distance between two times in `outputs`."""
    inputs: int


@inlined_late
def _fetch(arrays, t):
    return fetch_drive(arrays.source, arrays.drive_start + t * arrays.drive_step, arrays.inputs)


@inlined_late
def _step(neuron, h, fetched, arrays, t):
    phi, w, weights = neuron
    h = activate(phi, w * h + drive_of(weights, fetched, arrays.inputs))
    arrays.outputs[arrays.chain + t * arrays.chains] = h
    return h


_run_steps = pipelined(_fetch, _step)


@kernel
def _forward_kernel(source, V, w, b, h0, outputs, h_end, T, d, run_chains, chains):
    """Run all steps of a chain. `source` is V x (time, batch, d), or x (time, batch, inputs)."""
    i = cuda.grid(1)
    if i < chains:
        j = neuron_of(i, d, run_chains)
        neuron = phi, w[j], load_drive_weights(V, b, j, inputs)
        start = start_of_drive(i, d, inputs)
        step = step_of_drive(chains, d, inputs)
        arrays = _Arrays(source, outputs, start, step, i, chains, inputs)
        h_end[i] = _run_steps(neuron, h0[i], arrays, T)


class _AdjointArrays(NamedTuple):
    """Arrays of the backward kernel, and where the numbers of a chain are in them.

    The backward kernel counts its steps n from the last time.
    """

    source: object
    """V x, which is not needed, or the inputs."""
    outputs: object
    grad_outputs: object
    delta: object
    drive_end: int
    """Offset of the last time in `source`."""
    drive_step: int
    """Distance between two times in `source`."""
    end: int
    """Offset of the last time in the other arrays."""
    chains: int
    """Distance between two times in the other arrays."""
    inputs: int
    arriving: int


@inlined_late
def _adjoint_fetch(arrays, n):
    index = arrays.end - n * arrays.chains
    drive = 0
    if arrays.inputs > 0:
        drive = arrays.drive_end - n * arrays.drive_step
    arrived = ZERO
    if arrays.arriving:
        arrived = arrays.grad_outputs[index]
    before = arrays.outputs[index - arrays.chains]
    return fetch_drive(arrays.source, drive, arrays.inputs), before, arrived


@inlined_late
def _adjoint_step(neuron, state, fetched, arrays, n):
    """Backpropagate through one step.

    The state is h, its gradient from the step after, and the sums for the gradients of w, b and V.
    """
    phi, w = neuron
    h, back, w_sum, drive_sums = state
    inputs_t, before, arrived = fetched
    delta = times_slope(phi, arrived + back, h)
    arrays.delta[arrays.end - n * arrays.chains] = delta
    drive_sums = add_to_drive_sums(drive_sums, delta, inputs_t, arrays.inputs)
    return before, w * delta, w_sum + delta * before, drive_sums


_run_adjoint_steps = pipelined(_adjoint_fetch, _adjoint_step)


@kernel
def _backward_kernel(
    source, w, h0, outputs, grad_outputs, grad_h_end, delta, grad_h0, stored, has_h_end,
    T, d, run_chains, chains,
):  # fmt: skip
    """Backpropagate through all steps of a chain.

    `stored` (2 + inputs, chains) receives sums over time for the gradients of w, b and V.
    """
    i = cuda.grid(1)
    if i < chains:
        neuron = phi, w[neuron_of(i, d, run_chains)]
        start = start_of_drive(i, d, inputs)
        step = step_of_drive(chains, d, inputs)
        end = i + (T - 1) * chains
        arrays = _AdjointArrays(
            source, outputs, grad_outputs, delta,
            start + (T - 1) * step, step, end, chains, inputs, arriving,
        )  # fmt: skip
        back = real(0)
        if has_h_end:
            back = grad_h_end[i]
        state = outputs[end], back, real(0), no_drive_sums(real(0))
        state = _run_adjoint_steps(neuron, state, arrays, T - 1)
        # The first step: the state before it is not among the outputs.
        drive = 0
        if inputs > 0:
            drive = start
        arrived = ZERO
        if arriving:
            arrived = grad_outputs[i]
        fetched = fetch_drive(source, drive, inputs), h0[i], arrived
        _, grad_h0[i], stored[i], drive_sums = _adjoint_step(neuron, state, fetched, arrays, T - 1)
        store_drive_sums(stored, drive_sums, chains + i, chains, inputs)


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


def _backward(phi, x, V, w, b, h0, outputs, grad_outputs, grad_h_end):
    source, inputs = source_of(outputs, x, V)
    delta = torch.empty_like(outputs)
    grad_h0 = torch.empty_like(h0)
    stored = h0.new_empty(2 + inputs, *h0.shape)
    launch_chains(
        _backward_kernel,
        h0.numel(),
        *(source, w, h0, outputs, grad_outputs, grad_h_end, delta, grad_h0, stored),
        *(is_present(grad_h_end), len(outputs), h0.shape[1], chains_per_run(h0, w)),
        phi=phi,
        inputs=inputs,
        arriving=is_present(grad_outputs),
    )
    grad_w, grad_b, grad_V = sum_over_batch(stored, 2, w)
    if inputs == 0:
        return delta, None, None, grad_w, grad_b, grad_h0
    return None, lambda: inputs_gradient(delta, V), grad_V, grad_w, grad_b, grad_h0


def _reference(phi, g, x, V, w, b, h0):
    g = drive_in_pytorch(g, x, V) + broadcast_over_sequences(b, h0)
    return reference(phi, g, broadcast_over_sequences(w, h0), h0)


def _shapes(a):
    source, _ = source_of(a.g, a.x, a.V)
    # `len` would fix the length in a traced program.
    return [(source.shape[0], *a.h0.shape), a.h0.shape]


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
    takes_networks=True,
)


@engine("indrnn", takes_networks=True)
def indrnn(weights, state, u):
    """Run IndRNN, section 3 of Li et al. 2018.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.indrnn.IndRNNCore.step`.
    state : tuple of (batch, d)
        (h^1, .., h^L) before the first input.
    u : (time, batch, p)
        The inputs.

    Returns
    -------
    outputs : (time, batch, d)
        h^L after every input.
    state : tuple of (batch, d)
        (h^1, .., h^L) after the last input.
    """
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
