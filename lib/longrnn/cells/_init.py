"""Initialization: distributions and methods that several cells share."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from longrnn.cells._keywords import Choice, Keyword
from longrnn.cells._modes import any_weight, wide_dtype


@dataclass(frozen=True)
class Start:
    """An initialization method of a cell.

    Attributes
    ----------
    draw
        Function that fills the weights of a cell. It gets the settings as keyword arguments and, if
        `by_length` is set, ``time_steps``.
    by_length
        Whether the weights depend on the length of the sequences.
    settings
        Keyword arguments of `draw`.
    step_factors
        Factors of the learning rate by name of the weight. They are needed if one weight here is
        the sum of several parameters in the authors' program: Adam moves each of them by one step,
        so their sum moves several times as far.
    """

    draw: Callable[..., None]
    by_length: bool = False
    settings: Mapping[str, Keyword] = field(default_factory=dict)
    step_factors: Mapping[str, float] = field(default_factory=dict)


@contextmanager
def converted_for_drawing(cell: nn.Module) -> Iterator[None]:
    """Convert a cell of 16 bits to float32, in which its weights are drawn, and back.

    Parameters
    ----------
    cell
        The cell. Its weights are the same parameters afterwards, in the dtype they had before.

    Yields
    ------
    None
    """
    dtype = any_weight(cell).dtype
    cell.to(wide_dtype(dtype))
    try:
        yield
    finally:
        cell.to(dtype)


def uniform_fan(*parameters: Tensor, fan: float) -> None:
    """Fill tensors with U(-1/sqrt(fan), 1/sqrt(fan)) in place.

    Parameters
    ----------
    *parameters
        Filled one after another, so their order determines the random numbers.
    fan
        With the hidden size d this is PyTorch's initialization of recurrent layers.
    """
    for parameter in parameters:
        nn.init.uniform_(parameter, -1 / math.sqrt(fan), 1 / math.sqrt(fan))


def normal_fan(*parameters: Tensor, fan: float) -> None:
    """Fill tensors with normal numbers of mean 0 and variance 1/fan in place.

    Parameters
    ----------
    *parameters
        Filled one after another, so their order determines the random numbers.
    fan
        Inverse of the variance; for most weights the number of their inputs.
    """
    for parameter in parameters:
        parameter.normal_().div_(math.sqrt(fan))


def keras_start(cell: nn.Module) -> None:
    """Draw W, R and b as Keras does.

    W is orthogonal, all gates as one matrix. R is Glorot uniform. b is zero, but 1 for forget
    gates.
    """
    nn.init.orthogonal_(cell.W)
    nn.init.xavier_uniform_(cell.R)
    nn.init.zeros_(cell.b)
    open_forget_gates(cell)


def open_forget_gates(cell: nn.Module) -> None:
    """Add 1 to the forget biases of an LSTM, whose gates are in the order i f g o."""
    if cell.name == "lstm":
        cell.b[cell.hidden_size : 2 * cell.hidden_size] += 1


def padding_start(
    cell: nn.Module, *, time_steps: int, initialization: str, input_scale: str | float
) -> None:
    """Draw W, R and b as in the dissertation's experiment 2.2, which uses TensorFlow's routines.

    Parameters
    ----------
    cell
        A cell with weights W, R and b.
    time_steps
        Length of the sequences.
    initialization
        How W is drawn (Figure A2): ``orthogonal`` or ``glorot``. The gates of an LSTM are drawn as
        one matrix.
    input_scale
        ``1/T`` gives R the standard deviation one over the length, as in the author's public
        research code. A number is a factor of Glorot's uniform distribution. At 1, noise drives
        tanh into saturation: after a few rows the state has lost the image, and the gradient is
        gone.

    Notes
    -----
    Biases are zero, but one for an LSTM's forget gate.
    """
    draw_matrix = {"orthogonal": nn.init.orthogonal_, "glorot": nn.init.xavier_uniform_}
    draw_matrix[initialization](cell.W)
    nn.init.zeros_(cell.b)
    if input_scale == "1/T":
        nn.init.normal_(cell.R, std=1 / time_steps)
    else:
        nn.init.xavier_uniform_(cell.R).mul_(float(input_scale))
    open_forget_gates(cell)


class Scale:
    """A keyword that is a positive number, possibly as text, or ``1/T``."""

    default = "1/T"

    def __str__(self) -> str:
        return "1/T or a positive number"

    def admits(self, value: object) -> bool:
        """Return whether a value is allowed.

        Parameters
        ----------
        value
            Any object.

        Returns
        -------
        bool
            True for ``1/T``, and for a positive number or its text.
        """
        if value == "1/T":
            return True
        if isinstance(value, bool):
            return False
        try:
            return 0 < float(value) < math.inf
        except (TypeError, ValueError):
            return False


PADDING = Start(
    padding_start,
    by_length=True,
    settings={"initialization": Choice(("orthogonal", "glorot")), "input_scale": Scale()},
)


def adding_start(cell: nn.Module, *, time_steps: int, variant: str) -> None:
    r"""Draw R, b and W, or the factors of W, for the adding problem (dissertation, section 2.9.1).

    Parameters
    ----------
    cell
        A cell with weights W, R and b, or one with a method ``set_matrix``.
    time_steps
        Length T of the sequences.
    variant
        ``library`` is Keras's start: W orthogonal, R Glorot uniform, b zero but 1 for forget
        gates. ``identity`` is the same with W the identity (Le, Jaitly and Hinton 2015).
        ``author`` is Keras's start for an LSTM. For other cells it draws R from N(0, 1/T^2) and
        trains the first state from zero: the network starts almost linear, so an orthogonal W
        carries the adjoint unchanged.

        ``paper`` is our initialization for the experiment as the dissertation describes it. R is
        uniform within :math:`\pm 1 / \sqrt{p}` with p = 2 features. That is large enough for tanh
        to be nonlinear; otherwise the network cannot multiply the value by the mark. W, for each
        gate of an LSTM, is a rotation :math:`e^A` with Gaussian A = -A', by angles up to about one
        radian. The biases -R E[u], with E[u] = (1/2, 2/T), cancel the mean input. Without them the
        states drift to where tanh is flat within tens of steps. The LSTM's forget gates get 1 more.

    Raises
    ------
    ValueError
        The start is ``paper``, and the cell does not have two input features.
    """
    width = cell.hidden_size
    gates = len(cell.R) // width
    if variant == "paper":
        W = _draw_adding_paper(cell, time_steps, gates)
    else:
        W = _draw_adding_like_library(cell, time_steps, gates, variant)
    if hasattr(cell, "set_matrix"):
        if variant != "paper":
            # The factors L and U need no row exchanges: W with its rows in the order that
            # elimination gives is orthogonal as well.
            order, *_ = torch.linalg.lu(W)
            W = order.T @ W
        cell.set_matrix(W)
    else:
        cell.W.copy_(W)
    open_forget_gates(cell)


def _draw_adding_paper(cell: nn.Module, time_steps: int, gates: int) -> Tensor:
    """Draw R and b for the start ``adding_paper``; return W."""
    if cell.input_size != 2:
        raise ValueError(
            f"{cell.label}: the start 'adding_paper' is for inputs of a value and a mark, "
            f"got {cell.input_size} features"
        )
    cell.R.uniform_(-1, 1).div_(math.sqrt(cell.input_size))
    mean_input = torch.tensor((0.5, 2 / time_steps)).to(cell.R)
    cell.b.copy_(-cell.R @ mean_input)
    return torch.cat([rotation(cell.hidden_size) for _ in range(gates)])


def _draw_adding_like_library(cell: nn.Module, time_steps: int, gates: int, variant: str) -> Tensor:
    """Draw R and b for the starts ``library``, ``identity`` and ``author``; return W."""
    nn.init.xavier_uniform_(cell.R)
    nn.init.zeros_(cell.b)
    W = torch.eye(cell.hidden_size, dtype=torch.float64).repeat(gates, 1)
    if variant != "identity":
        nn.init.orthogonal_(W)
    if variant == "author" and cell.name != "lstm":
        cell.R.normal_().div_(time_steps)
        cell.train_initial_state()
    return W


def rotation(width: int) -> Tensor:
    r"""Draw a random rotation from torch's random generator.

    Parameters
    ----------
    width
        Number of rows and columns.

    Returns
    -------
    (width, width), float64
        The orthogonal matrix :math:`e^A` with Gaussian A = -A'. Its angles lie in about (-1, 1) and
        follow a semicircle distribution of standard deviation 0.5.
    """
    A = torch.randn(width, width, dtype=torch.float64) * 0.5 / math.sqrt(2 * width)
    return torch.linalg.matrix_exp(A - A.T)


ADDING = {
    f"adding_{variant}": Start(partial(adding_start, variant=variant), by_length=True)
    for variant in ("author", "paper", "library", "identity")
}
