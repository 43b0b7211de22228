r"""Penalties G on the adjoint states, as pure functions by name.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.5. A penalty maps the adjoints of a
mini-batch, (time, batch, hidden), to one number a sequence, (batch,). Beside the scaled variance (2.20) the text
suggests "different norms", "different measures of variability" and "weights"; all three are here. A further
penalty is one more function marked `penalty`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Penalty = Callable[[Tensor], Tensor]

_PENALTIES: dict[str, Penalty] = {}


def penalty(function: Penalty) -> Penalty:
    """Register a penalty under the function's name."""
    _PENALTIES[function.__name__] = function
    return function


def penalty_names() -> list[str]:
    """Return the names of all penalties, in alphabetical order."""
    return sorted(_PENALTIES)


def find_penalty(which: str | Penalty) -> Penalty:
    """Return the penalty of that name, or the function itself; raises `ValueError` listing the known names."""
    if callable(which):
        return which
    if which not in _PENALTIES:
        raise ValueError(f"unknown penalty {which!r}; known: {', '.join(penalty_names())}")
    return _PENALTIES[which]


@penalty
def scaled_variance(
    adjoints: Tensor, *, order: float = 2.0, weights: Tensor | None = None
) -> Tensor:
    r"""Return the scaled variance of the adjoints' norms over time (2.20).

    .. math:: G = \sum_{t=1}^T w_t \Bigl[ \|\lambda_t\| - \frac{1}{T} \sum_{i=1}^T \|\lambda_i\| \Bigr]^2

    Parameters
    ----------
    adjoints : (time, batch, hidden)
        The adjoint states; their sign does not matter.
    order
        Order of the norm; the text's is 2.
    weights : (time,), optional
        Weights w_t of the times; the text's are 1.

    Returns
    -------
    (batch,)
    """
    norms = torch.linalg.vector_norm(adjoints, ord=order, dim=2)
    squares = (norms - norms.mean(0)).square()
    return squares.sum(0) if weights is None else weights @ squares


@penalty
def early_variance(adjoints: Tensor) -> Tensor:
    """Return (2.20) with weights that fall evenly from 2 - 1/T at t = 1 to 1/T at t = T, their mean 1.

    The adjoints of early inputs are those that vanish: their distance from the mean weighs most.
    """
    T = len(adjoints)
    odd = torch.arange(2 * T - 1, 0, -2, dtype=adjoints.dtype, device=adjoints.device)
    return scaled_variance(adjoints, weights=odd / T)


@penalty
def maximum_norm_variance(adjoints: Tensor) -> Tensor:
    """Return (2.20) with the maximum norm for the Euclidean one."""
    return scaled_variance(adjoints, order=torch.inf)


@penalty
def absolute_deviation(adjoints: Tensor) -> Tensor:
    """Return the sum over time of the norms' absolute deviations from their mean."""
    norms = torch.linalg.vector_norm(adjoints, dim=2)
    return (norms - norms.mean(0)).abs().sum(0)


@penalty
def successive_differences(adjoints: Tensor) -> Tensor:
    """Return the mean square of the norms' differences from one time to the next: (2.15), of the adjoints.

    The text, 2.4.4, calls the method that regularises the backward dynamics so a specific case of its own.
    """
    norms = torch.linalg.vector_norm(adjoints, dim=2)
    return norms.diff(dim=0).square().sum(0) / len(norms)
