r"""The coadjoint method: training on a loss plus a penalty on the adjoint states.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.6. What is minimised is the mean over
sequences of

.. math:: F(y, \hat{y}) + \kappa \, G(\lambda_1, \dots, \lambda_T)

where :math:`\lambda_t = -\partial F / \partial x_t` are the sequence's own adjoint states (2.21), through everything that
follows the state that is read out at time t. The weight :math:`\kappa` is not in (2.23) to (2.25); section 2.6.1 and appendix
A3.2 have it in front of G.

>>> import torch
>>> from lib.cells import make_cell
>>> cell, output = make_cell("rnn", 1, 8), torch.nn.Linear(8, 2)
>>> u, labels = torch.randn(20, 4, 1), torch.tensor([0, 1, 1, 0])
>>> def losses(x):
...     return torch.nn.functional.cross_entropy(output(x), labels, reduction="none")
>>> coadjoint_loss(cell, u, losses, kappa=10.0).total.backward()
"""

from lib.probes.coadjoint.loss import Penalised, coadjoint_loss, engine_names, scaled_variance
from lib.probes.coadjoint.orthogonality import soft_orthogonality

__all__ = [
    "Penalised",
    "coadjoint_loss",
    "engine_names",
    "scaled_variance",
    "soft_orthogonality",
]
