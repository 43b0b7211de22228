r"""The linear recurrent unit: a diagonal complex recurrence, and a gated output.

A. Orvieto, S. L. Smith, A. Gu, A. Fernando, C. Gulcehre, R. Pascanu, S. De, *Resurrecting recurrent
neural networks for long sequences*, ICML 2023, arXiv:2303.06349: the exponential parametrization,
initialization on a ring and normalization of section 3, and a gated output as in its blocks,
without their layer normalization and skip connection:

.. math::
    \lambda &= \exp(-\exp(\nu) + i \exp(\theta)) \\
    x_t &= \lambda \odot x_{t-1} + \exp(\gamma) \odot B u_t \\
    s_t &= \operatorname{Re}(C x_t) + D u_t \\
    y_t &= (G_1 \operatorname{gelu}(s_t) + g_1) \odot \sigma(G_2 \operatorname{gelu}(s_t) + g_2)

The Jacobian of the recurrence is the diagonal matrix of the eigenvalues lambda: over n steps an
adjoint decays by the factors :math:`|\lambda|^n`, whatever the input is. None of the papers that
this repository reproduces has this cell; it is a modern baseline.

The initial eigenvalues are uniform on the ring :math:`r_{min} \le |\lambda| \le r_{max}`, with
phases uniform in [0, max_phase]. B is drawn from N(0, 1/(2p)) and C from N(0, 1/(2d)), real and
imaginary part each, D from N(0, 1/p), G as PyTorch draws a linear layer, and
:math:`\exp(\gamma) = \sqrt{1 - |\lambda|^2}`.

=========  =============  ==============  ====================================
symbol     name           shape           meaning
=========  =============  ==============  ====================================
nu, theta  ``nu, theta``  (d,)            eigenvalues, in exponential form
gamma      ``gamma``      (d,)            logarithm of the normalization
B          ``B``          (2d, p)         input weights, real part first
C          ``C``          (d, 2d)         output weights, real part first
D          ``D``          (d, p)          direct path
G, g       ``G, g``       (2d, d), (2d,)  gated output
y_t        ``y``          (batch, d)      output; no step reads it
x_t        ``re, im``     (batch, d)      real and imaginary part of the state
=========  =============  ==============  ====================================
"""

import math
from types import SimpleNamespace

import torch
from torch import Tensor
from torch.nn import functional as F

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import uniform_fan
from longrnn.cells._keywords import Number
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent


class LRUCore(Cell, name="lru"):
    """The linear recurrent unit with a gated output."""

    title = "LRU"
    source = "Orvieto et al. 2023, section 3"
    shapes = {
        "nu": "d",  # decay rates
        "theta": "d",  # phases
        "gamma": "d",  # normalization of the input
        "B": "2d p",  # input weights, real part first
        "C": "d 2d",  # output weights, real part first
        "D": "d p",  # direct path
        "G": "2d d",  # gated output, value first
        "g": "2d",  # biases of the gated output, value first
    }
    hyper_parameters = {
        "r_min": Number(0.9, "(0, 1)"),  # smallest initial modulus of an eigenvalue
        "r_max": Number(0.999, "(0, 1)"),  # largest initial modulus
        "max_phase": Number(2 * math.pi, "(0, 7)"),  # largest initial phase
    }
    biases = ("g",)
    Weights = "eigen_re eigen_im scale B C D G g"
    states = 3
    reads_output = False

    @classmethod
    def conflict(cls, given: SimpleNamespace, d: int | None) -> str:
        if given.r_min > given.r_max:
            return "r_min <= r_max"
        return ""

    def weights(self) -> tuple:
        """Return the first argument of `step`.

        Returns
        -------
        Weights
            ``eigen_re`` and ``eigen_im`` (d,), the real and imaginary parts of the eigenvalues
            lambda, ``scale`` (d,) = exp(gamma), and ``B`` (2d, p), ``C`` (d, 2d), ``D`` (d, p),
            ``G`` (2d, d) and ``g`` (2d,).
        """
        modulus = torch.exp(-torch.exp(self.nu))
        phase = torch.exp(self.theta)
        return self.Weights(
            eigen_re=modulus * torch.cos(phase),
            eigen_im=modulus * torch.sin(phase),
            scale=torch.exp(self.gamma),
            B=self.B,
            C=self.C,
            D=self.D,
            G=self.G,
            g=self.g,
        )

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """Take one step (section 3).

        Parameters
        ----------
        weights : Weights
            As from `weights`.
        state : tuple of (batch, d)
            ``(y, re, im)`` at t - 1: the output, and the real and imaginary part of x_{t-1}.
        u : (batch, p)
            The input u_t.

        Returns
        -------
        tuple of (batch, d)
            ``(y, re, im)`` at t.
        """
        eigen_re, eigen_im, scale, B, C, D, G, g = weights
        _, re, im = state
        drive_re, drive_im = (u @ B.T).chunk(2, dim=-1)
        C_re, C_im = C.chunk(2, dim=-1)
        x_re = eigen_re * re - eigen_im * im + scale * drive_re
        x_im = eigen_re * im + eigen_im * re + scale * drive_im
        s = x_re @ C_re.T - x_im @ C_im.T + u @ D.T
        value, gate = (F.gelu(s) @ G.T + g).chunk(2, dim=-1)
        return value * torch.sigmoid(gate), x_re, x_im

    def start_paper(self) -> None:
        low = self.r_min**2
        high = self.r_max**2
        squares = torch.empty_like(self.nu).uniform_(low, high).clamp(low, high)
        self.nu.copy_(torch.log(-0.5 * torch.log(squares)))
        phases = torch.empty_like(self.theta).uniform_(0, self.max_phase)
        smallest = torch.finfo(phases.dtype).tiny
        self.theta.copy_(torch.log(phases.clamp_min(smallest)))
        self.gamma.copy_(0.5 * torch.log1p(-squares))
        self.B.normal_(std=(2 * self.input_size) ** -0.5)
        self.C.normal_(std=(2 * self.hidden_size) ** -0.5)
        self.D.normal_(std=self.input_size**-0.5)
        uniform_fan(self.G, self.g, fan=self.hidden_size)


class LRU(Recurrent, core=LRUCore):
    """The linear recurrent unit with a gated output (Orvieto et al. 2023, section 3).

    ::

        x_t = lambda * x_{t-1} + exp(gamma) * (B u_t)      (complex)
        s_t = Re(C x_t) + D u_t
        y_t = (G_1 gelu(s_t) + g_1) * sigmoid(G_2 gelu(s_t) + g_2)

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units: features of the output, and
        complex numbers in the state.
    num_layers
        Number of layers; each reads the outputs of the one below.
    r_min, r_max
        Ring of the initial eigenvalues; they set how fast memory and gradients decay.
    max_phase
        Largest initial phase of an eigenvalue, in radians.
    bias
        Whether the cells have biases.
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
    see `Recurrent.forward`. The state is the tuple (y, re, im): the output, which no step reads,
    and the real and imaginary part of the state. Its tensors are (num_layers * num_directions,
    batch, hidden_size).

    The layer runs step by step in Python, as it has no compiled engine. `torch.compile` unrolls
    this loop, and compiles again for every length of the sequences.

    Weights of the first layer, in ``layer.cells.l0``: ``nu``, ``theta`` and ``gamma`` (d,), ``B``
    (2d, p), ``C`` (d, 2d), ``D`` (d, p), ``G`` (2d, d), ``g`` (2d,).

    Examples
    --------
    >>> import torch
    >>> from longrnn import LRU
    >>> lru = LRU(10, 20, r_min=0.9, r_max=0.99)
    >>> output, (y_n, re_n, im_n) = lru(torch.randn(5, 3, 10))
    >>> output.shape, re_n.shape
    (torch.Size([5, 3, 20]), torch.Size([1, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        r_min: float = 0.9,
        r_max: float = 0.999,
        max_phase: float = 2 * math.pi,
        bias: bool = True,
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
            {"r_min": r_min, "r_max": r_max, "max_phase": max_phase},
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
            dtype=dtype,
        )


LRUCell = one_step(LRU)
