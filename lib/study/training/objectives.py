"""Training objectives: the loss of the task, with or without a penalty."""

from longrnn.probes.coadjoint import soft_orthogonality
from torch import Tensor, nn

from study.tasks import Task
from study.training.measures import penalized_loss
from study.training.scores import task_loss
from study.training.vmapped_pass import Objective


def make_objective(name: str, task: Task, weight: float = 0.0) -> Objective:
    r"""Return the objective with this name.

    =============== ===================================================================
    ``plain``       :math:`F`, the loss of the task
    ``coadjoint``   :math:`F + \kappa G`, G the scaled variance of the adjoints' norms
                    (dissertation, equation 2.20); for classifiers only
    ``orthogonal``  :math:`F + \beta (\|W'W - I\|_2^2 + \|WW' - I\|_2^2)`, the soft
                    orthogonal penalty (dissertation, Table 2.1), in the Frobenius norm
    =============== ===================================================================

    Parameters
    ----------
    name : str
        A name of the table.
    task : Task
        If its targets are classes, the loss is the cross entropy, else the squared error.
    weight : float
        :math:`\kappa` or :math:`\beta`; not used by the plain objective.

    Returns
    -------
    Objective
        Maps a model, and the inputs and targets of a batch, to a scalar tensor.
    """
    loss = task_loss(task)

    def plain(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return loss(model(inputs), targets)

    def coadjoint(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return penalized_loss(model, inputs, targets, weight).total

    def orthogonal(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return plain(model, inputs, targets) + weight * soft_orthogonality(model.cell.W)

    return {"plain": plain, "coadjoint": coadjoint, "orthogonal": orthogonal}[name]
