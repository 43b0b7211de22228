"""The soft orthogonal penalty, which the text sets beside the coadjoint method."""

import torch
from torch import Tensor


def soft_orthogonality(W: Tensor) -> Tensor:
    r"""Return :math:`\|W'W - I\|_2^2 + \|WW' - I\|_2^2` of square matrices.

    Parameters
    ----------
    W : (..., hidden, hidden)
        Recurrent weights; axes in front are networks.

    Returns
    -------
    (...)

    Notes
    -----
    L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, Table 2.1 (experiments 2.2 and 2.3). The text
    does not say which norm of a matrix it means; here it is Frobenius', whose two terms are equal for a
    square matrix. The text does not give the penalty's weight either.
    """
    identity = torch.eye(W.shape[-1], dtype=W.dtype, device=W.device)
    return sum((product - identity).square().sum((-2, -1)) for product in (W.mT @ W, W @ W.mT))
