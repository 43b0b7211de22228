r"""The exponential RNN: an orthogonal recurrence by the matrix exponential.

M. Lezcano-Casado, D. Martinez-Rubio, *Cheap orthogonal constraints in neural networks*, ICML 2019,
section 4 there:

.. math::
    x_t &= \sigma_b(B x_{t-1} + R u_t), \qquad B = B_0 \exp(S), \; S = -S^\top \\
    \sigma_b(a) &= \operatorname{sign}(a) \, \max(|a| + b, 0) \quad \text{(modReLU)}

PyTorch's own parametrisation stores d^2 numbers of which the d(d-1)/2 below the diagonal form S: the count
of Table 3.3. B_0 stays where B starts and S starts at zero: the dynamic trivialisation with K = infinity of M. Lezcano-Casado,
*Trivializations for gradient-based optimization on manifolds*, NeurIPS 2019. The exponential RNN of 2019, and the dissertation's
public program, have the static one, B_0 = I: the same matrices can be reached, by another gradient. Here it is the dynamic one everywhere,
which LEM's text trains ("DTRIV-infinity"), so that the architecture is one network in all tables.

As weights start, ``text`` lets B_0 hold rotations by angles from U(-pi, pi), after Henaff, Szlam and LeCun (2016), R is
Kaiming normal and b zero. ``author``, the dissertation's public program, is the Cayley initialisation of github.com/Lezcano/expRNN,
angles -tan(theta / 2) with theta from U(0, pi/2), and b from U(-0.01, 0.01), but R from N(0, 1/p^2).
With b = 0 the modReLU is the identity, but automatic differentiation takes its slope at 0 for 0: an input of zeros then
makes the adjoint exactly zero.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from longrnn.cells._cell import Cell, State


class ExponentialRNN(Cell, name="exponential"):
    """The exponential RNN; its matrix is orthogonal at every step of training."""

    title = "exponential RNN"
    source = "Lezcano-Casado and Martinez-Rubio 2019, section 4"
    shapes = {
        "B": "d d",  # orthogonal recurrent matrix
        "R": "d p",  # input weights
        "b": "d",  # bias of the modReLU
    }
    Weights = "B R b"

    def constrain(self) -> None:
        parametrizations.orthogonal(self, "B", orthogonal_map="matrix_exp")

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """One step; `state` is (x,)."""
        B, R, b = weights
        (x,) = state
        a = x @ B.T + u @ R.T
        return (torch.sign(a) * torch.relu(a.abs() + b),)  # modReLU

    def start_text(self) -> None:
        self._rotate(self.R.new_empty(self.hidden_size // 2).uniform_(-math.pi, math.pi))
        nn.init.kaiming_normal_(self.R)
        nn.init.zeros_(self.b)

    def start_author(self) -> None:
        theta = self.R.new_empty(self.hidden_size // 2).uniform_(0, math.pi / 2)
        self._rotate(-torch.tan(theta / 2))
        nn.init.kaiming_normal_(self.R)  # drawn over below; stored runs drew it, too
        nn.init.uniform_(self.b, -0.01, 0.01)
        nn.init.normal_(self.R, std=1 / self.input_size)

    def _rotate(self, angles: Tensor) -> None:
        """Let B have a rotation by each of the (d // 2,) angles on its diagonal: the exponential of 2x2 blocks (section 4)."""
        B = torch.eye(self.hidden_size, dtype=angles.dtype, device=angles.device)
        first = torch.arange(0, 2 * len(angles), 2)
        cos, sin = angles.double().cos().to(angles), angles.double().sin().to(angles)
        B[first, first] = B[first + 1, first + 1] = cos
        B[first + 1, first] = sin
        B[first, first + 1] = -sin
        self.B = B
