r"""The adjoint metric and its regimes (dissertation, Section 3.4).

.. math::

    \log_{10} \frac{\|\lambda_1\|_2}{\|\lambda_T\|_2} \quad (3.6), \qquad
    \text{Regime} = \begin{cases}
        \text{stable} & -b < (3.6) < b \\
        \text{vanishing} & (3.6) \le -b \\
        \text{exploding} & (3.6) \ge b
    \end{cases} \quad (3.7)

The paper takes for the border :math:`b` the largest metric it observed in attempts without
numerical error.
"""

import numpy as np

from study.results.published import load_published

BATCH = 32
"""Batch size of the author's public program, which differentiates the mean loss of a batch; here
an adjoint belongs to its own example's loss, as in Algorithm 2 of the paper. Its adjoints are so
many times smaller.
"""
KAPPA = BATCH**2
"""How many times smaller its coadjoint penalty (2.20) is, a sum of squares: a weight kappa here
does what so many times kappa does there.
"""
STABLE, VANISHED, EXPLODED, UNDEFINED = "stable", "vanished", "exploded", "undefined"
REGIMES = (STABLE, VANISHED, EXPLODED, UNDEFINED)
SMALLEST, LARGEST = -149 * float(np.log10(2)), 128 * float(np.log10(2))
"""log10 of the smallest and the largest positive number of single precision, 1.4e-45 and 3.4e38."""


def adjoint_metric(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the adjoint metric (3.6) from log10 norms: -inf where lambda_1 alone is zero, inf
    where lambda_T alone is, nan where both are.
    """
    with np.errstate(invalid="ignore"):
        return np.subtract(first, last, dtype=float)


def float32_metric(first: np.ndarray, last: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """Return the adjoint metric (3.6) as a program in single precision would have stored it.

    The author's public program differentiates the mean loss of a batch in float32 and averages the
    norms over examples. A norm that float32 cannot hold is then zero or infinite; a first norm of
    zero counts as the smallest number there is, because the published counts show that such
    attempts were kept.

    `first` and `last` are log10 of the norms of lambda_1 and lambda_T, each of its own example's
    loss, summed over `examples` (a number, or one for each element). The result is at least
    `SMALLEST` less the last norm; inf where lambda_1 overflows or lambda_T is zero, -inf where
    lambda_T alone overflows, nan where both do.
    """
    # Simulated results count no examples: their norms are those of one.
    unit = np.log10(np.maximum(examples, 1) * BATCH)

    def stored(norm: np.ndarray) -> np.ndarray:
        norm = np.subtract(norm, unit, dtype=float)
        return np.where(norm > LARGEST, np.inf, np.where(norm < SMALLEST, -np.inf, norm))

    with np.errstate(invalid="ignore"):
        return np.maximum(stored(first), SMALLEST) - stored(last)


def regimes(metric: np.ndarray, border: float) -> np.ndarray:
    """Return the regime (3.7) of each value of the adjoint metric; `border` is b, in orders of
    magnitude.

    Raises ValueError: `border` is not greater than zero.
    """
    if not border > 0:
        raise ValueError(f"border is {border}; expected a number of orders of magnitude above zero")
    metric = np.asarray(metric, float)
    conditions = [np.isnan(metric), metric <= -border, metric >= border]
    return np.select(conditions, [UNDEFINED, VANISHED, EXPLODED], STABLE)


def published_border() -> float:
    """Return the border of the paper, drawn in its Figure 3.3."""
    return float(load_published("diss-fig-3.3")["border"].item())
