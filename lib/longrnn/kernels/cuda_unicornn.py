r"""UnICORNN on the GPU, one layer at a time: one thread per neuron and sequence.

The forward and adjoint equations, and the kinds of backward pass, are those of
`longrnn.kernels.cpu_unicornn`. ``reversible`` is left out: with several layers it saves hardly any
memory compared to ``recovered``. Here the kernels compute the step :math:`h = \Delta t \,
\hat\sigma(c)` and the bias of the drive, and the backward kernel recomputes s off the critical
path. The kernels of a narrow layer compute the drive, too (`longrnn.kernels._cuda_chains`): then
they read nothing but the inputs, y and z.
"""

from typing import NamedTuple

import torch

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
from longrnn.kernels._cuda_device import ONE, ZERO, device_version, sigmoid, tanh
from longrnn.kernels._cuda_kernel import arriving, kernel, real
from longrnn.kernels._cuda_launch import is_present, launch_chains
from longrnn.kernels._cuda_pipeline import pipelined
from longrnn.kernels._cuda_sums import sum_over_batch
from longrnn.kernels._drive import Sources
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import broadcast_over_sequences
from longrnn.kernels.cpu_unicornn import oscillate, pull_back, reference

_oscillate = device_version(oscillate)
_pull_back = device_version(pull_back)

_KINDS = ("stored", "recovered")
inputs = 0
"""Compile-time constant: the number of inputs of a narrow layer, 0 for a wide one."""
keep = 0
"""Compile-time constant: whether the forward kernel stores the velocities."""
recover = 0
"""Compile-time constant: whether the backward kernel recovers velocities from positions."""


class _Arrays(NamedTuple):
    """Arrays of the forward kernel, and where the numbers of a chain are in them."""

    source: object
    """V x, or the inputs."""
    y: object
    z: object
    drive_start: int
    """Offset of the first time in `source`."""
    drive_step: int
    """Distance between two times in `source`."""
    chain: int
    """Offset of the first time in y and z."""
    chains: int
    """Distance between two times there."""
    inputs: int
    keep: int


@inlined_late
def _fetch(arrays, n):
    return fetch_drive(arrays.source, arrays.drive_start + n * arrays.drive_step, arrays.inputs)


@inlined_late
def _step(neuron, state, fetched, arrays, n):
    w, h, alpha, weights = neuron
    y, z = state
    y, z = _oscillate(w, h, alpha, drive_of(weights, fetched, arrays.inputs), y, z)
    arrays.y[arrays.chain + n * arrays.chains] = y
    if arrays.keep:
        arrays.z[arrays.chain + n * arrays.chains] = z
    return y, z


_run_steps = pipelined(_fetch, _step)


@kernel
def _forward_kernel(
    source, V, w, b, c, y0, z0, y, y_end, z_end, z, dt, alpha, T, d, run_chains, chains
):  # fmt: skip
    """Run all steps of a chain; `z` receives the velocities at all times if they are to be kept."""
    i = cuda.grid(1)
    if i < chains:
        j = neuron_of(i, d, run_chains)
        neuron = w[j], dt * sigmoid(c[j]), alpha, load_drive_weights(V, b, j, inputs)
        start = start_of_drive(i, d, inputs)
        step = step_of_drive(chains, d, inputs)
        arrays = _Arrays(source, y, z, start, step, i, chains, inputs, keep)
        y_end[i], z_end[i] = _run_steps(neuron, (y0[i], z0[i]), arrays, T)


class _AdjointArrays(NamedTuple):
    """Arrays of the backward kernel, and where the numbers of a chain are in them.

    The backward kernel counts its steps n from the last time.
    """

    source: object
    """V x, or the inputs."""
    y: object
    z: object
    grad_y: object
    delta: object
    drive_end: int
    """Offset of the last time in `source`."""
    drive_step: int
    """Distance between two times in `source`."""
    end: int
    """Offset of the last time in the other arrays."""
    chains: int
    """Distance between two times there."""
    inputs: int
    recover: int
    arriving: int


@inlined_late
def _adjoint_fetch(arrays, n):
    index = arrays.end - n * arrays.chains
    drive = arrays.drive_end - n * arrays.drive_step
    inputs_n = fetch_drive(arrays.source, drive, arrays.inputs)
    before = arrays.y[index - arrays.chains]
    if arrays.recover:
        z = arrays.y[index]  # the position, from which the step computes the velocity
    else:
        z = arrays.z[index]
    arrived = ZERO
    if arrays.arriving:
        arrived = arrays.grad_y[index]
    return inputs_n, before, z, arrived


@inlined_late
def _adjoint_step(neuron, state, fetched, arrays, n):
    """Backpropagate through one step.

    The state is lambda, mu, and the sums for the gradients of w, h, b and V.
    """
    w, h, alpha, weights = neuron
    lambda_, mu, w_sum, h_sum, drive_sums = state
    inputs_n, before, z, arrived = fetched
    if arrays.recover:
        z = z - before
        if h != ZERO:  # else no gradient depends on the velocity
            z = z / h
    s = tanh(w * before + drive_of(weights, inputs_n, arrays.inputs))
    lambda_, mu, delta, h_part = _pull_back(w, h, alpha, s, before, z, lambda_ + arrived, mu)
    arrays.delta[arrays.end - n * arrays.chains] = delta
    drive_sums = add_to_drive_sums(drive_sums, delta, inputs_n, arrays.inputs)
    return lambda_, mu, w_sum + delta * before, h_sum + h_part, drive_sums


_run_adjoint_steps = pipelined(_adjoint_fetch, _adjoint_step)


@kernel
def _backward_kernel(
    source, V, w, b, c, y0, y, z, grad_y, grad_y_end, grad_z_end, delta, grad_y0, grad_z0, stored,
    has_y_end, has_z_end, dt, alpha, T, d, run_chains, chains,
):  # fmt: skip
    """Backpropagate through all steps of a chain.

    `stored` (3 + inputs, chains) receives sums over time for the gradients of w, c, b and V.
    """
    i = cuda.grid(1)
    if i < chains:
        j = neuron_of(i, d, run_chains)
        gate = sigmoid(c[j])
        neuron = w[j], dt * gate, alpha, load_drive_weights(V, b, j, inputs)
        start = start_of_drive(i, d, inputs)
        step = step_of_drive(chains, d, inputs)
        arrays = _AdjointArrays(
            source, y, z, grad_y, delta, start + (T - 1) * step, step,
            i + (T - 1) * chains, chains, inputs, recover, arriving,
        )  # fmt: skip
        lambda_ = real(0)
        if has_y_end:
            lambda_ = grad_y_end[i]
        mu = real(0)
        if has_z_end:
            mu = grad_z_end[i]
        state = lambda_, mu, real(0), real(0), no_drive_sums(real(0))
        state = _run_adjoint_steps(neuron, state, arrays, T - 1)
        # The first step: the state before it is not in y.
        if recover:
            z_1 = y[i]
        else:
            z_1 = z[i]
        arrived = ZERO
        if arriving:
            arrived = grad_y[i]
        fetched = fetch_drive(source, start, inputs), y0[i], z_1, arrived
        state = _adjoint_step(neuron, state, fetched, arrays, T - 1)
        grad_y0[i], grad_z0[i], w_sum, h_sum, drive_sums = state
        stored[i] = w_sum
        stored[chains + i] = h_sum * dt * gate * (ONE - gate)
        store_drive_sums(stored, drive_sums, 2 * chains + i, chains, inputs)


def _forward(kind, dt, alpha, g, x, V, w, b, c, y0, z0, y, y_end, z_end, z):
    source, inputs = source_of(g, x, V)
    launch_chains(
        _forward_kernel,
        y0.numel(),
        *(source, V, w, b, c, y0, z0, y, y_end, z_end, z),
        *(dt, alpha, len(y), y.shape[2], chains_per_run(y0, w)),
        inputs=inputs,
        keep=int(kind == "stored"),
    )


def _backward(kind, dt, alpha, g, x, V, w, b, c, y0, z0, y, z, grad_y, grad_y_end, grad_z_end):
    source, inputs = source_of(g, x, V)
    delta = torch.empty_like(y)
    grad_y0 = torch.empty_like(y0)
    grad_z0 = torch.empty_like(y0)
    stored = y.new_empty(3 + inputs, *y0.shape)
    launch_chains(
        _backward_kernel,
        y0.numel(),
        *(source, V, w, b, c, y0, y, z, grad_y, grad_y_end, grad_z_end),
        *(delta, grad_y0, grad_z0, stored, is_present(grad_y_end), is_present(grad_z_end)),
        *(dt, alpha, len(y), y.shape[2], chains_per_run(y0, w)),
        inputs=inputs,
        recover=int(kind == "recovered"),
        arriving=is_present(grad_y),
    )
    grad_w, grad_c, grad_b, grad_V = sum_over_batch(stored, 3, w)
    if inputs == 0:
        return delta, None, None, grad_w, grad_b, grad_c, grad_y0, grad_z0
    return None, lambda: inputs_gradient(delta, V), grad_V, grad_w, grad_b, grad_c, grad_y0, grad_z0


def _reference(kind, dt, alpha, g, x, V, w, b, c, y0, z0):
    w, b, c = (broadcast_over_sequences(part, y0) for part in (w, b, c))
    g = drive_in_pytorch(g, x, V) + b
    return reference(kind, 1, alpha, g, w, dt * torch.sigmoid(c), y0, z0)


def _shapes(a):
    batch, d = a.y0.shape
    source, _ = source_of(a.g, a.x, a.V)
    T = source.shape[0]  # `len` would fix the length in a traced program
    velocities = 0
    if a.kind == "stored":
        velocities = T
    return [(T, batch, d), (batch, d), (batch, d), (velocities, batch, d)]


def _unsaved(kind, dt, alpha):
    """Return the names of the results that the backward pass does not read."""
    if kind == "recovered":
        return ("z",)
    return ()


_LAYER = Recurrence(
    "unicornn_cuda",
    settings="str kind, float dt, float alpha",
    inputs="g?:1 x?:1 V? w b c y0:0 z0:0",
    results="y y_end z_end z",
    final=2,
    saved="x V w b c y0 z0 y z",
    unsaved=_unsaved,
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=_reference,
    adjoint_takes_drive=True,
    arrays=False,
    takes_networks=True,
)


@engine("unicornn", options=("backward",), takes_networks=True)
def unicornn(weights, state, u, *, backward: str = "stored"):
    """Run UnICORNN, equation (6) of Rusch and Mishra 2021.

    Parameters
    ----------
    weights : tuple
        See `longrnn.cells.unicornn.UnICORNNCore.step`.
    state : tuple of (batch, d)
        (y^1, z^1, .., y^L, z^L) before the first input.
    u : (time, batch, p)
        The inputs.
    backward : str
        Kind of backward pass: ``stored`` or ``recovered``.

    Returns
    -------
    outputs : (time, batch, d)
        y^L after every input.
    state : tuple of (batch, d)
        (y^1, z^1, .., y^L, z^L) after the last input.

    Raises
    ------
    ValueError
        `backward` is neither of these.
    """
    if backward not in _KINDS:
        raise ValueError(
            f"unicornn: expected backward to be one of {', '.join(_KINDS)}, got {backward!r}"
        )
    layers, dts, alpha, skip, skips, masks = weights
    below = [u]
    final = []
    for k, ((w, V, b, c), dt) in enumerate(zip(layers, dts, strict=True), start=1):
        y0, z0 = state[2 * k - 2 : 2 * k]
        if skips[k - 1] is None:
            sources = Sources(below[-1], V)
            g, x = product_or_inputs(below[-1], V)
        else:  # below (103)
            sources = Sources(below[-1], V, None, below[k - skip - 1], skips[k - 1])
            g = sources.drive()
            x = None
        if x is None:
            V = None  # the kernels read the product
        if backward == "stored" or x is not None:
            sources = None  # the backward pass needs no product, or computes it itself
        of_layer = (g, x, V, w, b, c, y0, z0)
        outputs, ends = _LAYER(backward, float(dt), float(alpha), *of_layer, sources=sources)
        final += ends
        mask = masks[k - 1]  # the same at all times
        if mask is None:
            below.append(outputs)
        else:
            below.append(mask * outputs)
    return outputs, tuple(final)
