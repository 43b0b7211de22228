r"""The *incremental* RNN: not the identity-initialised RNN that is also called IRNN, and not IndRNN.

*Incremental RNN: a dynamical view*, anonymous manuscript under review for ICLR 2020 (A. Kag, Z. Zhang, V. Saligrama,
*RNNs incrementally evolving on an equilibrium manifold*, ICLR 2020), equation 5 of the manuscript: K inner Euler steps
from g_0 = 0,

.. math::
    g_i &= g_{i-1} + \eta_i \, [\phi(U (g_{i-1} + h_{k-1}) + W x_k + b) - \alpha (g_{i-1} + h_{k-1})] \\
    h_k &= g_K \tag{5}

and, with a low-rank matrix, the form of the paper's experiments:

.. math:: \phi(U \, [U (g_{i-1} + h_{k-1}) + W x_k + b]), \qquad U = \alpha I + V H \tag{8}

in place of the bracket's first term. K = 1 is SiRNN, equation 6.

========== =========== ============= ====================================================
symbol     name        shape         meaning
========== =========== ============= ====================================================
x_k        ``u``       (p,)          input
h_k        ``h``       (d,)          state, read out: the increment, not g + h
g_i        ``g``       (d,)          inner iterate
U          ``U``       (d, d)        recurrent weights
V, H       ``V H``     (d, r) (r, d) factors of U in the low-rank form
W          ``W``       (d, p)        input weights
b          ``b``       (d,)          bias
eta_i      ``eta``     (K,)          inner step sizes, learned
alpha      ``alpha``   scalar        leak, 1 in the paper's experiments
phi        ``phi``     function      relu, tanh or sigmoid
========== =========== ============= ====================================================

The step sizes depend on the inner step alone, not on the round k as the text allows: a learned number per round would fix
the length of the sequences. They start at 0.01 (section 4.1) and are not kept positive.

Form (8) is printed for alpha = 1; the leak multiplies its last term and the identity as section 3.2 derives them.

Three slips of the text. In the proof of proposition 1, the map lacks alpha before h_{k-1}. Proposition 2's exponent K
counts from g_0 = 0, not from h^1 as printed (K = 1 shows it): from g_1 it is K - 1. And U = I + V H of the low-rank form cannot satisfy
||U|| < alpha = 1 in general, which propositions 1 and 2 and theorem 1 assume: they speak of the full form.
All of them also take alpha eta <= 1.

The text gives no initialisation of the weights: U starts at N(0, 1/(16 d)), whose norm is about a half, V and H at
N(0, 1/d), W as in PyTorch's recurrent layers and b at zero. The start ``author`` draws all matrices from N(0, 0.01), as
its first author's next network does (TARNN, github.com/anilkagak2/TARNN).
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lib.cells._activation import Activation, activation
from lib.cells._cell import Cell, State
from lib.cells._init import named_starts, uniform_fan


class Weights(NamedTuple):
    U: Tensor
    W: Tensor
    b: Tensor
    eta: Tensor
    alpha: float
    phi: Activation
    low_rank: bool


def step(weights: Weights, state: State, u: Tensor) -> State:
    """One step, K inner ones; `state` is (h,) of (batch, d), `u` is (batch, p)."""
    U, W, b, eta, alpha, phi, low_rank = weights
    (h,) = state
    g, from_u = torch.zeros_like(h), u @ W.T + b
    for eta_i in eta.unbind(0):
        a = (g + h) @ U.T + from_u
        a = a @ U.T if low_rank else a  # (8)
        g = g + eta_i * (phi(a) - alpha * (g + h))  # (5)
    return (g,)


def start_text(cell: Cell) -> None:
    d = cell.hidden_size
    if cell.rank is None:
        cell.U.normal_().div_(4 * math.sqrt(d))
    else:
        cell.V.normal_().div_(math.sqrt(d))
        cell.H.normal_().div_(math.sqrt(d))
    uniform_fan(cell.W, fan=d)
    nn.init.zeros_(cell.b)
    nn.init.constant_(cell.eta, 0.01)


def start_author(cell: Cell) -> None:
    start_text(cell)
    for matrix in (cell.W, *((cell.U,) if cell.rank is None else (cell.V, cell.H))):
        nn.init.normal_(matrix, std=0.1)


class IncrementalRNN(Cell, name="irnn"):
    """The incremental RNN; SiRNN with one inner step.

    Parameters
    ----------
    input_size, hidden_size
        Features p and recurrent dimension d.
    inner_steps
        Inner steps K, at least 1.
    rank
        Rank r of V H in the low-rank form (8), in 1..d; None for a full U and equation 5.
    alpha
        Leak, positive.
    phi
        Activation: relu, tanh or sigmoid.
    """

    title = "incremental RNN"
    source = "Kag et al. 2020, (5), (8)"
    step = step
    starts = named_starts(text=start_text, author=start_author)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        inner_steps: int = 5,
        rank: int | None = None,
        alpha: float = 1.0,
        phi: str = "relu",
    ) -> None:
        super().__init__(input_size, hidden_size)
        if inner_steps < 1 or alpha <= 0 or (rank is not None and not 1 <= rank <= hidden_size):
            raise ValueError(
                f"irnn: expected inner_steps >= 1, alpha > 0 and 1 <= rank <= {hidden_size} (or None), "
                f"got {inner_steps}, {alpha} and {rank}"
            )
        self.phi = activation(phi, cell=self.name)
        self.alpha = alpha
        self.rank = rank
        d = hidden_size
        if rank is None:
            self.U = nn.Parameter(torch.empty(d, d))
        else:
            self.V = nn.Parameter(torch.empty(d, rank))
            self.H = nn.Parameter(torch.empty(rank, d))
        self.W = nn.Parameter(torch.empty(d, input_size))
        self.b = nn.Parameter(torch.empty(d))
        self.eta = nn.Parameter(torch.empty(inner_steps))
        self.start("text")

    def weights(self) -> Weights:
        low_rank = self.rank is not None
        U = self.U if not low_rank else self._identity() + self.V @ self.H
        return Weights(U, self.W, self.b, self.eta, self.alpha, self.phi, low_rank)

    def _identity(self) -> Tensor:
        return self.alpha * torch.eye(self.hidden_size, dtype=self.V.dtype, device=self.V.device)
