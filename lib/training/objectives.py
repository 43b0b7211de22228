r"""What a step of training minimises.

=============== ================================================================================================================
``plain``       F, the loss of the task
``coadjoint``   :math:`F + \kappa G`, G the scaled variance of the adjoints' norms (2.20), of a classifier
``orthogonal``  :math:`F + \beta (\|W'W - I\|_2^2 + \|WW' - I\|_2^2)`, the soft orthogonal penalty of Table 2.1
=============== ================================================================================================================

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, chapter 2.
"""

import torch
from torch import Tensor, nn

from lib.probes.coadjoint import soft_orthogonality
from lib.probes.measures import penalised
from lib.probes.scores import task_loss
from lib.tasks import Part, Task
from lib.training.fit import Objective
from lib.training.model import Model

WEIGHTS = {"plain": "", "coadjoint": "kappa", "orthogonal": "orthogonality"}
"""The weight that each objective needs, by the objective's name."""


def objective(name: str, task: Task, weight: float = 0.0) -> Objective:
    """Return what a step minimises, by its name among `WEIGHTS`; `weight` is its kappa or beta."""
    loss = task_loss(task)

    def plain(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return loss(model(inputs), targets)

    def coadjoint(model: Model, inputs: Tensor, targets: Tensor) -> Tensor:
        return penalised(model, inputs, targets, weight).total

    def orthogonal(model: Model, inputs: Tensor, targets: Tensor) -> Tensor:
        return plain(model, inputs, targets) + weight * soft_orthogonality(model.cell.W)

    return {"plain": plain, "coadjoint": coadjoint, "orthogonal": orthogonal}[name]


@torch.no_grad()
def last_states(model: Model, part: Part, batch_size: int = 500) -> Part:
    """Return the last states that a network reaches, (n, hidden), in place of the inputs: what a reservoir's head learns from."""
    batches = torch.from_numpy(part.inputs).split(batch_size)
    states = [model.seen(model.cell(model.drive(batch))[1]) for batch in batches]
    return Part(torch.cat(states).numpy(), part.targets)
