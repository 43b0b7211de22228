r"""Second-order behaviour *average task accuracy*: a linear model of each task over all of :math:`\mathcal H`.

.. math::

    \hat Y_\text{acc}^{(t)} ={}& \hat\beta_0^{(t)} + \hat\beta_\text{arch}^{(t)} \times \text{architecture}
      + \hat\beta_1^{(t)} \times \log(\text{learning rate}) + \hat\beta_2^{(t)} \times \log(\text{learning rate})^2 \\
      &+ \hat\beta_3^{(t)} \times \text{rec. dimension} + \hat\beta_4^{(t)} \times \text{training length}
      + \hat\tau_\text{arch}^{(t)} \times (\text{architecture} \times \log(\text{learning rate})) \\
      &+ \hat\gamma_\text{arch}^{(t)} \times (\text{architecture} \times \log(\text{learning rate})^2) + \epsilon^{(t)}
      \quad (1.11)

The logarithm is natural and recurrent dimension and training length are numbers, as far as the text tells: with them
as factors the balanced design's condition number (`balanced_condition_number`) would be far below those of its Table A3.
"""

import itertools

import numpy as np
import pandas as pd

from lib.analysis.attempts import TASK
from lib.analysis.first_order import REFERENCE
from lib.analysis.linear import Fits, fit_tasks
from lib.analysis.terms import Covariate, Model
from lib.results.published import load_published

MODEL = Model(
    equation="(1.11)",
    latex=r"\hat Y_\text{acc}^{(t)} = \hat\beta_0^{(t)} + \hat\beta_\text{arch}^{(t)} \times \text{architecture}"
    r" + \hat\beta_1^{(t)} \times \log(\text{learning rate}) + \hat\beta_2^{(t)} \times \log(\text{learning rate})^2"
    r" + \hat\beta_3^{(t)} \times \text{rec. dimension} + \hat\beta_4^{(t)} \times \text{training length}"
    r" + \hat\tau_\text{arch}^{(t)} \times (\text{architecture} \times \log(\text{learning rate}))"
    r" + \hat\gamma_\text{arch}^{(t)} \times (\text{architecture} \times \log(\text{learning rate})^2)"
    r" + \epsilon^{(t)}",
    formula="architecture + log_rate + log_rate_squared + width + training_length"
    " + architecture:log_rate + architecture:log_rate_squared",
    covariates={
        "log_rate": Covariate("log(learning rate)", "learning_rate", 2),
        "log_rate_squared": Covariate("log(learning rate)²", "learning_rate", 3),
        "width": Covariate("recurrent dimension", "width", 2),
        "training_length": Covariate("training length", "training_length", 2),
    },
)

INSIDE = "inside"
"""The top of a parabola lies within the learning rates that were tried."""


def fit_second_order(frame: pd.DataFrame, *, reference: str = REFERENCE) -> Fits:
    """Fit (1.11) to each task, with all attempts that have a task accuracy (`lib.analysis.accuracy.grade`)."""
    return fit_tasks(_with_logarithms(frame), MODEL, reference)


def balanced_condition_number() -> float:
    """Return the condition number of (1.11) over the text's design, were every attempt completed."""
    design = load_published("diss-tab-3.2").groupby("factor")["level"].agg(list)
    factors = ("architecture", "width", "learning_rate", "training_length")
    rows = pd.DataFrame(itertools.product(*(design[name] for name in factors)), columns=factors)
    rows[[*factors[1:]]] = rows[[*factors[1:]]].astype(float)
    rows = rows.assign(
        left_out="", task_accuracy=np.arange(len(rows)), dataset="", order="", noise=""
    )
    return float(fit_second_order(rows).summary["condition_number"].item())


def _with_logarithms(frame: pd.DataFrame) -> pd.DataFrame:
    logarithm = np.log(frame["learning_rate"].astype(float))
    return frame.assign(log_rate=logarithm, log_rate_squared=logarithm**2)


def best_learning_rates(fits: Fits, tried: np.ndarray) -> pd.DataFrame:
    r"""Return where each architecture's parabola over the learning rate has its top.

    .. math:: \log(\text{learning rate}) = -\frac{\beta_1 + \tau_\text{arch}}{2 (\beta_2 + \gamma_\text{arch})}

    Parameters
    ----------
    fits
        Fits of (1.11).
    tried
        The learning rates of the design.

    Returns
    -------
    pandas.DataFrame
        The task, ``architecture``, ``top`` (`INSIDE`, ``below`` or ``above`` the learning rates tried, ``none`` where the parabola
        opens upwards, ``unknown`` where a coefficient is empty) and ``learning_rate``, only where the top is inside.
    """
    line, curve = (MODEL.covariates[name].label for name in ("log_rate", "log_rate_squared"))
    table = fits.coefficients
    slopes = {}
    for term in (line, curve):
        own = table[table["term"] == term].set_index(list(TASK))["estimate"]
        added = table[table["term"] == f"architecture × {term}"]
        added = added.set_index([*TASK, "architecture"])["estimate"]
        whole = added + own.reindex(added.index.droplevel("architecture")).to_numpy()
        reference = (
            own.to_frame(fits.reference)
            .rename_axis("architecture", axis=1)
            .stack(future_stack=True)
        )
        slopes[term] = pd.concat([reference, whole])
    table = pd.DataFrame({"slope": slopes[line], "curvature": slopes[curve]})
    logarithm = -table["slope"] / (2 * table["curvature"].where(table["curvature"] < 0))
    low, high = np.log([np.min(tried), np.max(tried)])
    table["top"] = np.select(
        [
            table[["slope", "curvature"]].isna().any(axis=1),
            table["curvature"] >= 0,
            logarithm < low,
            logarithm > high,
        ],
        ["unknown", "none", "below", "above"],
        default=INSIDE,
    )
    table["learning_rate"] = np.exp(logarithm.where(table["top"] == INSIDE))
    return table.drop(columns=["slope", "curvature"]).reset_index()
