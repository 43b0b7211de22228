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

What the text leaves open, or prints in a way that does not learn, is a choice. Written with all of them, the bracket's sum is

.. math:: s_{i-1} = g_{i-1} + \sigma h_{k-1}, \qquad g_0 \in \{0, h_{k-1}\}

with the sign :math:`\sigma = -1` of the remark after theorem 1 beside the printed +1. At the equilibrium dh_k/dh_{k-1} is
:math:`-\sigma I` whatever g_0 is. After one small step from 0 it is about :math:`-\alpha \eta \sigma I`: little of h_{k-1} is left. From
h_{k-1} it is :math:`I + \eta (1 + \sigma) (\phi' U - \alpha I)`, near the identity for a small step (with the sign -1 and K = 1 the identity
itself, and U does nothing).

The step sizes start at 0.01 (section 4.1) and are not kept positive. The text trains one for every inner step and round, "eta_k^i",
which fixes the length of the sequences: here they depend on the inner step alone unless a length is given.

Form (8) is printed for alpha = 1; the leak multiplies its last term and the identity as section 3.2 derives them. It is printed
with U of low rank; every combination of form and rank can be had.

Three slips of the text. In the proof of proposition 1, the map lacks alpha before h_{k-1}. Proposition 2's exponent K counts from
g_0 = 0, not from h^1 as printed (K = 1 shows it): from g_1 it is K - 1. And U = I + V H of the low-rank form cannot satisfy
||U|| < alpha = 1 in general, which propositions 1 and 2 and theorem 1 assume: they speak of a full U and form (5).
All of them also take alpha eta <= 1.

The text gives no initialisation of the weights: U starts at N(0, 1/(16 d)), whose norm is about a half, V and H at
N(0, 1/d), W as in PyTorch's recurrent layers and b at zero. The start ``author`` draws all matrices from N(0, 0.01), as
its first author's next network does (TARNN, github.com/anilkagak2/TARNN), which also starts at h_{k-1}.
"""

import math
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from longrnn.cells._activation import ACTIVATIONS, phi
from longrnn.cells._cell import Cell, State
from longrnn.cells._init import normal, uniform_fan
from longrnn.cells._keywords import Choice, Number


def multiply(weights: NamedTuple, s: Tensor) -> Tensor:
    """Return U s for the rows s of (batch, d)."""
    if weights.U is not None:
        return s @ weights.U.T
    return weights.alpha * s + s @ weights.H.T @ weights.V.T


def argument(weights: NamedTuple, s: Tensor, from_u: Tensor) -> Tensor:
    """Return what phi is applied to, for the rows of s and of W x + b, (batch, d)."""
    a = multiply(weights, s) + from_u
    return multiply(weights, a) if weights.form == 8 else a  # (8)


class IncrementalRNN(Cell, name="irnn"):
    """The incremental RNN; SiRNN with one inner step."""

    title = "incremental RNN"
    source = "Kag et al. 2020, (5), (8)"
    hyper_parameters = {
        "inner_steps": Number(5, "[1, inf)", whole=True),  # K
        "rank": Number(None, "[1, inf)", whole=True),  # of U - alpha I = V H, None for a full U
        "form": Choice((None, 5, 8)),  # None is (8) with a rank and (5) with a full U
        "inner_start": Choice(("zero", "previous")),  # g_0
        "sign": Choice((1, -1)),  # sigma
        "eta": Number(0.01, "(0, 1]"),  # step sizes at the start
        # Which are trained: one per inner step, none, one for all, or one per inner step and round.
        "train_eta": Choice(("inner", "fixed", "one", "time")),
        "length": Number(None, "[1, inf)", whole=True),  # rounds T that "time" makes step sizes for
        "alpha": Number(1.0, "(0, inf)"),  # leak, 1 in the paper's experiments
        "phi": phi("relu"),
    }
    Weights = "U V H W b eta alpha sign form from_zero phi"
    # `study.training.equilibria` asks the cell: an import would make every training depend on this file.
    multiply, argument = staticmethod(multiply), staticmethod(argument)

    @classmethod
    def conflict(cls, given: SimpleNamespace, d: int | None) -> str:
        if given.rank is not None and given.rank > (d or math.inf):
            return f"1 <= rank <= {d} (or None)"
        if (given.train_eta == "time") != (given.length is not None):
            return "a length with train_eta='time', which has step sizes for so many rounds, and none otherwise"
        return ""

    def prepare(self) -> None:
        self.phi = ACTIVATIONS[self.phi]
        self.form = self.form or (5 if self.rank is None else 8)
        self.states = 1 if self.length is None else 2
        self.eta_start = self.eta
        del self.eta
        matrices = {"U": "d d"} if self.rank is None else {"V": "d rank", "H": "rank d"}
        self.shapes = matrices | {"W": "d p", "b": "d"}  # recurrent and input weights, bias
        if self.train_eta == "fixed":
            self.register_buffer("eta", torch.empty(1))
        else:
            shapes = {"inner": "inner_steps", "one": "1", "time": "inner_steps length"}
            self.shapes["eta"] = shapes[self.train_eta]

    def weights(self) -> NamedTuple:
        U, V, H = (self.U, None, None) if self.rank is None else (None, self.V, self.H)
        eta = self.eta if len(self.eta) == self.inner_steps else self.eta.expand(self.inner_steps)
        choices = self.alpha, self.sign, self.form, self.inner_start == "zero", self.phi
        return self.Weights(U, V, H, self.W, self.b, eta, *choices)

    @staticmethod
    def step(weights: NamedTuple, state: State, u: Tensor) -> State:
        """One step, K inner ones; `state` is (h,), the increment, or (h, k) with the rounds done where eta, (K, T), has a round."""
        W, b, eta, alpha, sign = weights.W, weights.b, weights.eta, weights.alpha, weights.sign
        h, *k = state
        if k:
            eta = eta[:, k[0].long()]
        g, from_u = torch.zeros_like(h) if weights.from_zero else h, u @ W.T + b
        for eta_i in eta.unbind(0):
            s = g + sign * h
            g = g + eta_i * (weights.phi(argument(weights, s, from_u)) - alpha * s)  # (5)
        return (g, *(part + 1 for part in k))

    def start_text(self) -> None:
        d = self.hidden_size
        if self.rank is None:
            self.U.normal_().div_(4 * math.sqrt(d))
        else:
            normal(self.V, self.H, over=d)
        uniform_fan(self.W, fan=d)
        nn.init.zeros_(self.b)
        nn.init.constant_(self.eta, self.eta_start)

    def start_author(self) -> None:
        self.start_text()
        for matrix in (self.W, *((self.U,) if self.rank is None else (self.V, self.H))):
            nn.init.normal_(matrix, std=0.1)

    def run(self, u: Tensor, state: State, *, engine: str = "auto") -> tuple[Tensor, State]:
        """As `Cell.run`; raises `ValueError` where a sequence goes on longer than there are step sizes."""
        if self.length is not None and (last := _rounds_done(state) + len(u)) > self.length:
            raise ValueError(
                f"irnn: expected sequences of at most length={self.length} rounds, for which there are step sizes, "
                f"got {last}; build the cell with a larger length"
            )
        return super().run(u, state, engine=engine)


def _rounds_done(state: State) -> int:
    """Return how many rounds a state has seen; 0 where networks are mapped side by side, which cannot be looked at."""
    try:
        return int(state[1].max())
    except RuntimeError:
        return 0
