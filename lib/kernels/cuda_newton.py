r"""UnICORNN parallel in time on the GPU: one block for each neuron of each sequence, its threads side by side in time.

The method is that of `lib.kernels.newton_unicornn`, in one launch each way: a block goes through the windows of its chain, and decides
itself whether a window has converged. Each thread composes the affine maps of `SPAN` steps; a scan over the threads, two halves of the
shared memory taking turns, tells each where its steps start; it does them, and compares the positions with those that the maps
were linearised about. A window in which they do not stand still is done by one thread, step by step. The way back is one scan
a window, exact.

Time is the last axis here, which PyTorch sees to. ``engine="newton-cuda"`` asks for it, ``auto`` never does: it is meant for too few chains to
fill a GPU.
"""

from functools import partial

import torch

from lib.kernels import _cuda
from lib.kernels._cuda import cuda, device, kernel, real
from lib.kernels._cuda_device import ONE, ZERO, _unsigned, tanh
from lib.kernels._cuda_engine import check_hidden, drive, engine, gradient
from lib.kernels._unicornn import Device, run_layers
from lib.kernels.cuda_unicornn import _neurons
from lib.kernels.newton_unicornn import MOST_ITERATIONS, WINDOW

SPAN = 4
"""Steps of a thread: what it remembers of them stays in registers."""
span, close = SPAN, 0.0
"""In the text of a kernel: the steps of a thread, and the root of the precision."""


@device
def _compose(late, early):
    """Return the affine map that is `early` and then `late`: rows of the matrix, then the vector."""
    a, b, c, d, p, q = late
    e, f, g, h, r, s = early
    return (
        *(a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h),
        *(a * r + b * s + p, c * r + d * s + q),
    )


@device
def _read(memory, at, rows):
    at, step = _unsigned(at), _unsigned(rows)
    return (
        *(memory[at], memory[at + step], memory[at + 2 * step]),
        *(memory[at + 3 * step], memory[at + 4 * step], memory[at + 5 * step]),
    )


@device
def _write(memory, at, rows, value):
    for k in range(6):
        memory[_unsigned(at + k * rows)] = value[k]


@device
def _mapped(value, x, y):
    a, b, c, d, p, q = value
    return a * x + b * y + p, c * x + d * y + q


@kernel
def _forward(w, h, alpha, g, y0, z0, y, z, T):
    """`g`, and `y` and `z`, which are filled, are (chain, time)."""
    row, rows, chain = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x
    drives, before = cuda.local.array(span, real), cuda.local.array(span, real)
    slope, force = cuda.local.array(span, real), cuda.local.array(span, real)
    memory = cuda.shared.array(0, real)
    # Of the two flags one is raised while the other is lowered.
    here, after, flag = 0, 6 * rows, 12 * rows
    if row == 0:
        memory[flag], memory[flag + 1] = ZERO, ZERO
    w_, h_, alpha_ = w[chain], h[chain], alpha[chain]
    y_start, z_start = y0[chain], z0[chain]
    for first in range(0, T, span * rows):
        start, there = first + row * span, chain * T + first + row * span
        for k in range(span):
            drives[k] = g[there + k] if start + k < T else ZERO
            before[k] = y_start
        moving, count = True, 0
        z_own = z_start
        while moving and count < MOST_ITERATIONS:
            own = ONE, ZERO, ZERO, ONE, ZERO, ZERO
            for k in range(span):
                if start + k < T:
                    s = tanh(w_ * before[k] + drives[k])
                    slope[k] = w_ * (ONE - s * s)
                    force[k] = s - slope[k] * before[k]
                    slope[k] += alpha_
                    a, b, c, d, p, q = own
                    c, d = c - h_ * slope[k] * a, d - h_ * slope[k] * b
                    q = q - h_ * (force[k] + slope[k] * p)
                    own = a + h_ * c, b + h_ * d, c, d, p + h_ * q, q
            _write(memory, here + row, rows, own)
            cuda.syncthreads()
            shift = 1
            while shift < rows:
                if row >= shift:
                    own = _compose(own, _read(memory, here + row - shift, rows))
                _write(memory, after + row, rows, own)
                cuda.syncthreads()
                here, after = after, here
                shift *= 2
            y_, z_ = y_start, z_start
            if row > 0:
                y_, z_ = _mapped(_read(memory, here + row - 1, rows), y_start, z_start)
            z_own = z_
            for k in range(span):
                if start + k < T:
                    if not abs(y_ - before[k]) <= real(close) * (ONE + abs(y_)):  # NaN moves
                        memory[flag + count % 2] = ONE
                    before[k] = y_
                    z_ -= h_ * (force[k] + slope[k] * y_)
                    y_ += h_ * z_
            cuda.syncthreads()
            moving = memory[flag + count % 2] > ZERO
            if row == 0:
                memory[flag + (count + 1) % 2] = ZERO
            here, after = after, here
            count += 1
        if not moving:
            y_, z_ = before[0], z_own
            for k in range(span):
                if start + k < T:
                    z_ -= h_ * (force[k] + slope[k] * y_)
                    y_ += h_ * z_
                    y[there + k], z[there + k] = y_, z_
        elif row == 0:
            y_, z_ = y_start, z_start
            for n in range(there, chain * T + min(first + span * rows, T)):
                z_ -= h_ * (tanh(w_ * y_ + g[n]) + alpha_ * y_)
                y_ += h_ * z_
                y[n], z[n] = y_, z_
        cuda.syncthreads()
        if row == 0:
            memory[flag], memory[flag + 1] = ZERO, ZERO
        end = chain * T + min(first + span * rows, T) - 1
        y_start, z_start = y[end], z[end]


@kernel
def _backward(w, h, alpha, g, y0, y, z, from_y, y_carried, z_carried, delta, w_sum, h_sum, T):
    """The carried gradients, of the final state, become those of the initial one; the sums, (chain, thread), add up to those of w and h."""
    row, rows, chain = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x
    before, s = cuda.local.array(span, real), cuda.local.array(span, real)
    arrived = cuda.local.array(span, real)
    memory = cuda.shared.array(0, real)
    here, after = 0, 6 * rows
    w_, h_, alpha_ = w[chain], h[chain], alpha[chain]
    lambda_start, mu_start = y_carried[chain], z_carried[chain]
    by_w, by_h = ZERO, ZERO
    for first in range(0, T, span * rows):  # steps from the last one back
        start, there = first + row * span, (chain + 1) * T - 1 - first - row * span
        own = ONE, ZERO, ZERO, ONE, ZERO, ZERO
        for k in range(span):
            if start + k < T:
                before[k] = y[there - k - 1] if start + k < T - 1 else y0[chain]
                s[k] = tanh(w_ * before[k] + g[there - k])
                arrived[k] = from_y[there - k]
                a, b, c, d, p, q = own
                p += arrived[k]
                c, d, q = c + h_ * a, d + h_ * b, q + h_ * p
                pull = h_ * (w_ * (ONE - s[k] * s[k]) + alpha_)
                own = a - pull * c, b - pull * d, c, d, p - pull * q, q
        _write(memory, here + row, rows, own)
        cuda.syncthreads()
        shift = 1
        while shift < rows:
            if row >= shift:
                own = _compose(own, _read(memory, here + row - shift, rows))
            _write(memory, after + row, rows, own)
            cuda.syncthreads()
            here, after = after, here
            shift *= 2
        lambda_, mu = lambda_start, mu_start
        if row > 0:
            lambda_, mu = _mapped(_read(memory, here + row - 1, rows), lambda_start, mu_start)
        for k in range(span):
            if start + k < T:
                lambda_ += arrived[k]
                mu += h_ * lambda_
                value = h_ * mu * (s[k] * s[k] - ONE)
                delta[there - k] = value
                by_w += value * before[k]
                by_h += lambda_ * z[there - k] - mu * (s[k] + alpha_ * before[k])
                lambda_ += w_ * value - h_ * alpha_ * mu
        last = _read(memory, here + rows - 1, rows)
        lambda_start, mu_start = _mapped(last, lambda_start, mu_start)
        here, after = after, here
    w_sum[chain * rows + row], h_sum[chain * rows + row] = by_w, by_h
    if row == 0:
        y_carried[chain], z_carried[chain] = lambda_start, mu_start


def _launch(run, window, T, w, *arguments) -> None:
    rows = _threads(window, T)
    sizes = {"span": SPAN, "close": torch.finfo(w.dtype).eps ** 0.5}
    shared = (12 * rows + 2) * w.element_size()
    _cuda.launch(run, w.numel(), rows, w, *arguments, T, shared=shared, **sizes)


def _threads(window: int, T: int) -> int:
    return -(-min(window, T) // SPAN)


def _over_time(x):
    """Return (run, time, batch, hidden) as (run, batch, hidden, time), contiguous."""
    return x.movedim(1, -1).contiguous()


def _there(w, h, alpha, g, y0, z0, every, window):
    g = _over_time(g)
    y, z = torch.empty_like(g), torch.empty_like(g)
    _launch(_forward, window, g.shape[-1], w, h, alpha, g, y0, z0, y, z)
    y, z = (part.movedim(-1, 1).contiguous() for part in (y, z))
    return y, z, z[:, -1].clone()


def _back(w, h, alpha, g, way, kept, every, from_y, from_final, window):
    y0, *states = kept
    T, carried = g.shape[1], [gradient(part, w).clone() for part in from_final]
    arrays = [_over_time(part) for part in (g, *states, gradient(from_y, g))]
    delta, by_w = torch.empty_like(arrays[0]), w.new_empty(*w.shape, _threads(window, T))
    by_h = torch.empty_like(by_w)
    parts = h, alpha, arrays[0], y0, *arrays[1:], *carried, delta, by_w, by_h
    _launch(_backward, window, T, w, *parts)
    return by_w.sum(-1), by_h.sum(-1), delta.movedim(-1, 1).contiguous(), *carried


@engine("unicornn", "stacked unicornn", name="newton-cuda", options=("window",))
def unicornn(weights, state, u, *, window: int = WINDOW):
    """UnICORNN by Newton's method, as `lib.kernels.newton_unicornn.unicornn`, with runs or without.

    Raises
    ------
    ValueError
        `window` is not between 1 and the steps that the threads of a block can do.
    """
    if not 1 <= window <= 1024 * SPAN:
        raise ValueError(f"unicornn: expected a window of 1 to {1024 * SPAN} steps, got {window}")
    check_hidden("unicornn", state, weights.layers[0].w.shape[-1])
    state = tuple(part.contiguous() for part in state)
    there, back = partial(_there, window=window), partial(_back, window=window)
    gpu = Device(_neurons, partial(drive, "unicornn"), there, back)
    return run_layers(gpu, weights, state, u, backward="stored", checkpoint=0)
