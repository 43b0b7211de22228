r"""LEM: long expressive memory.

T. K. Rusch, S. Mishra, N. B. Erichson, M. W. Mahoney, *Long expressive memory for sequence
modeling*, ICLR 2022, equation 3:

.. math::
    \Delta t_n &= \Delta t \, \hat\sigma(W_1 y_{n-1} + V_1 u_n + b_1) \\
    \overline{\Delta t}_n &= \Delta t \, \hat\sigma(W_2 y_{n-1} + V_2 u_n + b_2) \\
    z_n &= (1 - \Delta t_n) \odot z_{n-1} + \Delta t_n \odot \tanh(W_z y_{n-1} + V_z u_n + b_z) \\
    y_n &= (1 - \overline{\Delta t}_n) \odot y_{n-1}
           + \overline{\Delta t}_n \odot \tanh(W_y z_n + V_y u_n + b_y) \tag{3}

Initialization: U(-1/sqrt(d), 1/sqrt(d)) for weights and biases (appendix A). If T_max is given, the
biases are initialized as in appendix B.3 (chrono): b_1 ~ -log U[1, T_max Delta t - 1], and the
other biases are zero. The hyperparameter search of appendix B.1 goes up to Delta t = 2; the bounds
of proposition 4.1 need Delta t <= 1.

The authors' program (github.com/tk-rusch/LEM) adds two bias vectors, each initialized this way,
where the equation has one. The initialization ``author`` therefore sets b to the sum of two such
vectors. It also doubles the learning rate of b: Adam moves each of the program's two vectors by one
step, so their sum moves by two.

Ablation of Table 9: both time steps are the constant Delta t. Then W_1, W_2, V_1, V_2, b_1 and b_2
have no effect and are left out. The table rounds the size of both models to 1k parameters.

Appendix D calls LEM and the LSTM equivalent for c = z, h = y, i = Delta t_n, f = 1 - Delta t_n,
o = 1 and Delta t = 1. This also needs W_y = I, V_y = 0 and b_y = 0, which the paper does not say.
"""

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import Start, uniform_fan
from longrnn.cells._keywords import FLAG, Number
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent


class LEMCore(Cell, name="lem"):
    """Long expressive memory."""

    title = "LEM"
    source = "Rusch et al. 2022, (3)"
    hyper_parameters = {
        "dt": Number(1.0, "(0, 2]"),  # largest time step
        # Smallest time step; steps are clipped to [clip, 1] (figure 6).
        "clip": Number(None, "(0, 1]"),
        "chrono": Number(None, "(0, inf)"),  # T_max in steps, for the chrono initialization
        "single_scale": FLAG,  # whether both time steps are the constant Delta t (Table 9)
    }
    Weights = "W W_y V b dt clip single_scale"
    states = 2

    @classmethod
    def conflict(cls, given: SimpleNamespace, d: int | None) -> str:
        if given.single_scale and (given.clip is not None or given.chrono is not None):
            return (
                "no clip and no chrono with a single scale, which has nothing to clip or initialize"
            )
        if given.chrono is not None and given.chrono * given.dt < 2:
            return "chrono * dt >= 2, an interval [1, chrono * dt - 1]"
        return ""

    def bias_conflict(self) -> str:
        if self.chrono is None:
            return ""
        return "with chrono, which sets the biases"

    def prepare(self) -> None:
        if self.single_scale:
            self.shapes = {
                "W": "d d",  # W_z on y
                "W_y": "d d",  # weights on z
                "V": "2d p",  # input weights, in the order z y
                "b": "2d",  # biases, same order
            }
        else:
            self.shapes = {
                "W": "3d d",  # W_1, W_2, W_z on y, in this order
                "W_y": "d d",  # weights on z
                "V": "4d p",  # input weights, in the order 1 2 z y
                "b": "4d",  # biases, same order
            }

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """Take one step, equation (3).

        Parameters
        ----------
        weights : tuple
            ``W`` (3d, d), with W_1, W_2 and W_z, ``W_y`` (d, d), ``V`` (4d, p) and ``b`` (4d,) in
            the order 1 2 z y, and ``dt``, ``clip`` and ``single_scale``. With a single scale the
            blocks 1 and 2 are absent.
        state : tuple of (batch, d)
            ``(y, z)`` at n - 1: the slow state, which is the output, and the fast state.
        u : (batch, p)
            The input u_n.

        Returns
        -------
        tuple of (batch, d)
            ``(y, z)`` at n.
        """
        W, W_y, V, b, dt, clip, single_scale = weights
        y, z = state
        if single_scale:
            from_u_z, from_u_y = (u @ V.T + b).chunk(2, dim=-1)
            dt_z = dt_y = dt  # Table 9
            a_z = y @ W.T + from_u_z
        else:
            *from_u, from_u_y = (u @ V.T + b).chunk(4, dim=-1)
            a_1, a_2, a_z = (y @ W.T + torch.cat(from_u, dim=-1)).chunk(3, dim=-1)
            dt_z = dt * torch.sigmoid(a_1)  # (3), first line
            dt_y = dt * torch.sigmoid(a_2)  # (3), second line
            if clip is not None:
                dt_z = dt_z.clamp(clip, 1)  # figure 6
                dt_y = dt_y.clamp(clip, 1)
        z = (1 - dt_z) * z + dt_z * torch.tanh(a_z)  # (3), third line
        y = (1 - dt_y) * y + dt_y * torch.tanh(z @ W_y.T + from_u_y)  # (3), fourth line
        return y, z

    def start_paper(self) -> None:
        super().start_paper()
        if self.chrono is not None:
            nn.init.zeros_(self.b)
            b_1 = self.b[: self.hidden_size]
            b_1.uniform_(1, self.chrono * self.dt - 1).log_().neg_()  # in [-log(T_max dt - 1), 0]

    def start_author(self) -> None:
        self.start_paper()
        if self.chrono is None:  # the program adds two such vectors
            second = torch.empty_like(self.b)
            uniform_fan(second, fan=self.hidden_size)
            self.b.add_(second)

    starts = {"author": Start(start_author, step_factors={"b": 2.0})}

    def time_steps(self, u: Tensor) -> tuple[Tensor, ...]:
        """Return the time steps of z and of y in (3).

        Parameters
        ----------
        u : (time, batch, p)
            The sequences, which the time steps depend on.

        Returns
        -------
        dt_z, dt_y : (time, batch, d)
            Delta t_n and its overlined counterpart. With a single scale both are (1,), with the
            number dt.
        """
        if self.single_scale:
            return u.new_tensor([self.dt]), u.new_tensor([self.dt])
        state = self.initial_state(u.shape[1])
        outputs, _ = self.run(u, state)
        y = torch.cat([state[0][None], outputs[:-1]])  # y_(n-1)
        d = self.hidden_size
        a = y @ self.W[: 2 * d].T + u @ self.V[: 2 * d].T + self.b[: 2 * d]
        steps = self.dt * torch.sigmoid(a)
        if self.clip is not None:
            steps = steps.clamp(self.clip, 1)
        return steps.split(d, dim=-1)


class LEM(Recurrent, core=LEMCore):
    """Long expressive memory (Rusch et al. 2022, equation 3).

    ::

        dt_n  = dt sigmoid(W_1 y_{n-1} + V_1 u_n + b_1)
        dt'_n = dt sigmoid(W_2 y_{n-1} + V_2 u_n + b_2)
        z_n = (1 - dt_n) * z_{n-1} + dt_n * tanh(W_z y_{n-1} + V_z u_n + b_z)
        y_n = (1 - dt'_n) * y_{n-1} + dt'_n * tanh(W_y z_n + V_y u_n + b_y)

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    dt
        Largest time step, in (0, 2]; proposition 4.1 needs at most 1.
    clip
        Smallest time step: both steps are clipped to [clip, 1] (figure 6).
    chrono
        T_max in steps for the chrono initialization (appendix B.3).
    single_scale
        Whether both time steps are the constant dt (Table 9).
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
    see `Recurrent.forward`. The state is the tuple (y, z): the slow state, which is the output,
    and the fast one. Its tensors are (num_layers * num_directions, batch, hidden_size).

    Weights of the first layer, in ``layer.cells.l0``: ``W`` (3d, d) in the order 1 2 z, ``W_y``
    (d, d), ``V`` (4d, p) and ``b`` (4d,) in the order 1 2 z y.

    Examples
    --------
    >>> import torch
    >>> from longrnn import LEM
    >>> lem = LEM(10, 20, num_layers=2)
    >>> output, (y_n, z_n) = lem(torch.randn(5, 3, 10))
    >>> output.shape, y_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        dt: float = 1.0,
        clip: float | None = None,
        chrono: float | None = None,
        single_scale: bool = False,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        hyper_parameters = {
            "dt": dt,
            "clip": clip,
            "chrono": chrono,
            "single_scale": single_scale,
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


LEMCell = one_step(LEM)
