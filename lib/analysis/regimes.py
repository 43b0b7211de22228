r"""The adjoint metric and its regimes (dissertation, Section 3.4).

.. math::

    \log_{10} \frac{\|\lambda_1\|_2}{\|\lambda_T\|_2} \quad (3.6), \qquad
    \text{Regime} = \begin{cases}
        \text{stable} & -b < (3.6) < b \\
        \text{vanishing} & (3.6) \le -b \\
        \text{exploding} & (3.6) \ge b
    \end{cases} \quad (3.7)

The text takes for the border :math:`b` the largest metric it observed in attempts without numerical error.
"""

from collections.abc import Mapping
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lib.analysis.units import BATCH
from lib.plotting import ADJOINT_METRIC, histogram, legend_below
from lib.results.published import load_published

STABLE, VANISHED, EXPLODED, UNDEFINED = "stable", "vanished", "exploded", "undefined"
REGIMES = (STABLE, VANISHED, EXPLODED, UNDEFINED)

SMALLEST, LARGEST = -149 * float(np.log10(2)), 128 * float(np.log10(2))
"""log10 of the smallest and the largest positive number of single precision, 1.4e-45 and 3.4e38."""


def adjoint_metric(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the adjoint metric (3.6) from log10 norms.

    Parameters
    ----------
    first, last
        log10 of the summed norms of lambda_1 and lambda_T, of any equal shape; a norm of zero is -inf.

    Returns
    -------
    numpy.ndarray
        The same shape. -inf where only lambda_1 is zero, inf where only lambda_T is; nan where both are,
        because the ratio of two zeros is no number.
    """
    with np.errstate(invalid="ignore"):
        return np.subtract(first, last, dtype=float)


def float32_metric(
    first: np.ndarray, last: np.ndarray, examples: np.ndarray, *, batch_size: int = BATCH
) -> np.ndarray:
    """Return the adjoint metric (3.6) as a program in single precision would have stored it.

    The author's public program differentiates the mean loss of a batch in float32 and averages the norms over examples. A norm
    that float32 cannot hold is then zero or infinite; a first norm of zero counts as the smallest number there is, because
    the published counts show that such attempts were kept.

    Parameters
    ----------
    first, last
        log10 of the norms of lambda_1 and lambda_T, each of its own example's loss, summed over the examples.
    examples
        Examples summed over; a number, or one for each element.
    batch_size
        Examples in the batch whose mean loss is differentiated.

    Returns
    -------
    numpy.ndarray
        The same shape. At least `SMALLEST` less the last norm; inf where lambda_1 overflows or lambda_T is zero, -inf where
        lambda_T alone overflows, nan where both do.
    """
    # Simulated results count no examples: their norms are those of one.
    unit = np.log10(np.maximum(examples, 1) * batch_size)

    def stored(norm: np.ndarray) -> np.ndarray:
        norm = np.subtract(norm, unit, dtype=float)
        return np.where(norm > LARGEST, np.inf, np.where(norm < SMALLEST, -np.inf, norm))

    with np.errstate(invalid="ignore"):
        return np.maximum(stored(first), SMALLEST) - stored(last)


def regimes(metric: np.ndarray, border: float) -> np.ndarray:
    """Return the regime (3.7) of each value of the adjoint metric.

    Parameters
    ----------
    metric
        Adjoint metric, any shape.
    border
        The border b, in orders of magnitude, greater than zero.

    Returns
    -------
    numpy.ndarray
        The same shape: ``stable``, ``vanished``, ``exploded``, or ``undefined`` where the metric is nan.

    Raises
    ------
    ValueError
        `border` is not greater than zero.
    """
    if not border > 0:
        raise ValueError(f"border is {border}; expected a number of orders of magnitude above zero")
    metric = np.asarray(metric, float)
    conditions = [np.isnan(metric), metric <= -border, metric >= border]
    return np.select(conditions, [UNDEFINED, VANISHED, EXPLODED], STABLE)


def published_border() -> float:
    """Return the border of the text, drawn in its Figure 3.3."""
    return float(load_published("diss-fig-3.3")["border"].item())


def own_border(frame: pd.DataFrame) -> float:
    """Return the border by the text's own recipe: the largest metric of completed attempts.

    Parameters
    ----------
    frame
        Measured epochs with the columns ``status`` and ``metric``.

    Returns
    -------
    float
        nan where no completed attempt has a finite metric above zero: then there is nothing to reflect.
    """
    metric = frame.loc[frame["status"] == "completed", "metric"]
    metric = metric[np.isfinite(metric) & (metric > 0)]
    return float(metric.max()) if len(metric) else float("nan")


class Border(NamedTuple):
    """A border b of (3.7), and which column of a table of epochs it divides."""

    value: float
    metric: str = "metric"

    def regimes(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the regime of each row of `frame`."""
        return regimes(frame[self.metric], self.value)


def borders(frame: pd.DataFrame) -> dict[str, Border]:
    """Return the borders to report.

    Returns
    -------
    dict
        ``text``; ``own``, by the text's recipe, where these results have one; and ``float32``, the text's border for the
        metric as single precision would have stored it.
    """
    found = {"text": Border(published_border()), "own": Border(own_border(frame))}
    found["float32"] = Border(published_border(), "metric_float32")
    return {name: border for name, border in found.items() if border.value > 0}


def regime_shares(frame: pd.DataFrame, borders: Mapping[str, Border]) -> pd.DataFrame:
    """Return the share of each architecture's rows in each regime, by each border.

    Returns
    -------
    pandas.DataFrame
        ``border`` (its name), ``architecture``, ``regime``, ``epochs`` (rows) and ``share``.
    """
    names = frame["architecture"].drop_duplicates()
    index = pd.MultiIndex.from_product([names, REGIMES], names=["architecture", "regime"])
    tables = {}
    for name, border in borders.items():
        marked = frame.assign(regime=border.regimes(frame))
        found = marked.groupby(["architecture", "regime"]).size().reindex(index, fill_value=0)
        tables[name] = found.rename("epochs")
    table = pd.concat(tables, names=["border"]).reset_index()
    total = table.groupby(["border", "architecture"])["epochs"].transform("sum")
    return table.assign(share=table["epochs"] / total)


def compare_views(frame: pd.DataFrame) -> pd.DataFrame:
    """Describe the metric as it is and as single precision would have stored it.

    Returns
    -------
    pandas.DataFrame
        One row a view, ``true`` and ``float32``: ``rows``, those whose first norm is ``zero`` (-inf) or ``clamped`` to the
        smallest number, ``infinite`` and ``undefined`` ones, ``mean``, ``deviation`` and ``smallest`` of the finite ones, and the
        ``vanished`` share by the text's border.
    """
    rows = []
    for view, column in (("true", "metric"), ("float32", "metric_float32")):
        metric = frame[column].to_numpy()
        finite = metric[np.isfinite(metric)]
        # Both metrics have the same last norm: they differ where the first one was clamped, or overflowed.
        apart = np.isfinite(metric) & (metric > frame["metric"] + 1e-9)
        rows.append(
            {
                "view": view,
                "rows": len(metric),
                "zero": int(np.isneginf(metric).sum()),
                "clamped": int(apart.sum()),
                "infinite": int(np.isposinf(metric).sum()),
                "undefined": int(np.isnan(metric).sum()),
                "mean": finite.mean() if finite.size else np.nan,
                "deviation": finite.std() if finite.size else np.nan,
                "smallest": finite.min() if finite.size else np.nan,
                "vanished": float((metric <= -published_border()).mean()),
            }
        )
    return pd.DataFrame(rows)


def plot_regimes(frame: pd.DataFrame, borders: Mapping[str, Border]) -> tuple[Figure, pd.DataFrame]:
    """Draw Figure 3.3: the metric as single precision would have stored it, and as it is around the borders.

    Returns
    -------
    figure : Figure
    data : pandas.DataFrame
        What `lib.plotting.histogram` returns, and the ``panel``: ``float32`` or ``true``.
    """
    lines = [
        (sign * borders[name].value, tint, f"±{borders[name].value:.2f} ({name})")
        for name, tint in (("text", "#D55E00"), ("own", "#000000"))
        if name in borders
        for sign in (1, -1)
    ]
    window = 1.5 * max(position for position, *_ in lines)
    panels = {"float32": ("metric_float32", None), "true": ("metric", window)}
    figure, axes = plt.subplots(2, 1, figsize=(7.5, 7))
    drawn = []
    for ax, (name, (column, half)) in zip(axes, panels.items(), strict=True):
        part = histogram(ax, frame[column], lines=lines, window=half)
        drawn.append(part.assign(panel=name))
        ax.set(ylabel=f"{name}\nattempts × epochs (count)", xlabel=ADJOINT_METRIC)
    legend_below(figure)
    return figure, pd.concat(drawn, ignore_index=True)
