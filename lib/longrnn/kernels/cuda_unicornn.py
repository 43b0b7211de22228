r"""UnICORNN on the GPU, a layer at a time: one thread for each neuron of each sequence.

Forward, adjoint and the ways back are those of `longrnn.kernels.cpu_unicornn`, ``reversible`` left
out: with several layers it keeps hardly less than ``recovered``. Here the kernels compute the step
:math:`h = \Delta t \, \hat\sigma(c)` and the bias of the drive, and the backward kernel recomputes
s off the critical path. The drive of a narrow layer is part of the kernels
(`longrnn.kernels._cuda_chains`): then nothing but the inputs, y and z is read.
"""

import torch

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
from longrnn.kernels._cuda_device import ONE, ZERO, pipelined, shared, sigmoid, tanh
from longrnn.kernels._recurrence import Recurrence, Sources
from longrnn.kernels.cpu_unicornn import oscillate, pull_back, reference

_oscillate, _pull_back = shared(oscillate), shared(pull_back)

inputs = 0
"""Compile-time constant: inputs whose weighted sum is the drive; 0 if the drive is given."""
keep = recover = arriving = 0
"""Compile-time constants: whether velocities are kept, whether they are recovered from positions,
and whether gradients of the outputs arrive."""


@repeated
def _fetch(arrays, n):
    source, _, _, start, step, _, _, inputs, _ = arrays
    return fetch_drive(source, start + n * step, inputs)


@repeated
def _step(neuron, state, fetched, arrays, n):
    w, h, alpha, weights = neuron
    y, z = state
    _, outputs, velocities, _, _, at, size, inputs, keep = arrays
    y, z = _oscillate(w, h, alpha, drive_of(weights, fetched, inputs), y, z)
    outputs[at + n * size] = y
    if keep:
        velocities[at + n * size] = z
    return y, z


_steps = pipelined(_fetch, _step)


@kernel
def _forward_kernel(
    source, V, w, b, c, y0, z0, y, y_end, z_end, z, dt, alpha, T, d, run_chains, chains
):  # fmt: skip
    """`z` receives the velocities at all times, to `keep` them."""
    i = cuda.grid(1)
    if i < chains:
        own = place_of_weights(i, d, run_chains)
        weights = load_drive_weights(V, b, own, inputs)
        neuron = w[own], dt * sigmoid(c[own]), alpha, weights
        start, step = start_of_drive(i, d, inputs), step_of_drive(chains, d, inputs)
        arrays = source, y, z, start, step, i, chains, inputs, keep
        y_end[i], z_end[i] = _steps(neuron, (y0[i], z0[i]), arrays, T)


@repeated
def _adjoint_fetch(arrays, n):
    source, y, z, from_y, _, end_of_drive, step, end, size, inputs, recover, arriving = arrays
    here = end - n * size
    return (
        fetch_drive(source, end_of_drive - n * step, inputs),
        y[here - size],
        y[here] if recover else z[here],
        from_y[here] if arriving else ZERO,
    )


@repeated
def _adjoint_step(neuron, state, fetched, arrays, n):
    """The state holds lambda, mu, and the sums for the gradients of w, h, b and V."""
    w, h, alpha, weights = neuron
    lambda_, mu, w_sum, h_sum, sums = state
    inputs_n, before, z, arrived = fetched
    _, _, _, _, delta, _, _, end, size, inputs, recover, _ = arrays
    if recover:
        z = (z - before) / h
    s = tanh(w * before + drive_of(weights, inputs_n, inputs))
    lambda_, mu, d, h_part = _pull_back(w, h, alpha, s, before, z, lambda_ + arrived, mu)
    delta[end - n * size] = d
    sums = add_to_drive_sums(sums, d, inputs_n, inputs)
    return lambda_, mu, w_sum + d * before, h_sum + h_part, sums


_adjoint_steps = pipelined(_adjoint_fetch, _adjoint_step)


@kernel
def _backward_kernel(
    source, V, w, b, c, y0, y, z, from_y, from_y_end, from_z_end, delta, of_y0, of_z0, stored,
    has_y_end, has_z_end, dt, alpha, T, d, run_chains, chains,
):  # fmt: skip
    """`stored` (3 + inputs, chains) receives sums for the gradients of w, c, b and V."""
    i = cuda.grid(1)
    if i < chains:
        own = place_of_weights(i, d, run_chains)
        gate = sigmoid(c[own])
        weights = load_drive_weights(V, b, own, inputs)
        neuron = w[own], dt * gate, alpha, weights
        first, step = start_of_drive(i, d, inputs), step_of_drive(chains, d, inputs)
        drives = first + (T - 1) * step, step
        steps = i + (T - 1) * chains, chains
        arrays = source, y, z, from_y, delta, *drives, *steps, inputs, recover, arriving
        lambda_ = from_y_end[i] if has_y_end else real(0)
        mu = from_z_end[i] if has_z_end else real(0)
        state = lambda_, mu, real(0), real(0), no_drive_sums(real(0))
        state = _adjoint_steps(neuron, state, arrays, T - 1)
        fetched = (  # what came before the first step is not in y
            fetch_drive(source, first, inputs),
            y0[i],
            y[i] if recover else z[i],
            from_y[i] if arriving else ZERO,
        )
        of_y0[i], of_z0[i], w_sum, h_sum, sums = _adjoint_step(
            neuron, state, fetched, arrays, T - 1
        )
        stored[i] = w_sum
        stored[chains + i] = h_sum * dt * gate * (ONE - gate)
        store_drive_sums(stored, sums, 2 * chains + i, chains, inputs)


def _forward(way, dt, alpha, g, x, V, w, b, c, y0, z0, y, y_end, z_end, z):
    source, inputs = source_of(g, x, V)
    launch_chains(
        _forward_kernel,
        y0.numel(),
        *(source, V, w, b, c, y0, z0, y, y_end, z_end, z),
        *(dt, alpha, len(y), y.shape[2], chains_per_run(y0, w)),
        inputs=inputs,
        keep=int(way == "stored"),
    )


def _backward(way, dt, alpha, g, x, V, w, b, c, y0, z0, y, z, from_y, from_y_end, from_z_end):
    source, inputs = source_of(g, x, V)
    delta, of_y0, of_z0 = torch.empty_like(y), torch.empty_like(y0), torch.empty_like(y0)
    stored = y.new_empty(3 + inputs, *y0.shape)
    launch_chains(
        _backward_kernel,
        y0.numel(),
        *(source, V, w, b, c, y0, y, z, from_y, from_y_end, from_z_end),
        *(delta, of_y0, of_z0, stored, flag(from_y_end), flag(from_z_end)),
        *(dt, alpha, len(y), y.shape[2], chains_per_run(y0, w)),
        inputs=inputs,
        recover=int(way == "recovered"),
        arriving=flag(from_y),
    )
    of_w, of_c, of_b, of_V = sum_over_batch(stored, 3, w)
    if inputs == 0:
        return delta, None, None, of_w, of_b, of_c, of_y0, of_z0
    return None, lambda: inputs_gradient(delta, V), of_V, of_w, of_b, of_c, of_y0, of_z0


def _reference(way, dt, alpha, g, x, V, w, b, c, y0, z0):
    w, b, c = (of_sequences(part, y0) for part in (w, b, c))
    g = drive_in_pytorch(g, x, V) + b
    return reference(way, 1, alpha, g, w, dt * torch.sigmoid(c), y0, z0)


def _shapes(a):
    batch, d = a.y0.shape
    T = len(a.g if a.x is None else a.x)
    velocities = T if a.way == "stored" else 0
    return [(T, batch, d), (batch, d), (batch, d), (velocities, batch, d)]


_LAYER = Recurrence(
    "unicornn_cuda",
    settings="str way, float dt, float alpha",
    inputs="g?:1 x?:1 V? w b c y0:0 z0:0",
    results="y y_end z_end z",
    final=2,
    saved="x V w b c y0 z0 y z",
    unsaved=lambda way, dt, alpha: ("z",) if way == "recovered" else (),
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=_reference,
    adjoint_takes_drive=True,
    arrays=False,
    runs=True,
)


@engine("unicornn", options=("backward",), runs=True)
def unicornn(weights, state, u, *, backward: str = "stored"):
    """Run UnICORNN, as `longrnn.kernels.cpu_unicornn.unicornn`."""
    layers, dts, alpha, skip, skips, masks = weights
    below = [u]
    final = []
    for k, ((w, V, b, c), dt) in enumerate(zip(layers, dts, strict=True), start=1):
        y0, z0 = state[2 * k - 2 : 2 * k]
        sources = None
        if skips[k - 1] is None:
            g, x = product_or_inputs(below[-1], V)
            if x is None and backward != "stored":
                sources = Sources(below[-1], V)
        else:  # below (103)
            sources = Sources(below[-1], V, None, below[k - skip - 1], skips[k - 1])
            g, x = sources.drive(), None
            if backward == "stored":
                sources = None
        of_layer = (g, x, V if x is not None else None, w, b, c, y0, z0)
        outputs, ends = _LAYER(backward, float(dt), float(alpha), *of_layer, sources=sources)
        final += ends
        # The mask is the same at all times.
        below.append(outputs if masks[k - 1] is None else masks[k - 1] * outputs)
    return outputs, tuple(final)
