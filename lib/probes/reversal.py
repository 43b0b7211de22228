r"""What UnICORNN's ways back lose, and what they keep in memory.

The texts reverse the recurrence (equation 7) from its last state and store no other. The inverse is exact on paper; in
floating point each step back rounds, and the recurrence carries the error along. The gradient is then that of another
trajectory. Here a way back is judged in float32 against the adjoint in float64 *along the same float32 states*, which
leaves out what the forward pass itself loses to rounding: every float32 implementation loses that.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.signal import lfilter
from torch.autograd.graph import saved_tensors_hooks

from lib.cells import make_cell
from lib.kernels._cpu import chains, kernel
from lib.kernels.cpu_unicornn import recurrence, states
from lib.results.published import load_published

DRIVES = ("white", "smooth")
"""White noise, and noise that is correlated over `CORRELATED` steps; both of variance one."""
CORRELATED = 100


@dataclass(frozen=True)
class Setting:
    """One layer of a published architecture, and the length of its sequences."""

    experiment: str
    layer: str
    """``first`` where the text gives the first layer a time step of its own, else ``others``."""
    dt: float
    alpha: float
    time_steps: int

    @property
    def label(self) -> str:
        return self.experiment + (", first layer" if self.layer == "first" else "")


def published_settings() -> list[Setting]:
    """Return the layers of the seven architectures of the report's Table 6 (and of the text below it)."""
    found = []
    for row in load_published("unicornn-tab-6").itertuples():
        name = (
            row.experiment if np.isnan(row.units) else f"{row.experiment} ({row.units:.0f} units)"
        )
        found.append(Setting(name, "others", row.dt, row.alpha, row.time_steps))
        if row.dt_first != row.dt:
            found.append(Setting(name, "first", row.dt_first, row.alpha, row.time_steps))
    return found


def gradient_errors(
    setting: Setting,
    drive: str,
    backward: str,
    *,
    checkpoint: int = 64,
    time_steps: int | None = None,
    batch: int = 2,
    hidden: int = 32,
    widest: float = 1.0,
    seed: int = 0,
) -> dict[str, float]:
    """Return the relative errors of the gradients by w, c and the drive that one way back gives in float32.

    Parameters
    ----------
    setting
        Time step, alpha and length.
    drive
        One of `DRIVES`: what the layer reads, of variance one.
    backward, checkpoint
        The way back, as for `lib.cells.unicornn.UnICORNN`.
    time_steps
        Another length than the published one.
    batch, hidden
        Sequences and neurons.
    widest
        Upper end of the recurrent weights, which start in U(0, 1) (appendix A) and grow in training.
    seed
        Of weights, drive and loss. A longer sequence begins as a shorter one.

    Returns
    -------
    dict
        Norm of the difference over the norm of the gradient, for ``w``, ``c`` and ``drive``.
    """
    T = time_steps or setting.time_steps
    rng = np.random.default_rng(seed)
    shape = (batch, hidden)
    w = np.broadcast_to(widest * rng.random(hidden), shape).astype(np.float32, order="C")
    h = setting.dt / (1 + np.exp(-rng.uniform(-0.1, 0.1, hidden)))
    h = np.broadcast_to(h, shape).astype(np.float32, order="C")
    from_last = rng.standard_normal(shape).astype(np.float32, order="C")
    g, rest = _drive(drive, T, shape, rng), np.zeros(shape, np.float32)

    leaves = [torch.from_numpy(part.copy()).requires_grad_() for part in (w, h, g)]
    y, *_ = recurrence(
        *leaves[:2],
        setting.alpha,
        leaves[2],
        *torch.from_numpy(np.stack([rest, rest])),
        backward=backward,
        checkpoint=checkpoint,
    )
    found = torch.autograd.grad(y[-1], leaves, torch.from_numpy(from_last))
    y, z, _ = states(w, h, setting.alpha, g, rest, rest)
    expected = _adjoint64(w, h, setting.alpha, g, y, z, from_last)
    return {
        # One weight serves all sequences; c enters through h alone, so that their relative errors differ by a weighting.
        name: _relative(part.numpy(), truth, over_batch=name != "drive")
        for name, part, truth in zip(("w", "c", "drive"), found, expected, strict=True)
    }


def kept_bytes(
    backward: str, *, layers: int, time_steps: int, batch: int, hidden: int, checkpoint: int = 64
) -> int:
    """Return how many bytes a float32 UnICORNN keeps from the forward pass to the backward one.

    Every storage that autograd holds is counted once. Weights are not counted, nor the input sequence, of one feature: they exist
    anyway. So does the output of the last layer while the loss holds it, which is counted only where the way back needs it.
    """
    cell = make_cell("unicornn", 1, hidden, layers=layers, backward=backward, checkpoint=checkpoint)
    u = torch.zeros(time_steps, batch, 1)
    known = {part.untyped_storage().data_ptr() for part in (u, *cell.parameters())}
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs, _ = cell(u, engine="numba-cpu")
    assert outputs.requires_grad
    return sum(storage.nbytes() for pointer, storage in kept.items() if pointer not in known)


def _drive(kind: str, T: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if kind not in DRIVES:
        raise ValueError(f"expected a drive among {', '.join(DRIVES)}, got {kind!r}")
    noise = rng.standard_normal((T, *shape))
    if kind == "smooth":
        decay = np.exp(-1 / CORRELATED)
        noise[1:] *= np.sqrt(1 - decay**2)
        noise = lfilter([1.0], [1.0, -decay], noise, axis=0)
    return noise.astype(np.float32, order="C")


def _adjoint64(w, h, alpha, g, y, z, from_last) -> tuple[np.ndarray, ...]:
    """Return the gradients by w, h and g in float64 along given states, as `lib.kernels.cpu_unicornn` derives them."""
    w, h, g, y, z, from_last = (
        part.astype(np.float64, order="C") for part in (w, h, g, y, z, from_last)
    )
    w_gradient, h_gradient, delta = np.zeros_like(w), np.zeros_like(w), np.empty_like(g)
    parts = chains(w, h, g, y, z, from_last, w_gradient, h_gradient, delta)
    _pull_back(float(alpha), *parts)
    return w_gradient, h_gradient, delta


@kernel
def _pull_back(alpha, w, h, g, y, z, from_last, w_gradient, h_gradient, delta):
    for i in range(w.size):
        lambda_, mu = from_last[i], 0.0
        for n in range(len(g) - 1, -1, -1):
            before = y[n - 1, i] if n > 0 else 0.0
            s = math.tanh(w[i] * before + g[n, i])
            mu += h[i] * lambda_
            d = -h[i] * mu * (1 - s**2)
            delta[n, i] = d
            w_gradient[i] += d * before
            h_gradient[i] += lambda_ * z[n, i] - mu * (s + alpha * before)
            lambda_ += w[i] * d - h[i] * alpha * mu


def _relative(found: np.ndarray, truth: np.ndarray, *, over_batch: bool) -> float:
    if over_batch:
        found, truth = found.astype(np.float64).sum(0), truth.sum(0)
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))
