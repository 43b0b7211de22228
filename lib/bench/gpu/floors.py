"""What no kernel can undercut, measured on the device at hand: the memory's bandwidth and the latency of dependent steps.

A recurrence over T steps cannot take less time than its bytes over the bandwidth, nor less than T times the latency of the operations
that one step must wait for. The second is measured on one warp with everything in registers.
"""

from collections.abc import Callable
from functools import cache

import torch

from lib.bench.gpu.checks import DEVICE
from lib.bench.race import Timer
from lib.kernels._cuda import Kernel, cuda, device, kernel, launch
from lib.kernels._cuda_device import ONE, ZERO, sigmoid, tanh

ARRAYS = {"unicornn": 8, "sru": 16, "indrnn": 5}
"""Arrays (time, batch, hidden) that a layer's recurrence must read or write, there and back.

UnICORNN: g, y, z; g, y, z, o, delta. SRU: three drives, x, c, h; three drives, x, c, o, four gradients. IndRNN: g, h; h, o, delta.
"""


@device
def _unicornn(a, b, c, y, z):
    z = z - b * (tanh(a * y + c) + c * y)
    return y + b * z, z


@device
def _unicornn_back(a, b, c, lambda_, mu):
    lambda_ = lambda_ + c
    mu = mu + b * lambda_
    delta = b * mu * a
    return lambda_ + a * delta - b * c * mu, mu


@device
def _sru(a, b, c, state, other):
    f = sigmoid(a + b * state)
    return f * state + (ONE - f) * c, other


@device
def _sru_back(a, b, c, back, other):
    lambda_ = c + back
    return a * lambda_ + b * (lambda_ * c), other


@device
def _indrnn(a, b, c, h, other):
    h = a * h + b
    return ZERO if h <= ZERO else h, other


@device
def _indrnn_back(a, b, c, back, other):
    return a * (c + back), other


def _chain(step: Callable) -> Kernel:
    """Return a kernel of `count` dependent steps in registers; its results are written, lest they be left out."""

    @kernel
    def run(numbers, result, count):
        a, b, c, x, y = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
        for _ in range(count):
            x, y = step(a, b, c, x, y)
        result[cuda.grid(1)] = x + y

    return run


CHAINS = {
    "unicornn": (_chain(_unicornn), _chain(_unicornn_back)),
    "sru": (_chain(_sru), _chain(_sru_back)),
    "indrnn": (_chain(_indrnn), _chain(_indrnn_back)),
}
"""The steps that wait for each other, there and back."""


@cache
def bandwidth(*, rounds: int = 20) -> float:
    """Return bytes a second, read and written, of the best of `rounds` copies of a gibibyte."""
    source = torch.empty(2**28, device=DEVICE)
    target = torch.empty_like(source)
    copy = timer(lambda: target.copy_(source))
    seconds = min(copy() for _ in range(rounds + 1)) / 1e3
    return 2 * source.numel() * source.element_size() / seconds


def step_latency(name: str, *, steps: int = 200_000, rounds: int = 5) -> float:
    """Return the seconds that one step of a cell takes there and back, waiting for the step before."""
    numbers = torch.tensor([0.5, 0.1, 0.2, 0.3, 0.4], device=DEVICE)
    result = torch.empty(32, device=DEVICE)
    total = 0.0
    for run in CHAINS[name]:
        chain = timer(lambda run=run: launch(run, 1, 32, numbers, result, steps))
        total += min(chain() for _ in range(rounds + 1)) / 1e3 / steps
    return total


def timer(run: Callable[[], object]) -> Timer:
    """Return a timer of `run` by two events around it on the current stream."""

    def between_events() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    return between_events
