r"""Linear models of task accuracy, fitted to each task on its own by ordinary least squares
(chapter 1).

First order, at each architecture's :math:`h^*`; the intercept is the mean of the reference
architecture and every other coefficient a difference of means:

.. math::

    \hat Y^{(t)}_\text{accuracy} = \hat\beta_0^{(t)}
      + \hat\beta_{\mathcal A}^{(t)} \times \mathcal A + \epsilon^{(t)} \quad (1.8)

Second order, over all of :math:`\mathcal H`:

.. math::

    \hat Y_\text{acc}^{(t)} ={}& \hat\beta_0^{(t)}
      + \hat\beta_\text{arch}^{(t)} \times \text{architecture}
      + \hat\beta_1^{(t)} \times \log(\text{learning rate})
      + \hat\beta_2^{(t)} \times \log(\text{learning rate})^2 \\
      &+ \hat\beta_3^{(t)} \times \text{rec. dimension}
      + \hat\beta_4^{(t)} \times \text{training length}
      + \hat\tau_\text{arch}^{(t)} \times (\text{architecture} \times \log(\text{learning rate})) \\
      &+ \hat\gamma_\text{arch}^{(t)} \times
      (\text{architecture} \times \log(\text{learning rate})^2) + \epsilon^{(t)} \quad (1.11)

The logarithm is natural and recurrent dimension and training length are numbers, as far as the
paper tells: with them as factors the balanced design's condition number would be far below those of
its Table A3. Coefficients that the attempts at hand cannot tell stay empty, with the cause beside
them (`study.stats.design`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from study.stats.accuracy import entered
from study.stats.attempts import TASK
from study.stats.design import COVARIATES, NothingToFit, absences, design, with_covariates
from study.stats.linear import Fit, fit, with_known_variance

REFERENCE = "antisymmetric"
"""The paper's reference architecture (its footnote 3)."""
EFFECTS = ("architecture", "hyperparameters", "architecture x hyperparameters")
"""Groups of coefficients of (1.11), as Table 1.4 has them."""
_SUMMARY = ["attempts", "terms", "inestimable", "condition_number", "r2", "adj_r2", "sigma"]
_SUMMARY += ["df_residual", "counting", "ceiling", "luck", "refused"]
_NUMBERS = ["estimate", "se", "df", "low", "high", "p_value", "robust_se"]
_WEIGHTED = ["weighted", "weighted_se"]
_DESCRIBED = ["term", "architecture"]


FIRST = ("architecture",)
"""Terms of (1.8)."""
SECOND = ("architecture", "log_rate", "log_rate_squared", "width", "training_length")
SECOND += ("architecture:log_rate", "architecture:log_rate_squared")
"""Terms of (1.11)."""


class TaskFits(NamedTuple):
    """One model fitted to every task, as two tables; each begins with the columns of a task."""

    summary: pd.DataFrame
    """One row per task: ``attempts`` (entered), ``terms`` (estimated), ``inestimable`` (terms),
    ``condition_number``, ``r2``, ``adj_r2``, ``sigma`` (residual standard error),
    ``df_residual``, ``counting`` (standard error of a task accuracy because it was counted on a
    finite test set, root mean square), ``ceiling`` (the R² of a model that leaves nothing but
    that), ``luck`` (standard deviation beyond both the model and counting), and ``refused``: why
    nothing was fitted, else empty.
    """
    coefficients: pd.DataFrame
    """One row per task and term: ``term``, ``architecture`` (empty where the term has none),
    ``estimate``, ``se``, ``df``, ``low``, ``high`` (ends of the 95% interval), ``p_value``,
    ``robust_se`` (HC3), ``weighted`` and ``weighted_se`` (estimate and error with the binomial
    variance of every accuracy as known, `study.stats.linear.with_known_variance`), and
    ``cause``: why a number is empty.
    """


def choose_reference(architectures: Sequence[str], wanted: str = REFERENCE) -> str:
    """Return the architecture that effects refer to.

    Parameters
    ----------
    architectures : sequence of str
        Architectures of the design.
    wanted : str
        One of them. The paper's choice, `REFERENCE`, may be missing from a smaller design; then the
        first architecture takes its place.

    Raises
    ------
    ValueError
        If any other name is not an architecture of the design.
    """
    if wanted in architectures:
        return wanted
    if wanted == REFERENCE:
        return architectures[0]
    raise ValueError(
        f"reference_architecture is {wanted!r}; expected one of {', '.join(architectures)}"
    )


def fit_tasks(
    frame: pd.DataFrame, terms: tuple[str, ...], reference: str = REFERENCE, *, centre: float = 1.0
) -> TaskFits:
    """Fit a model of these `terms` to each task by ordinary least squares, with the attempts of
    `frame` (`study.stats.accuracy.grade`) that are not left out.

    Coefficients of other architectures refer to `reference`. `centre` is the learning rate whose
    logarithm counts as zero: 1 in the paper's parametrisation, whose coefficients of architectures
    are differences at a learning rate of 1, far outside the design. Raises ValueError: `reference`
    is no architecture of the design, no attempt entered, or no task at all can be fitted.
    """
    known = frame["architecture"].unique().tolist()
    if reference not in known:
        raise ValueError(
            f"the reference architecture is {reference!r}; expected one of {', '.join(known)}"
        )
    every = with_covariates(frame, {}, centre=centre)
    levels = [reference, *(name for name in known if name != reference)]
    rows = entered(every.assign(architecture=pd.Categorical(every["architecture"], levels)))
    if rows.empty:
        raise NothingToFit("no attempt entered, so there is no accuracy to model; train more")
    # What no task can tell is no term of the model: the intercept then stands for the only level
    # there is.
    absent = absences(terms, rows)
    by_task = dict(iter(rows.groupby(list(TASK), observed=True, sort=False)))
    summaries, coefficients = [], {}
    tasks = list(frame[list(TASK)].drop_duplicates().itertuples(index=False, name=None))
    for task in tasks:
        about = dict(zip(TASK, task, strict=True))
        part = by_task.get(task, rows.iloc[:0])
        if refused := _refusal(part):
            none = {"attempts": len(part), "terms": 0, "inestimable": 0, "refused": refused}
            summaries.append({**about, **none})
            continue
        response = part["task_accuracy"].to_numpy(float)
        made = design(terms, part.reset_index(drop=True), response, absent=absent)
        found, variance = fit(made), part["sampling_error"].to_numpy(float) ** 2
        weighted, error, luck = with_known_variance(made, variance)
        coefficients[task] = _coefficients(found, weighted, error).assign(**about)
        told = {
            "terms": len(found.coefficients) - len(made.changed),
            "inestimable": len(made.changed) + len(made.dropped),
            "counting": np.sqrt(variance.mean()),
            "ceiling": 1 - variance.mean() / response.var(),
            "luck": np.sqrt(luck),
        }
        summaries.append({**about, **found.summary, **told, "refused": ""})
    if not coefficients:
        raise NothingToFit(f"no task can be fitted: {summaries[0]['refused']}")
    # A task that was refused has a row for each term, with the cause and without numbers.
    described = next(iter(coefficients.values()))[_DESCRIBED]
    for task, about in zip(tasks, summaries, strict=True):
        empty = described.assign(cause=about["refused"], **dict(zip(TASK, task, strict=True)))
        coefficients.setdefault(task, empty)
    names = {"r2_adjusted": "adj_r2", "residual_sd": "sigma"}
    table = pd.concat([coefficients[task] for task in tasks], ignore_index=True)
    return TaskFits(
        summary=pd.DataFrame(summaries).rename(columns=names)[[*TASK, *_SUMMARY]],
        coefficients=table[[*TASK, *_DESCRIBED, *_NUMBERS, *_WEIGHTED, "cause"]],
    )


def _refusal(rows: pd.DataFrame) -> str:
    if rows.empty:
        return "no attempt entered"
    if rows["task_accuracy"].nunique() == 1:
        return f"all {len(rows)} attempts have the same accuracy, so there is nothing to explain"
    return ""


def _coefficients(found: Fit, weighted: np.ndarray, error: np.ndarray) -> pd.DataFrame:
    """Return the coefficients with a reader's names, and those that cannot be told without
    numbers.
    """
    lost = {**found.design.dropped, **found.design.changed}
    order = [*found.design.planned]
    table = found.coefficients.set_index("term").rename(
        columns={"standard_error": "se", "robust_error": "robust_se"}
    )
    table = table.assign(weighted=weighted, weighted_se=error)
    table = table.reindex(order)[[*_NUMBERS, *_WEIGHTED]]
    table["cause"] = [lost.get(name, found.unmeasured) for name in order]
    table.loc[[*lost], [*_NUMBERS, *_WEIGHTED]] = np.nan
    if found.unmeasured:
        table[_NUMBERS[1:]] = np.nan
    described = pd.DataFrame([describe(name) for name in order], columns=_DESCRIBED)
    return pd.concat([described, table.reset_index(drop=True)], axis=1)


def describe(name: str) -> tuple[str, str]:
    """Return how a reader calls a column of the model matrix, and the architecture in it, if any.

    >>> describe("architecture[lstm]:log_rate")
    ('architecture × log(learning rate)', 'lstm')
    """
    words, architecture = [], ""
    for part in name.split(":"):
        factor, _, level = part.removesuffix("]").partition("[")
        architecture = architecture or level
        words.append(COVARIATES[factor].label if factor in COVARIATES else factor)
    return " × ".join(words), architecture


def effect_of(coefficients: pd.DataFrame) -> pd.Series:
    """Return to which of `EFFECTS` each coefficient belongs; the intercept is the reference
    architecture's.
    """
    term = coefficients["term"]
    crossed = term.str.contains("×", regex=False)
    main = term.isin(["intercept", "architecture"])
    names = np.select([crossed, main], [EFFECTS[2], EFFECTS[0]], default=EFFECTS[1])
    return pd.Series(names, index=coefficients.index)
