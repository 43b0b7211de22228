"""One gradient, computed in two ways: by Algorithm 2, and by automatic differentiation of a gradient."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from lib.cells import make_cell
from lib.probes.coadjoint import coadjoint_loss, scaled_variance
from lib.probes.coadjoint.algorithm2 import IDENTITY, TANH, Parameters, algorithm2

CLASSES = 3
NETWORKS = {"rnn": TANH, "linear_rnn": IDENTITY}


def two_gradients(
    name: str,
    sizes: tuple[int, int, int, int],
    seed: int,
    *,
    kappa: float = 2.0,
    printed: Sequence[str] = (),
) -> tuple[Parameters, Parameters]:
    """Return the gradient of a random network's penalised loss by Algorithm 2, and by double backward.

    Parameters
    ----------
    name
        One of `NETWORKS`.
    sizes
        Time steps, batch, recurrent dimension and inputs.
    seed
        Draws weights, inputs and labels.
    kappa
        Weight of the scaled variance (2.20).
    printed
        Formulas that Algorithm 2 takes as the text prints them, of `lib.probes.coadjoint.algorithm2.MISPRINTS`.
    """
    T, batch, hidden, inputs = sizes
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        cell = make_cell(name, inputs, hidden).double()
        output = torch.nn.Linear(hidden, CLASSES).double()
        u, labels = torch.randn(T, batch, inputs).double(), torch.randint(0, CLASSES, (batch,))
    weights = Parameters(cell.W, cell.R, cell.b, output.weight, output.bias)

    def loss(prediction: Tensor) -> Tensor:
        return F.cross_entropy(prediction, labels, reduction="none")

    by_algorithm, _ = algorithm2(
        Parameters(*(weight.detach() for weight in weights)),
        u,
        loss,
        lambda adjoints: kappa * scaled_variance(adjoints),
        sigma=NETWORKS[name],
        printed=printed,
    )
    total = coadjoint_loss(
        cell, u, lambda x: loss(output(x)), kappa=kappa, engine="reference"
    ).total
    found = torch.autograd.grad(total, weights, allow_unused=True, materialize_grads=True)
    return by_algorithm, Parameters(*found)
