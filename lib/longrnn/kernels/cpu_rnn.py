r"""Networks with one dense step on the CPU.

The basic RNN, the LU and the inverse RNN (Johnston 2024, (2.1) and (2.28)), the exponential RNN
(Lezcano-Casado and Martinez-Rubio 2019, section 4), the antisymmetric RNN (Chang et al. 2019, (9)),
the Lipschitz RNN (Erichson et al. 2021, (7)) and FastRNN (Kusupati et al. 2018, section 3.1) share
kernels, which are compiled for each of them (`longrnn.kernels._cpu_dense`). Arrays are (time,
batch, hidden). PyTorch's threads share the sequences (`longrnn.kernels._threads.run_networks`).
The engines of the LU and the inverse RNN are in `longrnn.kernels.cpu_lu_rnn`.

Forward pass, with the drive :math:`g_t = R u_t + b` computed beforehand for all times, from
:math:`y_t = \phi(M_t x_{t-1} + g_t)`:

.. math::
    x_t &= y_t & &\text{basic RNN, exponential RNN; LU and inverse RNN with }
        M_t \in \{W, W^{-1}\} \\
    x_t &= x_{t-1} + \epsilon (A x_{t-1} + y_t) & &\text{Lipschitz RNN; antisymmetric RNN
        without A} \\
    x_t &= \beta x_{t-1} + \alpha y_t & &\text{FastRNN}

where :math:`\phi` is tanh, FastRNN's own choice, or the exponential RNN's modReLU
:math:`\operatorname{sign}(a) \max(|a| + b, 0)`, whose drive has no b. :math:`M_t` is W except in
the LU and the inverse RNN, which interchange it with its inverse (definition 2.4 and (2.28) of
Johnston 2024).

Backward pass, with :math:`\alpha = \epsilon, \beta = 1` for the Euler steps, and
:math:`\alpha = 1, \beta = 0` where the state is :math:`y_t`:

.. math::
    \lambda_t = o_t + \beta \lambda_{t+1} + \alpha A^\top \lambda_{t+1}
                + M_{t+1}^\top \delta_{t+1}, \qquad
    \delta_t = \alpha \lambda_t \odot \phi'_t

where :math:`\phi'` follows from y: :math:`1 - y^2` for tanh, and :math:`[y \ne 0]` for the
exponential RNN, since its y has the sign of the argument. Then
:math:`\partial L / \partial g_t = \delta_t` and, one product each over the whole sequence,

.. math::
    \frac{\partial L}{\partial W} = \sum_t \delta_t x_{t-1}^\top, \qquad
    \frac{\partial L}{\partial A} = \epsilon \sum_t \lambda_t x_{t-1}^\top

The exponential RNN's b gets :math:`\sum_t \delta_t \odot \operatorname{sign}(y_t)`, and FastRNN's
:math:`\alpha, \beta` the sums of :math:`\lambda_t \odot y_t` and :math:`\lambda_t \odot x_{t-1}`,
kept per neuron and sequence in the loop. In the LU and the inverse RNN each of the two matrices
gets the sum over the steps that use it, as if it were independent of the other. PyTorch then
backpropagates both gradients to the parameters.

Stored: the outputs, which exist anyway, and y where it is not the state: computing it from the
outputs would lose digits to a difference. Recomputed: nothing.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from longrnn.kernels._cpu import engine
from longrnn.kernels._cpu_activations import PHI
from longrnn.kernels._cpu_dense import BASIC, EULER, FAST, LIPSCHITZ, MODRELU
from longrnn.kernels._cpu_dense_operator import DENSE
from longrnn.kernels._drive import Sources
from longrnn.kernels._runs import per_chain, scalars_like


class Network(NamedTuple):
    """What a network passes to the kernels."""

    form: int
    """The kind of network: `BASIC` and others."""
    W: Tensor
    """The matrix inside the activation."""
    R: Tensor
    """The input weights."""
    b: Tensor | None = None
    """The bias of the drive."""
    A: Tensor | None = None
    """The second matrix of the Lipschitz RNN."""
    numbers: tuple = ()
    """epsilon, or FastRNN's alpha and beta."""
    bias: Tensor | None = None
    """The modReLU's b."""


def _exponential(B, R, b):
    """Describe the exponential RNN of Lezcano-Casado and Martinez-Rubio 2019, section 4."""
    return Network(MODRELU, B, R, bias=b)


def _antisymmetric(W, R, b, epsilon):
    """Describe the antisymmetric RNN, equation (9) of Chang et al. 2019."""
    return Network(EULER, W, R, b, numbers=(epsilon,))


def _lipschitz(A, W, R, b, epsilon):
    """Describe the Lipschitz RNN, equation (7) of Erichson et al. 2021."""
    return Network(LIPSCHITZ, W, R, b, A=A, numbers=(epsilon,))


def _fastrnn(U, W, b, alpha, beta, phi):
    """Describe FastRNN, section 3.1 of Kusupati et al. 2018."""
    return Network(FAST + PHI[phi], U, W, b, numbers=(alpha, beta))


def _rnn(W, R, b):
    """Describe the basic RNN, equation (2.1) of Johnston 2024."""
    return Network(BASIC, W, R, b)


NETWORKS = {
    "rnn": _rnn,
    "exponential": _exponential,
    "antisymmetric": _antisymmetric,
    "lipschitz": _lipschitz,
    "fastrnn": _fastrnn,
}
"""Functions that make a `Network` of the weights of a cell, by the name of the cell."""
SLOWER_FROM = {"rnn": 512}
"""Hidden sizes from which PyTorch's own layer is faster on several threads. With 32 sequences it
takes 0.6 to 0.7 of the time on two threads, and 1.1 to 1.3 times as long on one."""


def _register(cell: str) -> None:
    @engine(cell, slower_from=SLOWER_FROM.get(cell), takes_networks=True)
    def run(weights, state, u):
        network = NETWORKS[cell](*weights)
        (x0,) = state
        numbers = None
        if network.form >= FAST:
            numbers = torch.stack(network.numbers)
        elif network.numbers:
            numbers = scalars_like(network.W, *network.numbers)
        bias = None
        if network.bias is not None:
            bias = per_chain(network.bias, x0)
        sources = Sources(u, network.R, network.b)
        g = sources.drive()
        matrices = network.W, network.A
        return DENSE(network.form, None, *matrices, numbers, g, bias, x0, sources=sources)


for _cell in NETWORKS:
    _register(_cell)
