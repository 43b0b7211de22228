r"""The adjoint metric and its regimes (dissertation, Section 3.4).

.. math::

    \log_{10} \frac{\|\lambda_1\|_2}{\|\lambda_T\|_2} \quad (3.6), \qquad
    \text{Regime} = \begin{cases}
        \text{stable} & -b < (3.6) < b \\
        \text{vanishing} & (3.6) \le -b \\
        \text{exploding} & (3.6) \ge b
    \end{cases} \quad (3.7)

The paper's threshold :math:`b` is the largest metric that it observed in attempts without
numerical error.
"""

import numpy as np

from study.results.published import load_published

AUTHORS_BATCH_SIZE = 32
"""Batch size of the author's public program. It differentiates the mean loss of a batch, so its
adjoints are smaller than ours by this factor: here an adjoint belongs to the loss of its own
example, as in Algorithm 2 of the paper.
"""
KAPPA_TO_AUTHORS = AUTHORS_BATCH_SIZE**2
"""The program's coadjoint penalty (2.20), a sum of squares, is smaller by this factor. A weight
kappa here has the effect of `KAPPA_TO_AUTHORS` times kappa there.
"""
STABLE = "stable"
VANISHED = "vanished"
EXPLODED = "exploded"
UNDEFINED = "undefined"
REGIMES = (STABLE, VANISHED, EXPLODED, UNDEFINED)
LOG10_SMALLEST = -149 * float(np.log10(2))
"""log10 of the smallest positive number of single precision, 1.4e-45."""
LOG10_LARGEST = 128 * float(np.log10(2))
"""log10 of the largest number of single precision, 3.4e38."""


def adjoint_metric(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the adjoint metric (3.6).

    Parameters
    ----------
    first
        log10 of the norm of lambda_1, any shape.
    last
        log10 of the norm of lambda_T, same shape.

    Returns
    -------
    numpy.ndarray
        Orders of magnitude: -inf if only lambda_1 is zero, inf if only lambda_T is, nan if both
        are.
    """
    with np.errstate(invalid="ignore"):
        return np.subtract(first, last, dtype=float)


def float32_metric(first: np.ndarray, last: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """Return the adjoint metric (3.6) as a program in single precision would have stored it.

    The author's public program differentiates the mean loss of a batch in float32 and averages the
    norms over examples. A norm outside the range of float32 becomes zero or infinite. If the first
    norm is zero, it counts as the smallest number of float32, because the published counts show
    that such attempts were kept.

    Parameters
    ----------
    first
        log10 of the norm of lambda_1, where each adjoint belongs to the loss of its own example,
        summed over `examples`; any shape.
    last
        log10 of the norm of lambda_T, in the same units.
    examples
        Number of examples, a number or an array of the same shape. Simulated results have 0, and
        their norms are those of one example.

    Returns
    -------
    numpy.ndarray
        Orders of magnitude, at least `LOG10_SMALLEST` minus the last norm. The metric is inf if
        lambda_1 overflows or lambda_T is zero, -inf if only lambda_T overflows, and nan if both
        overflow.
    """
    scale = np.log10(np.maximum(examples, 1) * AUTHORS_BATCH_SIZE)
    with np.errstate(invalid="ignore"):
        stored_first = _as_float32(np.subtract(first, scale, dtype=float))
        stored_last = _as_float32(np.subtract(last, scale, dtype=float))
        return np.maximum(stored_first, LOG10_SMALLEST) - stored_last


def _as_float32(norm: np.ndarray) -> np.ndarray:
    """Return log10 norms, infinite if float32 cannot hold the norm."""
    norm = np.where(norm > LOG10_LARGEST, np.inf, norm)
    return np.where(norm < LOG10_SMALLEST, -np.inf, norm)


def regimes(metric: np.ndarray, threshold: float) -> np.ndarray:
    """Return the regime (3.7) of each value of the adjoint metric.

    Parameters
    ----------
    metric
        The adjoint metric, any shape.
    threshold
        The threshold b, in orders of magnitude.

    Returns
    -------
    numpy.ndarray
        One of `REGIMES` for each value; `UNDEFINED` for nan.

    Raises
    ------
    ValueError
        `threshold` is not greater than zero.
    """
    if not threshold > 0:
        raise ValueError(
            f"threshold is {threshold}; expected a number of orders of magnitude above zero"
        )
    metric = np.asarray(metric, float)
    conditions = [np.isnan(metric), metric <= -threshold, metric >= threshold]
    return np.select(conditions, [UNDEFINED, VANISHED, EXPLODED], STABLE)


def published_threshold() -> float:
    """Return the paper's threshold, drawn in its Figure 3.3.

    Returns
    -------
    float
        Orders of magnitude.
    """
    return float(load_published("diss-fig-3.3")["border"].item())
