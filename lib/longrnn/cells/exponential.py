r"""The exponential RNN: an orthogonal recurrence by the matrix exponential.

M. Lezcano-Casado, D. Martinez-Rubio, *Cheap orthogonal constraints in neural networks*, ICML 2019,
section 4:

.. math::
    x_t &= \sigma_b(B x_{t-1} + R u_t), \qquad B = B_0 \exp(S), \; S = -S^\top \\
    \sigma_b(a) &= \operatorname{sign}(a) \, \max(|a| + b, 0) \quad \text{(modReLU)}

PyTorch's parametrization stores d^2 numbers. The d(d-1)/2 numbers below the diagonal form S; Table
3.3 counts these. B_0 stays where B starts and S starts at zero. This is the dynamic
trivialization with K = infinity of M. Lezcano-Casado, *Trivializations for gradient-based
optimization on manifolds*, NeurIPS 2019. The exponential RNN of 2019 and the dissertation's public
program have the static one, B_0 = I, which reaches the same matrices by another gradient. The
dynamic one is used everywhere here, because LEM's paper trains it ("DTRIV-infinity"), so that
the exponential RNN is the same network in all tables.

The start ``paper`` gives B_0 rotations by angles from U(-pi, pi), after Henaff, Szlam and LeCun
(2016), draws R Kaiming normal and sets b to zero. ``author``, the dissertation's public program, is
the Cayley initialization of github.com/Lezcano/expRNN, with angles -tan(theta / 2), theta from
U(0, pi/2), and b from U(-0.01, 0.01), but R from N(0, 1/p^2).

With b = 0 the modReLU is the identity, but automatic differentiation takes its slope at 0 to be 0.
So an input of zeros makes the adjoint exactly zero.
"""

import math
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from longrnn.cells._cell import Cell, State
from longrnn.cells._modes import wide_dtype
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent


class ExponentialRNNCore(Cell, name="exponential"):
    """The exponential RNN; its matrix is orthogonal at every step of training."""

    title = "exponential RNN"
    source = "Lezcano-Casado and Martinez-Rubio 2019, section 4"
    shapes = {
        "B": "d d",  # orthogonal recurrent matrix
        "R": "d p",  # input weights
        "b": "d",  # bias of the modReLU
    }
    Weights = "B R b"
    biases = ()  # b is the threshold of the modReLU

    def constrain(self) -> None:
        if self.B.is_meta:
            # PyTorch's parametrization looks at values, which the meta device does not have.
            with torch.device("cpu"):
                self.B = nn.Parameter(torch.eye(self.hidden_size, dtype=self.B.dtype))
                parametrizations.orthogonal(self, "B", orthogonal_map="matrix_exp")
            self.parametrizations.to("meta")
        else:
            parametrizations.orthogonal(self, "B", orthogonal_map="matrix_exp")

    def weights(self) -> tuple:
        """Return the first argument of `step`.

        Returns
        -------
        Weights
            ``B`` (d, d), orthogonal, ``R`` (d, p), and ``b`` (d,), the modReLU's bias.
        """
        in_16_bits = wide_dtype(self.R.dtype) != self.R.dtype
        if in_16_bits and parametrize.is_parametrized(self, "B"):
            return self.Weights(self._orthogonal_by_float32(), self.R, self.b)
        return super().weights()

    def _orthogonal_by_float32(self) -> Tensor:
        """Return B of 16 bits, computed in float32.

        In 16 bits the gradients of PyTorch's matrix exponential are NaN (torch 2.13).
        """
        parametrization = self.parametrizations.B
        lower = parametrization.original.float().tril(-1)
        S = lower - lower.T
        B_0 = parametrization[0].base.float()
        return (B_0 @ torch.matrix_exp(S)).to(self.R.dtype)

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """Take one step (section 4).

        Parameters
        ----------
        weights : tuple
            ``B`` (d, d), orthogonal, ``R`` (d, p), and ``b`` (d,), the modReLU's bias.
        state : tuple of (batch, d)
            ``(x,)``, the state x_{t-1}, which is also the output.
        u : (batch, p)
            The input u_t.

        Returns
        -------
        tuple of (batch, d)
            ``(x,)``, the state x_t.
        """
        B, R, b = weights
        (x,) = state
        a = x @ B.T + u @ R.T
        return (torch.sign(a) * torch.relu(a.abs() + b),)  # modReLU

    def start_paper(self) -> None:
        angles = self.R.new_empty(self.hidden_size // 2)
        self._rotate(angles.uniform_(-math.pi, math.pi))
        nn.init.kaiming_normal_(self.R)
        nn.init.zeros_(self.b)

    def start_author(self) -> None:
        theta = self.R.new_empty(self.hidden_size // 2).uniform_(0, math.pi / 2)
        self._rotate(-torch.tan(theta / 2))
        nn.init.kaiming_normal_(self.R)  # overwritten below; stored runs drew it, too
        nn.init.uniform_(self.b, -0.01, 0.01)
        nn.init.normal_(self.R, std=1 / self.input_size)

    def _rotate(self, angles: Tensor) -> None:
        """Set B to rotations by the (d // 2,) angles, the exponential of 2x2 blocks (section 4)."""
        if angles.is_meta:
            return
        B = torch.eye(self.hidden_size, dtype=angles.dtype, device=angles.device)
        first = torch.arange(0, 2 * len(angles), 2, device=angles.device)
        cos = angles.double().cos().to(angles)
        sin = angles.double().sin().to(angles)
        B[first, first] = cos
        B[first + 1, first + 1] = cos
        B[first + 1, first] = sin
        B[first, first + 1] = -sin
        if parametrize.is_parametrized(self, "B"):
            self.B = B
        else:  # a user has removed the parametrization
            self.B.copy_(B)

    def __reduce_ex__(self, protocol: int) -> tuple:
        """Pickle the cell by its plain class, which parametrizes B, and nothing else.

        PyTorch does not pickle a parametrized module, whose class cannot be imported by name. If a
        user has parametrized other weights, its error says so. If a user has removed the
        parametrization of B, the cell is pickled like any module.
        """
        if not parametrize.is_parametrized(self) or list(self.parametrizations) != ["B"]:
            return super().__reduce_ex__(protocol)
        (plain_class,) = type(self).__bases__
        sizes = self.input_size, self.hidden_size
        return plain_class._unpickled, sizes, self.__dict__

    @classmethod
    def _unpickled(cls, input_size: int, hidden_size: int) -> Self:
        """Return a cell whose attributes pickle will set; draws no random numbers."""
        with torch.device("meta"):
            return cls(input_size, hidden_size)


class ExponentialRNN(Recurrent, core=ExponentialRNNCore):
    """The exponential RNN, with an orthogonal matrix (Lezcano-Casado and Martinez-Rubio 2019).

    ::

        x_t = modrelu(B x_{t-1} + R u_t, b),    modrelu(a, b) = sign(a) max(|a| + b, 0)
        B = B_0 expm(S),    S' = -S

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    batch_first
        Whether inputs and outputs are (batch, time, features).
    dropout
        Dropout probability in training, for the outputs of all layers but the last.
    bidirectional
        Whether each layer also reads the sequences backward.
    device, dtype
        Device and dtype of the weights.

    Notes
    -----
    ``output, state = layer(input, state)`` takes and returns sequences as `torch.nn.LSTM` does;
    see `Recurrent.forward`. The state is the tensor x, (num_layers * num_directions, batch,
    hidden_size).

    Weights of the first layer, in ``layer.cells.l0``: ``B`` (d, d), orthogonal, ``R`` (d, p),
    ``b`` (d,). PyTorch computes ``B`` from the parameter ``parametrizations.B.original``.

    Examples
    --------
    >>> import torch
    >>> from longrnn import ExponentialRNN
    >>> rnn = ExponentialRNN(10, 20, num_layers=2)
    >>> output, x_n = rnn(torch.randn(5, 3, 10))
    >>> output.shape, x_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            {},
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
            dtype=dtype,
        )


ExponentialRNNCell = one_step(ExponentialRNN)
