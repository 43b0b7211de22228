r"""Linear models of task accuracy, fitted to each task separately (chapter 1).

First order, at each architecture's best configuration :math:`h^*`. The intercept is the mean of the
reference architecture, and every other coefficient is a difference of means:

.. math::

    \hat Y^{(t)}_\text{accuracy} = \hat\beta_0^{(t)}
      + \hat\beta_{\mathcal A}^{(t)} \times \mathcal A + \epsilon^{(t)} \quad (1.8)

Second order, over all configurations :math:`\mathcal H`:

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

Each attempt gives one row. So neither model has a random effect, and both are fitted by ordinary
least squares (statsmodels). The logarithm is natural, and recurrent dimension and training length
are numbers. The paper does not say so, but with factors the condition number of the balanced design
would be far below those of its Table A3. Coefficients that the attempts do not determine stay
empty, with the cause (`study.stats.terms`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from study.results.factorial import TASK
from study.stats.accuracy import entered
from study.stats.covariates import COVARIATES, absent_covariates, with_covariates
from study.stats.design import NothingToFit
from study.stats.linear import LinearFit, fit
from study.stats.terms import build_design
from study.stats.variances import KnownVarianceFit, fit_known_variance

REFERENCE = "antisymmetric"
"""The paper's reference architecture (its footnote 3)."""
EFFECTS = ("architecture", "hyperparameters", "architecture x hyperparameters")
"""Groups of coefficients of (1.11), as in Table 1.4."""
FIRST = ("architecture",)
"""Terms of (1.8)."""
SECOND = (
    "architecture",
    "log_rate",
    "log_rate_squared",
    "width",
    "training_length",
    "architecture:log_rate",
    "architecture:log_rate_squared",
)
"""Terms of (1.11)."""
_SUMMARY = [
    "attempts",
    "terms",
    "inestimable",
    "condition_number",
    "r2",
    "adj_r2",
    "sigma",
    "df_residual",
    "counting",
    "ceiling",
    "excess_sd",
    "refused",
]
_NUMBERS = ["estimate", "se", "df", "low", "high", "p_value", "robust_se"]
_ERRORS = [name for name in _NUMBERS if name != "estimate"]
_WEIGHTED = ["weighted", "weighted_se"]
_DESCRIBED = ["term", "architecture"]


class TaskFits(NamedTuple):
    """One model fitted to every task, as two tables; each begins with the columns of a task."""

    summary: pd.DataFrame
    """One row per task: ``attempts`` (entered), ``terms`` (estimated), ``inestimable`` (terms),
    ``condition_number``, ``r2``, ``adj_r2``, ``sigma`` (residual standard error),
    ``df_residual``, ``counting`` (standard error of a task accuracy because the test set is finite,
    root mean square), ``ceiling`` (the R² of a model whose residuals are nothing but that),
    ``excess_sd`` (standard deviation beyond the model and the finite test set), and ``refused``:
    why nothing was fitted, else empty.
    """
    coefficients: pd.DataFrame
    """One row per task and term: ``term``, ``architecture`` (empty if the term has none),
    ``estimate``, ``se``, ``df``, ``low`` and ``high`` (ends of the 95% interval), ``p_value``,
    ``robust_se`` (HC3), ``weighted`` and ``weighted_se`` (estimate and error with the binomial
    variance of every accuracy assumed known, `study.stats.variances.fit_known_variance`), and
    ``cause``: why a number is empty.
    """


def choose_reference(architectures: Sequence[str], wanted: str = REFERENCE) -> str:
    """Return the architecture that effects refer to.

    Parameters
    ----------
    architectures
        Architectures of the design.
    wanted
        One of them. If the paper's choice, `REFERENCE`, is missing from a smaller design, the first
        architecture is used instead.

    Returns
    -------
    str
        The architecture.

    Raises
    ------
    ValueError
        `wanted` is not an architecture of the design and not `REFERENCE`.
    """
    if wanted in architectures:
        return wanted
    if wanted == REFERENCE:
        return architectures[0]
    raise ValueError(
        f"reference_architecture is {wanted!r}; expected one of {', '.join(architectures)}"
    )


def fit_tasks(
    frame: pd.DataFrame, terms: tuple[str, ...], reference: str = REFERENCE, *, center: float = 1.0
) -> TaskFits:
    """Fit a model to each task by ordinary least squares.

    Parameters
    ----------
    frame
        Attempts with their task accuracy (`study.stats.accuracy.grade`). Those that are left out
        do not enter.
    terms
        Terms of the model, `FIRST` or `SECOND`.
    reference
        Architecture that the coefficients of the others refer to.
    center
        Learning rate whose logarithm counts as zero. It is 1 in the paper, whose coefficients of
        architectures are differences at a learning rate of 1, far outside of the design.

    Returns
    -------
    TaskFits
        The models.

    Raises
    ------
    ValueError
        `reference` is not an architecture of the design.
    NothingToFit
        No attempt entered, or no task can be fitted.
    """
    rows = _prepare(frame, reference, center)
    # A covariate that no task can estimate is not a term of the model. The intercept then stands
    # for its only level.
    absent = absent_covariates(terms, rows)
    groups = dict(iter(rows.groupby(list(TASK), observed=True, sort=False)))
    summaries = []
    fitted = []
    refused = []
    tasks = frame[list(TASK)].drop_duplicates().to_dict("records")
    for task in tasks:
        part = groups.get(tuple(task.values()), rows.iloc[:0])
        refusal = _why_refused(part)
        if refusal:
            summary = {"attempts": len(part), "terms": 0, "inestimable": 0, "refused": refusal}
            refused.append({**task, "cause": refusal})
        else:
            summary, table = _fit_task(part, terms, absent)
            fitted.append(table.assign(**task))
        summaries.append({**task, **summary})
    if not fitted:
        raise NothingToFit(f"no task can be fitted: {refused[0]['cause']}")
    coefficients = _join_tables(tasks, fitted, refused)
    return TaskFits(
        summary=pd.DataFrame(summaries)[[*TASK, *_SUMMARY]],
        coefficients=coefficients[[*TASK, *_DESCRIBED, *_NUMBERS, *_WEIGHTED, "cause"]],
    )


def _prepare(frame: pd.DataFrame, reference: str, center: float) -> pd.DataFrame:
    """Return the attempts that entered, with the columns that models need."""
    architectures = frame["architecture"].unique().tolist()
    if reference not in architectures:
        raise ValueError(
            f"the reference architecture is {reference!r}; expected one of "
            f"{', '.join(architectures)}"
        )
    levels = [reference, *(name for name in architectures if name != reference)]
    table = with_covariates(frame, {}, center=center)
    table["architecture"] = pd.Categorical(table["architecture"], levels)
    rows = entered(table)
    if rows.empty:
        raise NothingToFit("no attempt entered, so no accuracy can be modeled; train more")
    return rows


def _why_refused(rows: pd.DataFrame) -> str:
    """Return why the attempts of a task cannot be fitted, or an empty string."""
    if rows.empty:
        return "no attempt entered"
    if rows["task_accuracy"].nunique() == 1:
        return f"all {len(rows)} attempts have the same accuracy, so there is nothing to explain"
    return ""


def _fit_task(
    rows: pd.DataFrame, terms: tuple[str, ...], absent: Mapping[str, str]
) -> tuple[dict, pd.DataFrame]:
    """Return one line of `TaskFits.summary` and the lines of `TaskFits.coefficients`."""
    response = rows["task_accuracy"].to_numpy(float)
    design = build_design(terms, rows.reset_index(drop=True), response, absent=absent)
    least_squares = fit(design)
    variance = rows["sampling_error"].to_numpy(float) ** 2
    weighted = fit_known_variance(design, variance)
    numbers = least_squares.summary
    summary = {
        "attempts": numbers["attempts"],
        "terms": len(design.names) - len(design.changed),
        "inestimable": len(design.changed) + len(design.dropped),
        "condition_number": numbers["condition_number"],
        "r2": numbers["r2"],
        "adj_r2": numbers["r2_adjusted"],
        "sigma": numbers["residual_sd"],
        "df_residual": numbers["df_residual"],
        "counting": np.sqrt(variance.mean()),
        "ceiling": 1 - variance.mean() / response.var(),
        "excess_sd": np.sqrt(weighted.excess_variance),
        "refused": "",
    }
    return summary, _coefficients(least_squares, weighted)


def _coefficients(least_squares: LinearFit, weighted: KnownVarianceFit) -> pd.DataFrame:
    """Return all planned coefficients; those that are not estimable have a cause, no numbers."""
    design = least_squares.design
    causes = {**design.dropped, **design.changed}
    table = least_squares.coefficients.set_index("term")
    table = table.rename(columns={"standard_error": "se", "robust_error": "robust_se"})
    table = table.assign(weighted=weighted.estimates, weighted_se=weighted.errors)
    table = table.reindex(list(design.planned))[[*_NUMBERS, *_WEIGHTED]]
    table["cause"] = [causes.get(name, least_squares.unmeasured) for name in design.planned]
    table.loc[list(causes), [*_NUMBERS, *_WEIGHTED]] = np.nan
    if least_squares.unmeasured:
        table[_ERRORS] = np.nan
    described = pd.DataFrame([describe(name) for name in design.planned], columns=_DESCRIBED)
    return pd.concat([described, table.reset_index(drop=True)], axis=1)


def _join_tables(
    tasks: list[dict], fitted: list[pd.DataFrame], refused: list[dict]
) -> pd.DataFrame:
    """Return the coefficients of all tasks in the order of the design.

    A refused task has a row for each term, with the cause and without numbers.
    """
    terms = fitted[0][_DESCRIBED]
    tables = [*fitted, *(terms.assign(**refusal) for refusal in refused)]
    by_task = {tuple(table[list(TASK)].iloc[0]): table for table in tables}
    ordered = [by_task[tuple(task.values())] for task in tasks]
    return pd.concat(ordered, ignore_index=True)


def describe(name: str) -> tuple[str, str]:
    """Return a reader's name for a column of the model matrix, and the architecture in it.

    Parameters
    ----------
    name
        Name of the column.

    Returns
    -------
    term
        Name for readers.
    architecture
        The architecture, or an empty string.

    Examples
    --------
    >>> describe("architecture[lstm]:log_rate")
    ('architecture × log(learning rate)', 'lstm')
    """
    words = []
    architecture = ""
    for part in name.split(":"):
        factor, _, level = part.removesuffix("]").partition("[")
        architecture = architecture or level
        word = factor
        if factor in COVARIATES:
            word = COVARIATES[factor].label
        words.append(word)
    return " × ".join(words), architecture


def effect_of(coefficients: pd.DataFrame) -> pd.Series:
    """Return the effect that each coefficient belongs to.

    Parameters
    ----------
    coefficients
        Coefficients with their ``term``.

    Returns
    -------
    pandas.Series
        One of `EFFECTS` for each row. The intercept belongs to the reference architecture.
    """
    term = coefficients["term"]
    interaction = term.str.contains("×", regex=False)
    architecture = term.isin(["intercept", "architecture"])
    names = np.select([interaction, architecture], [EFFECTS[2], EFFECTS[0]], default=EFFECTS[1])
    return pd.Series(names, index=coefficients.index)
