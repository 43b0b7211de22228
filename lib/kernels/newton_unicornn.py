r"""UnICORNN parallel in time: Newton's method on windows of time steps, in PyTorch, on every device.

For few chains and long sequences, where steps one after another leave a GPU idle. ``engine="newton"`` asks for it, ``auto`` never
does; `lib.kernels.cuda_newton` does the same in one launch, each chain by itself.

Linearised about positions :math:`\bar y`, with :math:`\bar s_n = \tanh(w \bar y_{n-1} + g_n)` and
:math:`a_n = h (w (1 - \bar s_n^2) + \alpha)`, a step of `lib.kernels.cpu_unicornn` is affine,

.. math::
    \begin{pmatrix} y_n \\ z_n \end{pmatrix} = \begin{pmatrix} 1 - h a_n & h \\ -a_n & 1 \end{pmatrix}
    \begin{pmatrix} y_{n-1} \\ z_{n-1} \end{pmatrix} + c_n \begin{pmatrix} h \\ 1 \end{pmatrix}, \qquad
    c_n = -h \left( \bar s_n - w (1 - \bar s_n^2) \bar y_{n-1} \right),

and affine maps compose: all steps of a window are done in as many rounds as its length has binary digits. The positions found are
linearised about in turn until they stand still; a window in which they do not is done step by step. The way back is affine from the start,
with the transposed matrices: one scan, exact.
"""

import torch
from torch import Tensor

from lib.kernels._registry import register
from lib.kernels._unicornn import Device, run_layers

WINDOW = 512
"""Time steps of a window. Longer ones take more iterations, and fail from some thousands on."""
MOST_ITERATIONS = 20


def affine_scan(A: Tensor, b: Tensor, x0: Tensor) -> Tensor:
    """Return all x_n = A_n x_{n-1} + b_n.

    Parameters
    ----------
    A : (2, 2, time, ...)
        Matrices.
    b : (2, time, ...)
        Vectors.
    x0 : (2, ...)
        Where the recurrence starts.

    Returns
    -------
    Tensor
        x_1, x_2, .. as (2, time, ...).
    """
    shift = 1
    while shift < b.shape[1]:
        # The map of the last `2 shift` steps, from those of the last and the first half of them.
        late, early = A[:, :, shift:], A[:, :, :-shift]
        moved = torch.einsum("ij...,j...->i...", late, b[:, :-shift]) + b[:, shift:]
        product = torch.einsum("ij...,jk...->ik...", late, early)
        A = torch.cat([A[:, :, :shift], product], dim=2)
        b = torch.cat([b[:, :shift], moved], dim=1)
        shift *= 2
    return torch.einsum("ij...,j...->i...", A, x0[:, None].expand_as(b)) + b


def solve(
    w: Tensor, h: Tensor, alpha: float, g: Tensor, y0: Tensor, z0: Tensor, window: int = WINDOW
) -> tuple[Tensor, Tensor, list[int]]:
    """Return the states of one layer, and the iterations that each window took.

    Parameters
    ----------
    w, h, y0, z0 : (batch, hidden)
        Recurrent weight, step and initial state of each chain.
    alpha
        Frequency.
    g : (time, batch, hidden)
        Drive.
    window
        Time steps of a window, at least 1.

    Returns
    -------
    y, z : (time, batch, hidden)
    iterations
        One for each window; 0 where it was done step by step.
    """
    found, iterations, x = [], [], torch.stack([y0, z0])
    for part in g.split(window):
        states, count = _newton(w, h, alpha, part, x)
        if not count:
            states = _step_by_step(w, h, alpha, part, x)
        found.append(states)
        iterations.append(count)
        x = states[:, -1]
    y, z = torch.cat(found, dim=1)
    return y, z, iterations


def _newton(w, h, alpha, g, x0) -> tuple[Tensor, int]:
    """Return the states in a window (2, time, batch, hidden) and the iterations they took, or 0 if they never stood still."""
    before = x0[0].expand_as(g)
    # Convergence is quadratic: what still moved by the root of the precision is now as exact as the type allows.
    close = torch.finfo(g.dtype).eps ** 0.5
    for count in range(1, MOST_ITERATIONS + 1):
        s = torch.tanh(w * before + g)
        slope = w * (1 - s * s)
        c = h * (slope * before - s)
        states = affine_scan(_matrices(h, h * (slope + alpha)), torch.stack([h * c, c]), x0)
        after = torch.cat([x0[None, 0], states[0, :-1]])
        moved = (after - before).abs().amax()
        if moved <= close * (1 + after.abs().amax()):
            return states, count
        before = after
    return states, 0


def _matrices(h: Tensor, a: Tensor) -> Tensor:
    h = h.expand_as(a)
    one = torch.ones_like(a)
    return torch.stack([torch.stack([1 - h * a, h]), torch.stack([-a, one])])


def _step_by_step(w, h, alpha, g, x0) -> Tensor:
    y, z = x0
    found = []
    for g_n in g:
        z = z - h * (torch.tanh(w * y + g_n) + alpha * y)
        y = y + h * z
        found.append(torch.stack([y, z]))
    return torch.stack(found, dim=1)


def _neurons(w, c, dt, alpha, y0):
    return w.expand_as(y0), (dt * torch.sigmoid(c)).expand_as(y0), alpha


def _there(w, h, alpha, g, y0, z0, every, window):
    y, z, _ = solve(w, h, alpha, g, y0, z0, window)
    return y, z[every - 1 :: every], z[-1]


def _back(w, h, alpha, g, way, kept, every, from_y, from_final, window):
    y0, y, z = kept
    before = torch.cat([y0[None], y[:-1]])
    s = torch.tanh(w * before + g)
    a = h * (w * (1 - s * s) + alpha)
    arrived = torch.zeros_like(y) if from_y is None else from_y
    carried = torch.stack([torch.zeros_like(y0) if part is None else part for part in from_final])
    lambda_, mu = torch.empty_like(y), torch.empty_like(y)
    for part in reversed(torch.arange(len(y), device=y.device).split(window)):
        there = slice(part[0], part[-1] + 1)
        A = _matrices(h, a[there]).transpose(0, 1)
        o = torch.stack([arrived[there], torch.zeros_like(arrived[there])])
        b = torch.einsum("ij...,j...->i...", A, o)
        found = affine_scan(A.flip(2), b.flip(1), carried).flip(
            1
        )  # lambda and mu as the step before finds them
        later = torch.cat([found[:, 1:], carried[:, None]], dim=1)
        lambda_[there] = arrived[there] + later[0]
        mu[there] = later[1] + h * lambda_[there]
        carried = found[:, 0]
    delta = -h * mu * (1 - s * s)
    by_w, by_h = (delta * before).sum(0), (lambda_ * z - mu * (s + alpha * before)).sum(0)
    return by_w, by_h, delta, *carried


@register(
    "newton",
    "unicornn",
    "stacked unicornn",
    devices=("cpu", "cuda"),
    dtypes=(torch.float32, torch.float64),
    options=("window",),
)
def unicornn(weights, state, u, *, window: int = WINDOW):
    """UnICORNN, (6) of Rusch and Mishra, by Newton's method; shapes as in `lib.cells.Cell.forward`.

    The states are kept for the way back (``stored``). Whether a window has converged is read on the host, so that a pass cannot be captured
    in a graph.
    """
    device = Device(
        _neurons,
        torch.nn.functional.linear,
        lambda *layer: _there(*layer, window),
        lambda *layer: _back(*layer, window),
    )
    return run_layers(device, weights, state, u, backward="stored", checkpoint=0)
