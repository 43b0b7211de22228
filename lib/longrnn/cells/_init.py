"""How weights start: what several cells share."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from longrnn.cells._keywords import Choice, Keyword


@dataclass(frozen=True)
class Start:
    """A way to draw a cell's initial weights."""

    draw: Callable[..., None]
    """Fills the weights of a cell, in a fixed order; gets `settings` and, if it is `by_length`, ``time_steps`` as keywords."""
    by_length: bool = False
    settings: Mapping[str, Keyword] = field(default_factory=dict)
    step_factors: Mapping[str, float] = field(default_factory=dict)
    """Factors of the learning rate by name of the weight, where the authors' program has several parameters whose sum is
    the equation's one: under Adam, which moves each by the same step, the sum goes so many times as far."""


def uniform_fan(*parameters: Tensor, fan: float) -> None:
    """Draw U(-1/sqrt(fan), 1/sqrt(fan)): with d for the fan PyTorch's own choice for recurrent layers."""
    for parameter in parameters:
        nn.init.uniform_(parameter, -1 / math.sqrt(fan), 1 / math.sqrt(fan))


def normal(*parameters: Tensor, over: float) -> None:
    """Draw N(0, 1/over)."""
    for parameter in parameters:
        parameter.normal_().div_(math.sqrt(over))


def keras_start(cell: nn.Module) -> None:
    """Draw W, R and b as Keras does: W orthogonal, the gates as one matrix, R Glorot uniform, b zero, but 1 for forget gates."""
    nn.init.orthogonal_(cell.W)
    nn.init.xavier_uniform_(cell.R)
    nn.init.zeros_(cell.b)
    open_forget_gates(cell)


def open_forget_gates(cell: nn.Module) -> None:
    """Add 1 to the forget biases of an LSTM, gates in the order i f g o."""
    if cell.name == "lstm":
        cell.b[cell.hidden_size : 2 * cell.hidden_size] += 1


def padding_start(
    cell: nn.Module, *, time_steps: int, initialisation: str, input_scale: str | float
) -> None:
    """Draw W, R and b as TensorFlow does, whose routines the dissertation's experiment 2.2 uses.

    W is orthogonal or Glorot uniform (Figure A2), the gates of an LSTM as one matrix. With the `input_scale` ``1/T`` R has the
    standard deviation one over the length, as in the author's public research code; with a number it is Glorot uniform times
    that: at 1 noise drives tanh into saturation, and whatever the state held of an image is gone after a few rows, with the
    gradient. Biases are zero, but one for an LSTM's forget gate.
    """
    {"orthogonal": nn.init.orthogonal_, "glorot": nn.init.xavier_uniform_}[initialisation](cell.W)
    nn.init.zeros_(cell.b)
    if input_scale == "1/T":
        nn.init.normal_(cell.R, std=1 / time_steps)
    else:
        nn.init.xavier_uniform_(cell.R).mul_(float(input_scale))
    open_forget_gates(cell)


class Scale:
    """A positive number, as text too, or ``1/T``."""

    default = "1/T"

    def __str__(self) -> str:
        return "1/T or a positive number"

    def admits(self, value: object) -> bool:
        try:
            number = not isinstance(value, bool) and 0 < float(value) < math.inf
        except (TypeError, ValueError):
            number = False
        return number or value == "1/T"


PADDING = Start(
    padding_start,
    by_length=True,
    settings={"initialisation": Choice(("orthogonal", "glorot")), "input_scale": Scale()},
)


def adding_start(cell: nn.Module, *, time_steps: int, like: str) -> None:
    r"""Draw R, b and W, or the factors of W, for the adding problem (dissertation, section 2.9.1).

    ``library`` is Keras's: W orthogonal, R Glorot uniform, b zero but 1 for forget gates. ``identity`` is the same with W the
    identity (Le, Jaitly and Hinton 2015). ``author`` is Keras's for an LSTM; the others have R from N(0, 1/T^2), T the length, and
    train the first state from zero: the network starts almost linear, and an orthogonal W then carries the adjoint unchanged.

    ``text`` is this repository's own. R is uniform within :math:`\pm 1 / \sqrt{p}`, p = 2 features: large enough for tanh to bend,
    without which value and mark cannot be multiplied. W, for each gate of the LSTM, is a rotation :math:`e^A` with Gaussian
    A = -A', by angles up to about one radian. The biases -R E[u], with E[u] = (1/2, 2/T), cancel the mean input: without that the
    states drift to where tanh is flat within tens of steps. The LSTM's forget gates get 1 more.
    """
    width, gates = cell.hidden_size, len(cell.R) // cell.hidden_size
    if like == "text":
        if cell.input_size != 2:
            raise ValueError(
                f"{cell.name}: the start 'adding_text' is for inputs of a value and a mark, got {cell.input_size} features"
            )
        cell.R.uniform_(-1, 1).div_(math.sqrt(cell.input_size))
        cell.b.copy_(-cell.R @ torch.tensor((0.5, 2 / time_steps)).to(cell.R))
        W = torch.cat([rotation(width) for _ in range(gates)])
    else:
        nn.init.xavier_uniform_(cell.R)
        nn.init.zeros_(cell.b)
        W = torch.eye(width, dtype=torch.float64).repeat(gates, 1)
        if like != "identity":
            nn.init.orthogonal_(W)
        if like == "author" and cell.name != "lstm":
            cell.R.normal_().div_(time_steps)
            cell.train_initial_state()
            for counts in list(cell.x0)[1:]:  # how many steps were done
                counts.requires_grad_(False)
    if hasattr(cell, "set_matrix"):
        # L and U need no exchanges of rows: W in the order that elimination gives it is orthogonal as well.
        order, *_ = torch.linalg.lu(W)
        cell.set_matrix(W if like == "text" else order.T @ W)
    else:
        cell.W.copy_(W)
    open_forget_gates(cell)


def rotation(width: int) -> Tensor:
    """Return a random orthogonal matrix in float64 whose angles lie in about (-1, 1), half the radius of their semicircle 0.5."""
    A = torch.randn(width, width, dtype=torch.float64) * 0.5 / math.sqrt(2 * width)
    return torch.linalg.matrix_exp(A - A.T)


ADDING = {
    f"adding_{like}": Start(partial(adding_start, like=like), by_length=True)
    for like in ("author", "text", "library", "identity")
}
