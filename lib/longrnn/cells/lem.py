r"""LEM: long expressive memory.

T. K. Rusch, S. Mishra, N. B. Erichson, M. W. Mahoney, *Long expressive memory for sequence modeling*, ICLR 2022,
equation 3:

.. math::
    \Delta t_n &= \Delta t \, \hat\sigma(W_1 y_{n-1} + V_1 u_n + b_1) \\
    \overline{\Delta t}_n &= \Delta t \, \hat\sigma(W_2 y_{n-1} + V_2 u_n + b_2) \\
    z_n &= (1 - \Delta t_n) \odot z_{n-1} + \Delta t_n \odot \tanh(W_z y_{n-1} + V_z u_n + b_z) \\
    y_n &= (1 - \overline{\Delta t}_n) \odot y_{n-1}
           + \overline{\Delta t}_n \odot \tanh(W_y z_n + V_y u_n + b_y) \tag{3}

Initialisation: U(-1/sqrt(d), 1/sqrt(d)) for weights and biases (appendix A), or, given T_max, the chrono
initialisation of appendix B.3: all biases zero but b_1 ~ -log U[1, T_max Delta t - 1]. The search of appendix B.1 goes
up to Delta t = 2; the bounds of proposition 4.1 need Delta t <= 1. The authors' program (github.com/tk-rusch/LEM) has two
bias vectors, each drawn so, where the equation has one: the start ``author`` draws b as the sum of two, and asks for twice the
learning rate of b, since under Adam each of the two moves as far as one.

Ablation of Table 9: both time steps are the constant Delta t. W_1, W_2, V_1, V_2, b_1, b_2 then do nothing and are left
out; the table rounds both models to 1k parameters.

Appendix D calls LEM and the LSTM equivalent where c = z, h = y, i = Delta t_n, f = 1 - Delta t_n, o = 1 and Delta t = 1.
It also takes W_y = I, V_y = 0 and b_y = 0, which the text does not say.
"""

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from longrnn.cells._cell import Cell, State
from longrnn.cells._init import Start, uniform_fan
from longrnn.cells._keywords import FLAG, Number


class LEM(Cell, name="lem"):
    """Long expressive memory."""

    title = "LEM"
    source = "Rusch et al. 2022, (3)"
    hyper_parameters = {
        "dt": Number(1.0, "(0, 2]"),  # largest time step
        "clip": Number(None, "(0, 1]"),  # least time step, clipped to [clip, 1] (figure 6), if any
        "chrono": Number(None, "(0, inf)"),  # T_max in steps, for the chrono initialisation
        "single_scale": FLAG,  # whether both time steps are the constant Delta t (Table 9)
    }
    Weights = "W W_y V b dt clip single_scale"
    states = 2

    @classmethod
    def conflict(cls, given: SimpleNamespace, d: int | None) -> str:
        if given.single_scale and (given.clip is not None or given.chrono is not None):
            return (
                "no clip and no chrono with a single scale, which has nothing to clip or initialise"
            )
        if given.chrono is not None and given.chrono * given.dt < 2:
            return "chrono * dt >= 2, an interval [1, chrono * dt - 1]"
        return ""

    def prepare(self) -> None:
        one = self.single_scale
        self.shapes = {
            "W": "d d" if one else "3d d",  # W_1, W_2, W_z on y, in the order 1 2 z; W_z alone
            "W_y": "d d",  # weights on z
            "V": "2d p" if one else "4d p",  # input weights, in the order 1 2 z y; z y
            "b": "2d" if one else "4d",  # biases, same order
        }

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """One step; `state` is (y, z), the slow one, which is read out, and the fast one."""
        W, W_y, V, b, dt, clip, single_scale = weights
        y, z = state
        *from_u, from_u_y = (u @ V.T + b).chunk(2 if single_scale else 4, dim=-1)
        if single_scale:
            dt_z = dt_y = dt  # Table 9
            (a_z,) = from_u
            a_z = y @ W.T + a_z
        else:
            a_1, a_2, a_z = (y @ W.T + torch.cat(from_u, dim=-1)).chunk(3, dim=-1)
            dt_z = dt * torch.sigmoid(a_1)  # (3), first line
            dt_y = dt * torch.sigmoid(a_2)  # (3), second line
            if clip is not None:
                dt_z, dt_y = dt_z.clamp(clip, 1), dt_y.clamp(clip, 1)  # figure 6
        z = (1 - dt_z) * z + dt_z * torch.tanh(a_z)  # (3), third line
        y = (1 - dt_y) * y + dt_y * torch.tanh(z @ W_y.T + from_u_y)  # (3), fourth line
        return y, z

    def start_text(self) -> None:
        super().start_text()
        if self.chrono is not None:
            nn.init.zeros_(self.b)
            b_1 = self.b[: self.hidden_size]
            b_1.uniform_(1, self.chrono * self.dt - 1).log_().neg_()  # in [-log(T_max dt - 1), 0]

    def start_author(self) -> None:
        self.start_text()
        if self.chrono is None:  # the program's b is the sum of two such vectors
            second = torch.empty_like(self.b)
            uniform_fan(second, fan=self.hidden_size)
            self.b.add_(second)

    starts = {"author": Start(start_author, step_factors={"b": 2.0})}

    def time_steps(self, u: Tensor) -> tuple[Tensor, ...]:
        """Return the two time steps of (3), each (time, batch, d), or two numbers with a single scale."""
        if self.single_scale:
            return u.new_tensor([self.dt]), u.new_tensor([self.dt])
        state = self.initial_state(u.shape[1])
        y = torch.cat([state[0][None], self.run(u, state)[0][:-1]])  # y_(n-1)
        d = self.hidden_size
        a = y @ self.W[: 2 * d].T + u @ self.V[: 2 * d].T + self.b[: 2 * d]
        steps = self.dt * torch.sigmoid(a)
        return (steps if self.clip is None else steps.clamp(self.clip, 1)).split(d, dim=-1)
