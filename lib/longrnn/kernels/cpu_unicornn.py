r"""UnICORNN on the CPU, one layer at a time: equation (6) of Rusch and Mishra 2021.

Arrays are (time, batch, hidden). Each neuron of each sequence is an independent chain. PyTorch's
threads share the chains (`longrnn.kernels._threads.run_chains`).

Forward pass of one layer, with the drive :math:`g_n = V y^{l-1}_n + b` computed beforehand for all
times and the step :math:`h = \Delta t \, \hat\sigma(c)` of each neuron:

.. math::
    s_n &= \tanh(w y_{n-1} + g_n) \\
    z_n &= z_{n-1} - h (s_n + \alpha y_{n-1}) \\
    y_n &= y_{n-1} + h z_n

Backward pass (symbols as in `longrnn.kernels._recurrence`, :math:`\lambda_n, \mu_n` of :math:`y_n,
z_n`):

.. math::
    \lambda_n &= o_n + \lambda_{n+1} + w \delta_{n+1} - h \alpha \mu_{n+1} \\
    \mu_n &= \mu_{n+1} + h \lambda_n \\
    \delta_n &= -h \mu_n (1 - s_n^2)

Then :math:`\partial L / \partial g_n = \delta_n`, :math:`\partial L / \partial w = \sum_n \delta_n
y_{n-1}` and :math:`\partial L / \partial h = \sum_n [\lambda_n z_n - \mu_n (s_n + \alpha
y_{n-1})]`.

The backward pass needs g, y and z at every step. It recomputes s, and keeps or recomputes the rest:

``stored``
    keeps g, y (the layer's output, which exists anyway) and z: exact.
``recovered``
    keeps y alone, which exists anyway. It computes :math:`z_n = (y_n - y_{n-1}) / h`; the
    difference loses digits, which changes the gradient of h only. g is computed again from the
    layer's input.
``reversible``
    keeps y and z every K steps and computes the others from there, backward in time, by the
    inverse (7) of the step; g is computed again. Rounding errors grow with the number of steps
    inverted. The paper inverts whole sequences, which is K = T.

The layer's input, the output of the layer below, is kept in any case: the gradient of V needs it.
"""

import numpy as np
import torch

from longrnn.kernels._cpu import ONE, ZERO, engine, kernel, scalar, variants
from longrnn.kernels._cpu_activations import tanh
from longrnn.kernels._drive import Sources
from longrnn.kernels._memory import empty_array_like
from longrnn.kernels._recurrence import Recurrence
from longrnn.kernels._runs import per_chain
from longrnn.kernels._threads import run_chains

STORED, RECOVERED, REVERSIBLE = range(3)
"""Numbers of the kinds of backward pass in the kernel."""
KINDS = ("stored", "recovered", "reversible")
kind = STORED
"""Compile-time constant: the kind of backward pass."""


@scalar
def oscillate(w, h, alpha, g, y, z):
    """Take one step of one neuron, equation (6).

    Parameters
    ----------
    w, h, alpha : float
        Recurrent weight, step size and frequency.
    g : float
        The drive.
    y, z : float
        Position and velocity before the step.

    Returns
    -------
    y, z : float
        Position and velocity after the step.
    """
    z = z - h * (tanh(w * y + g) + alpha * y)
    return y + h * z, z


@kernel
def _forward_kernel(w, h, alpha, g, y0, velocity, y, z, every, start, stop):
    """Run the chains start..stop-1 of arrays (.., chains).

    `velocity` goes from z0 to z_T; `z` (kept, chains) receives it every `every` steps.
    """
    w_ = w[start:stop]
    h_ = h[start:stop]
    z_now = velocity[start:stop]
    y_before = y0[start:stop]
    kept = 0
    for n in range(len(g)):
        g_n = g[n, start:stop]
        y_n = y[n, start:stop]
        for i in range(g_n.size):
            y_n[i], z_now[i] = oscillate(w_[i], h_[i], alpha, g_n[i], y_before[i], z_now[i])
        if n + 1 == (kept + 1) * every:
            z_kept = z[kept, start:stop]
            for i in range(z_kept.size):
                z_kept[i] = z_now[i]
            kept += 1
        y_before = y_n


@scalar
def pull_back(w, h, alpha, s, y, z, arrived, mu):
    """Backpropagate through one step of one neuron.

    Parameters
    ----------
    w, h, alpha
        As for `oscillate`.
    s : float
        The value of tanh.
    y : float
        Position before the step.
    z : float
        Velocity after the step.
    arrived : float
        Gradient of the position after the step.
    mu : float
        Gradient of the velocity after the step, without the part through the position.

    Returns
    -------
    lambda_, mu : float
        Gradients of position and velocity before the step.
    delta : float
        Gradient of the drive.
    h_part : float
        This step's part of the gradient of h.
    """
    mu = mu + h * arrived
    delta = -h * mu * (ONE - s * s)
    h_part = arrived * z - mu * (s + alpha * y)
    return arrived + w * delta - h * alpha * mu, mu, delta, h_part


@variants("kind", len(KINDS))
def _backward_kernel(
    w, h, alpha, g, y, z, y_now, z_now, every, grad_y, lambda_, mu, delta, w_sum, h_sum, start, stop
):
    """Backpropagate through the chains start..stop-1.

    `lambda_` and `mu` are the gradients of the final state and become those of the initial one.

    `y` and `z` (time, chains) are all states and `y_now` the initial one. In the reversible pass,
    `y` and `z` (kept, chains) are those after every `every` steps, and `y_now`, `z_now` copies of
    the final ones. Recovered velocities need no `z`.
    """
    w_ = w[start:stop]
    h_ = h[start:stop]
    lambda_ = lambda_[start:stop]
    mu = mu[start:stop]
    w_sum = w_sum[start:stop]
    h_sum = h_sum[start:stop]
    y_now = y_now[start:stop]
    z_now = z_now[start:stop]
    kept = len(y)
    for n in range(len(g) - 1, -1, -1):
        g_n = g[n, start:stop]
        o_n = grad_y[n, start:stop]
        delta_n = delta[n, start:stop]
        y_before = y_now
        y_n = y_now
        z_n = z_now
        if kind != REVERSIBLE:
            if n > 0:
                y_before = y[n - 1, start:stop]
            y_n = y[n, start:stop]
            z_n = z[n, start:stop]
        elif n + 1 == kept * every:
            kept -= 1
            y_kept = y[kept, start:stop]
            z_kept = z[kept, start:stop]
            for i in range(y_kept.size):
                y_now[i] = y_kept[i]
                z_now[i] = z_kept[i]
        for i in range(g_n.size):
            velocity = z_n[i]
            before = y_before[i]
            if kind == REVERSIBLE:
                before = y_now[i] - h_[i] * velocity  # (7)
            elif kind == RECOVERED:
                velocity = y_n[i] - before
                if h_[i] != ZERO:  # else no gradient of w, b, c or V depends on the velocity
                    velocity /= h_[i]
            s = tanh(w_[i] * before + g_n[i])
            lambda_[i], mu[i], delta_n[i], h_part = pull_back(
                w_[i], h_[i], alpha, s, before, velocity, lambda_[i] + o_n[i], mu[i]
            )
            w_sum[i] += delta_n[i] * before
            h_sum[i] += h_part
            if kind == REVERSIBLE:
                y_now[i] = before
                z_now[i] = velocity + h_[i] * (s + alpha * before)  # (7)


def _forward(kind, checkpoint, alpha, g, w, h, y0, z0, y, y_end, z_end, z, y_kept):
    every = 1  # step between velocities that are kept
    if kind == "reversible":
        every = checkpoint
    elif kind == "recovered":
        every = len(g) + 1  # none is kept
    alpha = w.dtype.type(alpha)
    z_end[:] = z0
    run_chains(_forward_kernel, len(g), w, h, alpha, g, y0, z_end, y, z, every)
    y_end[:] = y[-1]
    if kind == "reversible":
        y_kept[:] = y[every - 1 :: every]


def _backward(
    kind, checkpoint, alpha, g, w, h, y0, z0, y, y_end, z_end, z, y_kept, grad_y, lambda_, mu
):
    grad_g = empty_array_like(g)
    grad_w = np.zeros_like(w)
    grad_h = np.zeros_like(w)
    if kind == "reversible":
        kept = y_kept, z, y_end.copy(), z_end.copy()  # the kernel writes over the last two
    elif kind == "recovered":
        kept = y, y, y0, y0
    else:
        kept = y, z, y0, y0
    run = _backward_kernel[KINDS.index(kind)]
    alpha = w.dtype.type(alpha)
    gradients = grad_g, grad_w, grad_h
    run_chains(run, len(g), w, h, alpha, g, *kept, checkpoint, grad_y, lambda_, mu, *gradients)
    return grad_g, grad_w, grad_h, lambda_, mu


def reference(kind, checkpoint, alpha, g, w, h, y, z):
    """Run one layer in plain PyTorch: the operator's reference.

    Parameters
    ----------
    kind, checkpoint
        Kind of backward pass; without effect here.
    alpha : float
        Frequency.
    g : (time, batch, d)
        The drive.
    w, h : (d,) or (batch, d)
        Recurrent weights and step sizes.
    y, z : (batch, d)
        The initial state.

    Returns
    -------
    outputs : (time, batch, d)
        The output after every input.
    final : tuple of (batch, d)
        (y, z) after the last input.
    """
    outputs = []
    for g_n in g.unbind(0):
        z = z - h * (torch.tanh(w * y + g_n) + alpha * y)
        y = y + h * z
        outputs.append(y)
    return torch.stack(outputs), (y, z)


def _shapes(a):
    T, *state = a.g.shape
    velocities = checkpoints = 0
    if a.kind == "stored":
        velocities = T
    elif a.kind == "reversible":
        velocities = checkpoints = T // a.checkpoint
    return [a.g.shape, state, state, (velocities, *state), (checkpoints, *state)]


_UNSAVED = {
    "stored": ("y_end", "z_end", "y_kept"),
    "recovered": ("y_end", "z_end", "z", "y_kept"),
    "reversible": ("y",),
}
"""Results that each kind of backward pass does not read."""
LAYER = Recurrence(
    "unicornn_cpu",
    settings="str kind, int checkpoint, float alpha",
    inputs="g:1 w:0 h:0 y0:0 z0:0",
    results="y y_end z_end z y_kept",
    final=2,
    saved="w h y0 z0 y y_end z_end z y_kept",
    unsaved=lambda kind, checkpoint, alpha: _UNSAVED[kind],
    shapes=_shapes,
    forward=_forward,
    backward=_backward,
    reference=reference,
    adjoint_takes_drive=True,
)
"""One layer: ``LAYER(kind, checkpoint, alpha, g, w, h, y0, z0) -> (y, (y_T, z_T))``.

`w` and `h` are the weights and steps of each chain, (batch, hidden).
"""


@engine("unicornn", options=("backward", "checkpoint"), takes_networks=True)
def unicornn(weights, state, u, *, backward: str = "stored", checkpoint: int = 64):
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
        Kind of backward pass: ``stored``, ``recovered`` or ``reversible``; see the module's
        docstring.
    checkpoint : int
        Number of steps between the checkpoints of ``reversible``.

    Returns
    -------
    outputs : (time, batch, d)
        y^L after every input.
    state : tuple of (batch, d)
        (y^1, z^1, .., y^L, z^L) after the last input.

    Raises
    ------
    ValueError
        `backward` or `checkpoint` is none of these.
    """
    if backward not in KINDS:
        raise ValueError(
            f"unicornn: expected backward to be one of {', '.join(KINDS)}, got {backward!r}"
        )
    if checkpoint < 1:
        raise ValueError(f"unicornn: expected checkpoint to be at least 1, got {checkpoint}")
    layers, dts, alpha, skip, skips, masks = weights
    inputs = [u]
    final = []
    for k, ((w, V, b, c), dt) in enumerate(zip(layers, dts, strict=True), start=1):
        y0, z0 = state[2 * k - 2 : 2 * k]
        sources = Sources(inputs[-1], V, b)
        if skips[k - 1] is not None:  # below (103)
            sources = sources._replace(skipped=inputs[k - skip - 1], skip=skips[k - 1])
        g = sources.drive()
        if backward == "stored":
            sources = None  # the drive itself is kept
        outputs, ends = LAYER(
            backward,
            checkpoint,
            alpha,
            g,
            per_chain(w, y0),
            per_chain(dt * torch.sigmoid(c), y0),
            y0,
            z0,
            sources=sources,
        )
        final += ends
        mask = masks[k - 1]  # the same at all times
        if mask is None:
            inputs.append(outputs)
        else:
            inputs.append(mask * outputs)
    return outputs, tuple(final)
