r"""One training on the adding problem: how a network starts, is trained and is measured.

The text gives neither optimiser, initialisation nor number of steps. Here Adam minimises the mean squared error of a
linear read-out of the last state, on fresh sequences in every batch; how all four architectures start is in `start`.
"""

import copy
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lib.cells import make_cell
from lib.cells.inverse_rnn import SingularMatrixError
from lib.experiments.adding.results import ENDS, LEVELS, POSITIONS, STAGES
from lib.probes.adjoint import adjoint_norms
from lib.probes.lyapunov import singular_values
from lib.results.schema import COMPLETED, DIVERGED
from lib.tasks.adding import FEATURES, draw_sums, mean_input
from lib.training.model import Predictor
from lib.training.seeds import seeds, seeds_of, torch_seed

_INTERCHANGING = ("lu_rnn", "inverse_rnn")
_SPREAD = 0.5


@dataclass(frozen=True)
class Training:
    """One training: everything that its results depend on."""

    architecture: str
    time_steps: int
    learning_rate: float
    replicate: int
    training_steps: int
    width: int
    tau: int
    batch_size: int
    clip: float
    checkpoints: int
    test_size: int
    probe_size: int
    flush_denormals: bool
    engine: str

    def seeds(self) -> tuple[np.random.SeedSequence, ...]:
        """Return independent seeds of the initial weights and of the batches."""
        return seeds_of(self, LEVELS, 2)

    def checkpoint_steps(self) -> list[int]:
        """Return the training steps after which the error is measured, the first being 0."""
        shares = range(self.checkpoints + 1)
        return [self.training_steps * share // self.checkpoints for share in shares]


class Adder(Predictor):
    """A cell with a linear read-out of its last state, (2.28)."""


def start(training: Training) -> Adder:
    r"""Return the network before training.

    Notes
    -----
    Input weights are uniform within :math:`\pm 1 / \sqrt{p}`, p = 2 features: large enough for tanh to bend, without which value and mark
    cannot be multiplied. The recurrent weights, for each gate of the LSTM, are rotations :math:`e^A` with Gaussian A = -A',
    by angles up to about one radian: orthogonal, as in the library that the text uses, and near enough to the identity for
    well-conditioned factors L and U without exchanges of rows. All four architectures start alike.

    The biases -R E[u] cancel the mean input. Without that the states drift to where tanh is flat within tens of
    steps, and no architecture learned T = 100 in the training steps that are affordable here. The LSTM's forget gates
    get 1 more, TensorFlow's default.
    """
    name, width = training.architecture, training.width
    hyper_parameters = {"tau": training.tau} if name in _INTERCHANGING else {}
    with torch_seed(training.seeds()[0]), torch.no_grad():
        model = Adder(make_cell(name, FEATURES, width, **hyper_parameters))
        cell = model.cell
        cell.R.uniform_(-1, 1).div_(math.sqrt(FEATURES))
        cell.b.copy_(-cell.R @ torch.tensor(mean_input(training.time_steps)))
        blocks = [_rotation(width) for _ in range(len(cell.R) // width)]
        if name == "lu_rnn":
            cell.set_matrix(blocks[0])
        else:
            cell.W.copy_(torch.cat(blocks))
        if name == "lstm":
            cell.b[width : 2 * width] += 1
    return model


def _rotation(width: int) -> Tensor:
    """Return a random orthogonal matrix whose angles lie in about (-1, 1): a semicircle of radius 2 _SPREAD."""
    A = torch.randn(width, width, dtype=torch.float64) * _SPREAD / math.sqrt(2 * width)
    return torch.linalg.matrix_exp(A - A.T)


def train(training: Training) -> dict[str, np.ndarray]:
    """Train and measure one network; return the variables of `SCHEMA` that depend on the training.

    Notes
    -----
    A loss that is not finite, or a recurrent matrix that has become singular, ends the training as diverged; what was
    measured before is kept.
    """
    torch.set_num_threads(1)
    torch.set_flush_denormal(training.flush_denormals)
    T = training.time_steps
    model = start(training)
    optimiser = torch.optim.Adam(model.parameters(), lr=training.learning_rate)
    rng = np.random.default_rng(training.seeds()[1])
    # One test set for all trainings of a length.
    test = _tensors(T, training.test_size, np.random.default_rng(seeds({"test": T}, 1)[0]))
    found = {
        "status": COMPLETED,
        "steps_completed": 0,
        "parameters": sum(p.numel() for p in model.cell.parameters()),
        "error": np.full(training.checkpoints + 1, np.nan),
        "adjoint": np.full((len(STAGES), len(POSITIONS)), np.nan),
        "gain": np.full((len(STAGES), len(ENDS)), np.nan),
    }
    try:
        _measure(model, training, test, found, STAGES.index("untrained"))
        for checkpoint, stop in enumerate(training.checkpoint_steps()):
            while found["steps_completed"] < stop:
                _step(model, optimiser, _tensors(T, training.batch_size, rng), training.clip)
                found["steps_completed"] += 1
            with torch.no_grad():
                found["error"][checkpoint] = _finite(F.mse_loss(model(test[0]), test[1])).item()
        _measure(model, training, test, found, STAGES.index("trained"))
    except (_NotFiniteError, SingularMatrixError):
        found["status"] = DIVERGED
    return {name: np.asarray(value) for name, value in found.items()}


class _NotFiniteError(ArithmeticError):
    """A loss that is no finite number."""


def _finite(loss: Tensor) -> Tensor:
    if not torch.isfinite(loss):
        raise _NotFiniteError
    return loss


def _tensors(time_steps: int, size: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return fresh inputs, (time, batch, 2), and their sums, (batch,)."""
    part = draw_sums(time_steps, size, rng)
    u = torch.from_numpy(part.inputs).transpose(0, 1).contiguous()
    return u, torch.from_numpy(part.targets[:, 0])


def _step(
    model: Adder, optimiser: torch.optim.Optimizer, batch: tuple[Tensor, Tensor], clip: float
) -> None:
    u, sums = batch
    loss = _finite(F.mse_loss(model(u), sums))
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimiser.step()


def _measure(
    model: Adder, training: Training, test: tuple[Tensor, Tensor], found: dict, stage: int
) -> None:
    """Fill in the adjoint norms and the gain of the first test sequences at one stage of the training."""
    u, sums = (test[0][:, : training.probe_size], test[1][: training.probe_size].double())
    output = copy.deepcopy(model.output).double().requires_grad_(False)

    def loss(x: Tensor) -> Tensor:
        return F.mse_loss(output(x)[:, 0], sums, reduction="sum")

    T = training.time_steps
    times = [max(1, round(position * T)) for position in POSITIONS]
    norms = adjoint_norms(model.cell, u, loss, times=times)
    by_time = dict(zip(norms.times, norms.readout.median(dim=1).values.tolist(), strict=True))
    found["adjoint"][stage] = [by_time[t] for t in times]
    # The count of steps of the LU RNN and the inverse RNN is no memory.
    parts = (0,) if training.architecture in _INTERCHANGING else None
    stretch = min(2 * training.tau, T)
    values = singular_values(model.cell, u, parts=parts, start=T - stretch).log10()
    found["gain"][stage] = [values[:, end].mean().item() for end in (0, -1)]
