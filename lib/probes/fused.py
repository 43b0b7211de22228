r"""Adjoint states by a GPU kernel for each cell of the factorial: `lib.probes.adjoint` without its launches.

A cell's own engine computes the states, once, and keeps those that are read out. All that a step's derivative needs beside the matrix then
comes from large products and functions of numbers over many steps at a time: the coefficients of
`lib.kernels.cuda_adjoints`, which carries the adjoint back in one launch. Products and kernel are in float32, the functions in float64:

- The slopes of tanh and the logistic function follow from what goes in (`lib.probes.products`), so that none is a false zero.
- A step's coefficients (but c^0, which acts on the adjoint before the others do) are divided by the largest of them, for each sequence: a
  step whose slopes are all below float32's range keeps its digits. The logarithms of these numbers, and of those that the kernel
  divided by, are summed in float64.
"""

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from lib import kernels
from lib.cells import Cell, State
from lib.cells._cell import unroll
from lib.cells.unicornn import Weights
from lib.kernels._cuda import DEVICES
from lib.kernels._runs import map_tensors
from lib.kernels.cuda_adjoints import accumulated, dense_adjoints, oscillator_adjoints
from lib.probes.adjoint import AdjointNorms, _last_adjoint, _norm, asked_times
from lib.probes.products import sigmoid_slope, tanh_slope

CHUNK = 128
"""Steps whose coefficients are computed at a time, in float64."""


def fused_adjoint_norms(
    cell: Cell,
    u: Tensor,
    loss: Callable[[Tensor], Tensor],
    *,
    times: Sequence[int] | None = None,
    whole: bool = False,
    dtype: torch.dtype = torch.float32,
) -> AdjointNorms:
    """Measure the adjoint states of `cell` over the sequences `u` as `lib.probes.adjoint.adjoint_norms` does.

    It never looks at a value, so that it can be captured in a graph; but for the exponential RNN, whose matrix is computed anew.

    Parameters
    ----------
    cell
        One of `CELLS`; it is copied, not changed.
    u, loss, times, whole
        As there; tensors where the kernels run.
    dtype
        Type of number of the states, the products and the kernel.

    Returns
    -------
    AdjointNorms

    Raises
    ------
    ValueError
        The cell is none of `CELLS`, or a UnICORNN with residual connections; a time point lies outside the sequence; or the input is
        not where kernels run.
    """
    T = len(u)
    wanted = asked_times(times, T)
    if cell.name not in CELLS or getattr(cell, "skip", 0):
        which = f"{cell.name} with residual connections" if cell.name in CELLS else cell.name
        raise ValueError(
            f"expected a cell among {', '.join(CELLS)}, got {which}; use the reference"
        )
    if u.device.type not in DEVICES:
        raise ValueError(
            f"expected an input on {DEVICES[0]}, got one on {u.device}; use lib.probes.adjoint there"
        )
    cell = copy.deepcopy(cell).to(dtype).requires_grad_(False).eval()
    with torch.no_grad():
        weights = map_tensors(lambda part: part.to(dtype), cell.weights())
        state = cell.initial_state(u.shape[1])
        prepare = _oscillators if cell.name == "unicornn" else _dense
        pull_back, final = prepare(cell, weights, state, u.detach().to(dtype))
    final = tuple(part.double() for part in final)
    last = _last_adjoint(loss, final, cell.readout, whole)
    norm = _norm(last)
    with torch.no_grad():
        unit = torch.stack(last, dim=1) / torch.where(norm > 0, norm, 1)[:, None, None]
        adjoints, logs = pull_back(unit.to(dtype)[None])
        # What divided the adjoints from time t on, and the last norm; the sum of all for t = 0.
        logs = torch.cat([logs, norm.log10()[None]]).flip(0).cumsum(0).flip(0)
        units = torch.stack([unit if t == T else adjoints[t].double() for t in wanted])
        logs = torch.stack([logs[t] for t in wanted])
        readout = logs + units[:, :, cell.readout].norm(dim=2).log10()
        full = logs + units.flatten(2).norm(dim=2).log10()
    return AdjointNorms(tuple(wanted), readout, full, final)


def _dense(cell: Cell, weights, state: State, u: Tensor) -> tuple[Callable, State]:
    """Return a function that pulls the last adjoint back, ``pull_back(last) -> (adjoints, logs)``, and the last state."""
    outputs, final = _run(cell, weights, state, u)
    before = torch.cat([state[0][None], outputs[:-1]])
    matrix, coefficients = _DENSE[cell.name]
    parts, sizes, more = [], [], [part.double() for part in state[1:]]
    for start in range(0, len(u), CHUNK):
        now = slice(start, start + CHUNK)
        found, more = coefficients(weights, before[now], outputs[now], u[now], *more)
        found = torch.stack(found, dim=2)
        acting = found[:, :, :-2] if more else found[:, :, :-1]
        size = torch.maximum(acting.abs().amax((2, 3)), found[:, :, -1].abs().amax(2))
        size = torch.where(size > 0, size, 1)
        found /= size[..., None, None]
        if more:
            found[:, :, -2] *= size[..., None]  # c^0
        parts.append(found.to(u))
        sizes.append(size.log10())

    def pull_back(last: Tensor) -> tuple[Tensor, Tensor]:
        adjoints, factors = dense_adjoints(matrix(weights)[None], torch.cat(parts)[None], last)
        return adjoints[0], factors[0].double().log10() + torch.cat(sizes)

    return pull_back, final


def _run(cell: Cell, weights, state: State, u: Tensor) -> tuple[Tensor, State]:
    run = kernels.select(cell.name, "auto", u)
    return unroll(cell.step, weights, state, u) if run is None else run(weights, state, u)


def _argument(x: Tensor, W: Tensor, u: Tensor, R: Tensor, b: Tensor) -> Tensor:
    return linear(x, W).double() + linear(u, R).double() + b.double()


def _rnn(weights, before, after, u):
    W, R, b = weights
    slope = tanh_slope(_argument(before, W, u, R, b))
    return (slope, torch.zeros_like(slope)), ()


def _exponential(weights, before, after, u):
    on = (after != 0).double()  # as automatic differentiation has it where the argument is zero
    return (on, torch.zeros_like(on)), ()


def _antisymmetric(weights, before, after, u):
    W, R, b, epsilon = weights
    slope = tanh_slope(_argument(before, W, u, R, b))
    return (epsilon * slope, torch.ones_like(slope)), ()


def _lipschitz(weights, before, after, u):
    _, W, R, b, epsilon = weights
    slope = tanh_slope(_argument(before, W, u, R, b))
    one = torch.ones_like(slope)
    return (epsilon * slope, epsilon * one, one), ()


def _gru(weights, before, after, u):
    W, R, b = weights
    r, z, from_state = linear(before, W).double().chunk(3, dim=-1)
    of_r, of_z, of_n = (linear(u, R).double() + b.double()).chunk(3, dim=-1)
    r, z = r + of_r, z + of_z
    n = r.sigmoid() * from_state + of_n
    by_n = (-z).sigmoid() * tanh_slope(n)  # 1 - sigma(z) loses digits where the gate is open
    by_r = by_n * from_state * sigmoid_slope(r)
    by_z = (before.double() - n.tanh()) * sigmoid_slope(z)
    return (by_r, by_z, by_n * r.sigmoid(), z.sigmoid()), ()


def _lstm(weights, before, after, u, c):
    W, R, b = weights
    i, f, g, o = _argument(before, W, u, R, b).chunk(4, dim=-1)
    later = accumulated(f.sigmoid(), i.sigmoid() * g.tanh(), c.contiguous())
    earlier = torch.cat([c[None], later[:-1]])
    by_gates = (
        sigmoid_slope(i) * g.tanh(),
        sigmoid_slope(f) * earlier,
        i.sigmoid() * tanh_slope(g),
        sigmoid_slope(o) * later.tanh(),
    )
    return (*by_gates, o.sigmoid() * tanh_slope(later), f.sigmoid()), (later[-1],)


def _first(weights) -> Tensor:
    return weights[0]


def _both(weights) -> Tensor:
    return torch.cat([weights.W, weights.A])


_DENSE = {
    "rnn": (_first, _rnn),
    "lstm": (_first, _lstm),
    "chrono_lstm": (_first, _lstm),
    "gru": (_first, _gru),
    "lipschitz": (_both, _lipschitz),
    "antisymmetric": (_first, _antisymmetric),
    "exponential": (_first, _exponential),
}
"""For each cell what it multiplies its state by, and its coefficients: ``(weights, before, after, u, *more) -> (those, more)``."""
CELLS = (*_DENSE, "unicornn")
"""Cells that have such an engine."""


def _oscillators(cell: Cell, weights, state: State, u: Tensor) -> tuple[Callable, State]:
    """As `_dense`, of UnICORNN, a layer at a time."""
    layers, dts, alpha, *_ = weights.stacked()
    below, slopes, final = u, [], []
    for k, (layer, dt) in enumerate(zip(layers, dts, strict=True)):
        first = state[2 * k : 2 * k + 2]
        outputs, last = _run(cell, Weights((layer,), dt, alpha), first, below)
        before = torch.cat([first[0][None], outputs[:-1]])
        a = layer.w * before + linear(below, layer.V, layer.b)
        slopes.append(dt * torch.sigmoid(layer.c) * tanh_slope(a))
        below = outputs
        final += last
    w = torch.stack([layer.w for layer in layers])
    h = torch.stack([dt * torch.sigmoid(layer.c) for layer, dt in zip(layers, dts, strict=True)])
    nothing = torch.zeros_like(below[0, 0]).expand(len(w[0]), -1)
    V = torch.stack([nothing, *(layer.V for layer in layers[1:])])

    def pull_back(last: Tensor) -> tuple[Tensor, Tensor]:
        parts = w[None], h[None], alpha, V[None], torch.stack(slopes, dim=2)[None], last
        adjoints, factors = oscillator_adjoints(*parts)
        return adjoints[0], factors[0].double().log10()

    return pull_back, tuple(final)
