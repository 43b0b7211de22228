r"""The *incremental* RNN: neither the identity-initialized RNN, also called IRNN, nor IndRNN.

*Incremental RNN: a dynamical view*, anonymous manuscript under review for ICLR 2020 (A. Kag,
Z. Zhang, V. Saligrama, *RNNs incrementally evolving on an equilibrium manifold*, ICLR 2020),
equation 5 of the manuscript: K inner Euler steps from g_0 = 0,

.. math::
    g_i &= g_{i-1} + \eta_i \, [\phi(U (g_{i-1} + h_{k-1}) + W x_k + b)
           - \alpha (g_{i-1} + h_{k-1})] \\
    h_k &= g_K \tag{5}

and, with a low-rank matrix, the form of the paper's experiments,

.. math:: \phi(U \, [U (g_{i-1} + h_{k-1}) + W x_k + b]), \qquad U = \alpha I + V H \tag{8}

instead of the first term in the bracket. K = 1 is SiRNN, equation 6.

Options cover what the paper leaves open, and alternatives to its formulas where these do not learn.
With all of them, the sum in the bracket is

.. math:: s_{i-1} = g_{i-1} + \sigma h_{k-1}, \qquad g_0 \in \{0, h_{k-1}\}

where :math:`\sigma = +1` is the sign of (5), and -1 that of the remark after theorem 1. At the
equilibrium dh_k/dh_{k-1} is :math:`-\sigma I` whatever g_0 is. After one small step from g_0 = 0 it
is about :math:`-\alpha \eta \sigma I`, so little of h_{k-1} is left. After one small step from
g_0 = h_{k-1} it is :math:`I + \eta (1 + \sigma) (\phi' U - \alpha I)`, which is near the identity.
With the sign -1 and K = 1 it is the identity itself, and U has no effect.

The step sizes are initialized to 0.01 (section 4.1) and may become negative. The paper trains one
per inner step and time step, "eta_k^i", which fixes the length of the sequences. Here there is one
per inner step unless a length is given.

The paper gives form (8) for alpha = 1. Here alpha multiplies its last term and the identity, as
section 3.2 derives them. The paper gives form (8) for U of low rank; here form and rank can be
combined freely.

The paper has three errors. In the proof of proposition 1 the map lacks alpha before h_{k-1}.
Proposition 2's exponent K counts from g_0 = 0, not from h^1 as the paper says (K = 1 shows it):
from g_1 it is K - 1. And U = I + V H of the low-rank form cannot satisfy ||U|| < alpha = 1 in
general, which propositions 1 and 2 and theorem 1 assume: they apply to a full U and form (5). All
of them also assume alpha eta <= 1.

The paper gives no initialization. Here U is N(0, 1/(16 d)), whose norm is about a half, V and H are
N(0, 1/d), W is that of PyTorch's recurrent layers, and b is zero. The initialization ``author``
draws all matrices from N(0, 0.01), as in the first author's next network (TARNN,
github.com/anilkagak2/TARNN), which also has g_0 = h_{k-1}.
"""

import math
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from longrnn.cells._activation import ACTIVATIONS, activation_choice
from longrnn.cells._cell import Cell, State
from longrnn.cells._checks import check_countable, check_counts, time_steps_done
from longrnn.cells._init import normal_fan, uniform_fan
from longrnn.cells._keywords import Choice, Number
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent


def multiply(weights: NamedTuple, s: Tensor) -> Tensor:
    """Multiply every row of a matrix by U.

    Parameters
    ----------
    weights
        Weights of the cell, with U or with V and H.
    s : (batch, d)
        The rows.

    Returns
    -------
    (batch, d)
        U s for every row s.
    """
    if weights.U is not None:
        return s @ weights.U.T
    return weights.alpha * s + s @ weights.H.T @ weights.V.T


def argument(weights: NamedTuple, s: Tensor, from_u: Tensor) -> Tensor:
    """Return the argument of phi in equation (5) or (8).

    Parameters
    ----------
    weights
        Weights of the cell.
    s : (batch, d)
        The sum of the increment g and the state h.
    from_u : (batch, d)
        Input term W x + b.

    Returns
    -------
    (batch, d)
        U s + W x + b, multiplied by U once more in form (8).
    """
    a = multiply(weights, s) + from_u
    if weights.form == 8:
        return multiply(weights, a)  # (8)
    return a


class IncrementalRNNCore(Cell, name="irnn"):
    """The incremental RNN; SiRNN with one inner step."""

    title = "incremental RNN"
    source = "Kag et al. 2020, (5), (8)"
    hyper_parameters = {
        "inner_steps": Number(5, "[1, inf)", whole=True),  # K
        "rank": Number(None, "[1, inf)", whole=True),  # of U - alpha I = V H, None for a full U
        "form": Choice((None, 5, 8)),  # None is (8) with a rank and (5) with a full U
        "inner_start": Choice(("zero", "previous")),  # g_0
        "sign": Choice((1, -1)),  # sigma
        "eta": Number(0.01, "(0, 1]"),  # initial step sizes
        # Trained step sizes: one per inner step, none, one for all, or one per inner and time step.
        "train_eta": Choice(("inner", "fixed", "one", "time")),
        "length": Number(None, "[1, inf)", whole=True),  # T, number of time steps, for "time"
        "alpha": Number(1.0, "(0, inf)"),  # leak, 1 in the paper's experiments
        "phi": activation_choice("relu"),
    }
    Weights = "U V H W b eta alpha sign form from_zero phi"
    # `study.training.equilibria` uses these through the cell: if it imported them, every run would
    # depend on this file.
    multiply = staticmethod(multiply)
    argument = staticmethod(argument)

    @classmethod
    def conflict(cls, given: SimpleNamespace, d: int | None) -> str:
        if given.rank is not None and given.rank > (d or math.inf):
            return f"1 <= rank <= {d} (or None)"
        if (given.train_eta == "time") != (given.length is not None):
            return "a length if and only if train_eta='time', which has step sizes per time step"
        return ""

    def prepare(self) -> None:
        self.phi = ACTIVATIONS[self.phi]
        if self.form is None:
            self.form = 8
            if self.rank is None:
                self.form = 5
        if self.length is not None:
            self.states = 2  # h and the number of time steps
            self.counters = (1,)
        self.eta_start = self.eta
        del self.eta  # the name of the weights, which start at this number
        if self.rank is None:
            matrices = {"U": "d d"}
        else:
            matrices = {"V": "d rank", "H": "rank d"}
        self.shapes = matrices | {"W": "d p", "b": "d"}  # recurrent and input weights, bias
        if self.train_eta != "fixed":
            shapes = {"inner": "inner_steps", "one": "1", "time": "inner_steps length"}
            self.shapes["eta"] = shapes[self.train_eta]

    def constrain(self) -> None:
        if self.train_eta == "fixed":
            self.register_buffer("eta", self.b.new_empty(1))

    def weights(self) -> NamedTuple:
        """Return the first argument of `step`.

        Returns
        -------
        Weights
            ``U`` (d, d), or ``V`` (d, rank) and ``H`` (rank, d), the others None; ``W`` (d, p),
            ``b`` (d,), the step sizes ``eta`` (K,) or (K, T), the numbers ``alpha``, ``sign`` and
            ``form``, ``from_zero``, whether g_0 is 0, and the activation ``phi``.
        """
        eta = self.eta
        if len(eta) != self.inner_steps:  # one for all
            eta = eta.expand(self.inner_steps)
        U = None
        V = None
        H = None
        if self.rank is None:
            U = self.U
        else:
            V = self.V
            H = self.H
        return self.Weights(
            U=U,
            V=V,
            H=H,
            W=self.W,
            b=self.b,
            eta=eta,
            alpha=self.alpha,
            sign=self.sign,
            form=self.form,
            from_zero=self.inner_start == "zero",
            phi=self.phi,
        )

    @staticmethod
    def step(weights: NamedTuple, state: State, u: Tensor) -> State:
        """Take one time step: K inner steps of equation (5), or of its form with (8).

        Parameters
        ----------
        weights : Weights
            As from `weights`.
        state : tuple of (batch, d)
            ``(h,)``, the state h_{k-1}, which is also the output. If there are step sizes per time
            step, ``(h, k)``, where k counts the time steps so far.
        u : (batch, p)
            The input x_k.

        Returns
        -------
        tuple of (batch, d)
            The state after the step, h_k first.
        """
        h, *k = state
        eta = weights.eta
        if k:
            eta = eta[:, k[0].long()]
        g = h
        if weights.from_zero:
            g = torch.zeros_like(h)
        from_u = u @ weights.W.T + weights.b
        for eta_i in eta.unbind(0):
            s = g + weights.sign * h
            change = weights.phi(argument(weights, s, from_u)) - weights.alpha * s
            g = g + eta_i * change  # (5)
        return (g, *(part + 1 for part in k))

    def start_paper(self) -> None:
        d = self.hidden_size
        if self.rank is None:
            self.U.normal_().div_(4 * math.sqrt(d))
        else:
            normal_fan(self.V, self.H, fan=d)
        uniform_fan(self.W, fan=d)
        nn.init.zeros_(self.b)
        nn.init.constant_(self.eta, self.eta_start)

    def start_author(self) -> None:
        self.start_paper()
        matrices = [self.W]
        if self.rank is None:
            matrices.append(self.U)
        else:
            matrices += [self.V, self.H]
        for matrix in matrices:
            nn.init.normal_(matrix, std=0.1)

    def run(
        self, u: Tensor, state: State, *, engine: str = "auto", weights: tuple | None = None
    ) -> tuple[Tensor, State]:
        """Run the cell as `Cell.run` does.

        Parameters
        ----------
        u : (time, batch, p)
            The sequences.
        state : tuple of (batch, d)
            The state before the first input; see `step`.
        engine, weights
            As in `Cell.run`.

        Returns
        -------
        outputs : (time, batch, d)
            The states h_k.
        state : tuple of (batch, d)
            The state after the last input.

        Raises
        ------
        ValueError
            A sequence is longer than the number of step sizes, or than its type can count, or its
            neurons have different counts.
        """
        if self.length is not None:
            check_counts(self.label, state[1])
            last = time_steps_done(state[1]) + len(u)
            if last > self.length:
                raise ValueError(
                    f"{self.label}: expected sequences of at most length={self.length} time steps, "
                    f"for which there are step sizes, got {last}; build it with a larger length"
                )
            check_countable(self.label, last, u.dtype)
        return super().run(u, state, engine=engine, weights=weights)


class IncrementalRNN(Recurrent, core=IncrementalRNNCore):
    """The incremental RNN (Kag et al. 2020, (5), (8)); SiRNN with one inner step.

    ::

        g_0 = 0
        g_i = g_{i-1} + eta_i (phi(U s + W x_k + b) - alpha s),
        s = g_{i-1} + h_{k-1},    i = 1..K
        h_k = g_K

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    inner_steps
        K, the number of inner Euler steps.
    rank
        Rank of V H in U = alpha I + V H; None for a full U.
    form
        5 as above, or 8 with phi(U (U s + W x_k + b)); None is 8 with a rank, else 5.
    inner_start
        g_0: ``zero``, or ``previous`` for h_{k-1}.
    sign
        1, or -1 for s = g_{i-1} - h_{k-1} (remark after theorem 1).
    eta
        Initial step sizes, in (0, 1] (section 4.1).
    train_eta
        Trained step sizes: ``inner`` one per inner step, ``one`` for all, ``time`` one per inner
        step and time step, ``fixed`` none.
    length
        Largest number of time steps; required with ``train_eta='time'`` and only then.
    alpha
        Leak, positive; 1 in the paper's experiments.
    phi
        ``relu``, ``tanh`` or ``sigmoid``.
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
    see `Recurrent.forward`. The state is the tensor h; with ``train_eta='time'`` the tuple (h, k),
    where k counts the time steps so far. Each tensor is (num_layers * num_directions, batch,
    hidden_size).

    Weights of the first layer, in ``layer.cells.l0``: ``U`` (d, d), or ``V`` (d, rank) and ``H``
    (rank, d), ``W`` (d, p), ``b`` (d,), and the step sizes ``eta``: (K,) with
    ``train_eta='inner'``, (K, length) with ``'time'``, otherwise (1,).

    Examples
    --------
    >>> import torch
    >>> from longrnn import IncrementalRNN
    >>> rnn = IncrementalRNN(10, 20, num_layers=2)
    >>> output, h_n = rnn(torch.randn(5, 3, 10))
    >>> output.shape, h_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        inner_steps: int = 5,
        rank: int | None = None,
        form: int | None = None,
        inner_start: str = "zero",
        sign: int = 1,
        eta: float = 0.01,
        train_eta: str = "inner",
        length: int | None = None,
        alpha: float = 1.0,
        phi: str = "relu",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        hyper_parameters = {
            "inner_steps": inner_steps,
            "rank": rank,
            "form": form,
            "inner_start": inner_start,
            "sign": sign,
            "eta": eta,
            "train_eta": train_eta,
            "length": length,
            "alpha": alpha,
            "phi": phi,
        }
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            hyper_parameters,
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
            dtype=dtype,
        )


IncrementalRNNCell = one_step(IncrementalRNN)
