r"""Penalties G on the adjoint states, as pure functions by name.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, section 2.5. A penalty maps the adjoints of a
mini-batch, (time, batch, hidden), to one number a sequence, (batch,). Beside the scaled variance (2.20) the text
suggests "different norms", "different measures of variability" and "weights"; all three are here. A further
penalty is one more function marked `penalty`, and `OfNorms` if it is a function of the norms.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Penalty = Callable[[Tensor], Tensor]
"""From adjoints (time, batch, hidden) to (batch,)."""

_PENALTIES: dict[str, Penalty] = {}


def penalty(name: str) -> Callable[[Penalty], Penalty]:
    """Return a decorator that registers a penalty under a name."""

    def add(function: Penalty) -> Penalty:
        _PENALTIES[name] = function
        return function

    return add


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


@dataclass(frozen=True)
class OfNorms:
    """A penalty that looks at the norms of the adjoints alone; an engine may know a shorter way to them.

    Attributes
    ----------
    function
        From norms (time, batch) to (batch,).
    order
        Order of the norm; the text's is 2, the Euclidean one.
    """

    function: Callable[[Tensor], Tensor]
    order: float = 2.0

    def __call__(self, adjoints: Tensor) -> Tensor:
        """Return the penalty of adjoints (time, batch, hidden), (batch,)."""
        return self.function(torch.linalg.vector_norm(adjoints, ord=self.order, dim=2))


def _variance(norms: Tensor) -> Tensor:
    return (norms - norms.mean(0)).square().sum(0)


scaled_variance = penalty("scaled_variance")(OfNorms(_variance))
r"""The scaled variance of the adjoints' norms over time:

.. math:: G = \sum_{t=1}^T \Bigl[ \|\lambda_t\|_2 - \frac{1}{T} \sum_{i=1}^T \|\lambda_i\|_2 \Bigr]^2 \tag{2.20}
"""

maximum_norm_variance = penalty("maximum_norm_variance")(OfNorms(_variance, order=torch.inf))
"""(2.20) with the maximum norm for the Euclidean one."""


@penalty("early_variance")
@OfNorms
def early_variance(norms: Tensor) -> Tensor:
    """Return (2.20) with weights that fall evenly from 2 - 1/T at t = 1 to 1/T at t = T, their mean 1.

    The adjoints of early inputs are those that vanish: their distance from the mean weighs most.
    """
    T = len(norms)
    odd = torch.arange(2 * T - 1, 0, -2, dtype=norms.dtype, device=norms.device)
    return (odd / T) @ (norms - norms.mean(0)).square()


@penalty("absolute_deviation")
@OfNorms
def absolute_deviation(norms: Tensor) -> Tensor:
    """Return the sum over time of the norms' absolute deviations from their mean."""
    return (norms - norms.mean(0)).abs().sum(0)


@penalty("successive_differences")
@OfNorms
def successive_differences(norms: Tensor) -> Tensor:
    """Return the mean square of the norms' differences from one time to the next: (2.15), of the adjoints.

    The text, 2.4.4, calls the method that regularises the backward dynamics so a specific case of its own.
    """
    return norms.diff(dim=0).square().sum(0) / len(norms)
