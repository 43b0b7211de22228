"""A linear model of task accuracy, fitted to each task on its own by ordinary least squares.

Terms that the attempts at hand cannot tell stay empty, with the cause beside them (`lib.analysis.estimable`).
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from patsy import dmatrix
from statsmodels.regression.linear_model import OLS, RegressionResults

from lib.analysis.accuracy import entered
from lib.analysis.attempts import TASK
from lib.analysis.estimable import estimable, independent
from lib.analysis.terms import Model, absence, absent_covariates, cause, describe

CONFIDENCE = 0.95
_EXACT = 1e-10
"""Residual standard error, in units of task accuracy, below which a fit is exact but for rounding."""
_NUMBERS = ["estimate", "se", "df", "low", "high", "p_value"]


@dataclass(frozen=True)
class Fits:
    """One model fitted to every task, as three tables; each begins with the columns of a task."""

    model: Model
    reference: str
    """Architecture that the others are compared with."""
    summary: pd.DataFrame
    """One row per task: ``attempts`` (entered), ``terms`` (estimated), ``inestimable`` (terms), ``condition_number``,
    ``r2``, ``adj_r2``, ``sigma`` (residual standard error), ``df_residual``, and ``refused``: why nothing was
    fitted, else empty."""
    coefficients: pd.DataFrame
    """One row per task and term: ``term``, ``architecture`` (empty where the term has none), ``estimate``, ``se``,
    ``df``, ``low``, ``high`` (ends of the 95% interval), ``p_value``, and ``cause``: why a number is empty."""
    residuals: pd.DataFrame
    """One row per attempt that was fitted: ``architecture``, ``fitted``, ``residual``, ``standardised``."""


def fit_tasks(frame: pd.DataFrame, model: Model, reference: str) -> Fits:
    """Fit `model` to each task by ordinary least squares.

    Parameters
    ----------
    frame
        All attempts of the design, with the columns of the formula, ``task_accuracy`` and ``left_out``
        (`lib.analysis.accuracy.grade`); those left out are not fitted.
    model
        What to fit.
    reference
        Architecture that the coefficients of the others refer to.

    Raises
    ------
    ValueError
        `reference` is no architecture of the design, no attempt entered, or no task at all can be fitted.
    """
    known = frame["architecture"].unique().tolist()
    if reference not in known:
        raise ValueError(
            f"the reference architecture is {reference!r}; expected one of {', '.join(known)}"
        )
    rows = entered(frame)
    if rows.empty:
        raise ValueError(
            "no attempt entered, so there is no accuracy to model; train more attempts"
        )
    levels = [reference, *(name for name in known if name != reference)]
    rows = rows.assign(architecture=pd.Categorical(rows["architecture"], levels))
    # What no task can tell is no term of the model: the intercept then stands for the only level there is.
    absent = absent_covariates(model, rows)
    by_task = dict(iter(rows.groupby(list(TASK), observed=True, sort=False)))
    fitter = _TaskFitter(model, reference, absent)
    tasks = frame[list(TASK)].drop_duplicates().itertuples(index=False, name=None)
    parts = [fitter.fit(task, by_task.get(task, rows.iloc[:0])) for task in tasks]
    summaries, coefficients, residuals = zip(*parts, strict=True)
    summary = pd.DataFrame(summaries)
    if summary["refused"].ne("").all():
        raise ValueError(f"no task can be fitted by {model.equation}: {summary['refused'].iloc[0]}")
    terms = next(part for part in coefficients if len(part))[["term", "architecture"]]
    return Fits(
        model=model,
        reference=reference,
        summary=summary,
        coefficients=pd.concat(
            [
                part if len(part) else _no_coefficients(about, terms)
                for part, about in zip(coefficients, summaries, strict=True)
            ],
            ignore_index=True,
        ),
        residuals=pd.concat([part for part in residuals if len(part)], ignore_index=True),
    )


@dataclass(frozen=True)
class _TaskFitter:
    model: Model
    reference: str
    absent: dict[str, str]
    """Covariates that are no terms of the model, with the cause."""

    def fit(self, task: tuple, rows: pd.DataFrame) -> tuple[dict, pd.DataFrame, pd.DataFrame]:
        """Return the summary, coefficients and residuals of one task."""
        about = dict(zip(TASK, task, strict=True))
        refused = _refusal(rows)
        if refused:
            empty = pd.DataFrame()
            return {**about, "attempts": len(rows), **_NOTHING, "refused": refused}, empty, empty
        design = dmatrix(self.model.formula, rows, return_type="dataframe")
        causes = {name: why for name in design if (why := absence(name, self.absent))}
        matrix = design.drop(columns=list(causes))
        told = estimable(matrix.to_numpy())
        causes |= {
            name: cause(name, rows, self.model, self.reference, self.absent)
            for name in matrix.columns[~told]
        }
        # A basis of full rank has the same fit and the same estimable coefficients, without the rounding
        # errors of an inverse that does not exist.
        basis = matrix.loc[:, independent(matrix.to_numpy())]
        result = OLS(rows["task_accuracy"].to_numpy(float), basis).fit()
        spare = _unmeasured(result) == ""
        summary = {
            **about,
            "attempts": len(rows),
            "terms": int(told.sum()),
            "inestimable": len(causes),
            "condition_number": result.condition_number,
            "r2": result.rsquared,
            "adj_r2": result.rsquared_adj if spare else np.nan,
            "sigma": np.sqrt(result.scale) if spare else np.nan,
            "df_residual": int(result.df_resid),
            "refused": "",
        }
        table = self._coefficients(about, design.columns, result, causes)
        return summary, table, _residuals(about, rows, result)

    def _coefficients(
        self, about: dict, names: pd.Index, result: RegressionResults, causes: dict[str, str]
    ) -> pd.DataFrame:
        unmeasured = _unmeasured(result)
        numbers = {"estimate": result.params} | ({} if unmeasured else _errors(result))
        table = pd.DataFrame(numbers, index=result.params.index)
        table = table.reindex(index=names, columns=_NUMBERS).astype(float)
        table["cause"] = [causes.get(name, unmeasured) for name in names]
        table.loc[[*causes], _NUMBERS] = np.nan
        terms = [describe(name, self.model) for name in names]
        table.insert(0, "term", [term for term, _ in terms])
        table.insert(1, "architecture", [architecture for _, architecture in terms])
        return pd.DataFrame(about, index=names).join(table).reset_index(drop=True)


_NOTHING = {"terms": 0, "inestimable": 0} | dict.fromkeys(
    ("condition_number", "r2", "adj_r2", "sigma", "df_residual"), np.nan
)


def _no_coefficients(about: dict, terms: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each term of a task that was refused, with the cause and without numbers."""
    task = {name: about[name] for name in TASK}
    empty = terms.assign(**dict.fromkeys(_NUMBERS, np.nan), cause=about["refused"])
    return pd.DataFrame(task, index=empty.index).join(empty)


def _refusal(rows: pd.DataFrame) -> str:
    if rows.empty:
        return "no attempt entered"
    if rows["task_accuracy"].nunique() == 1:
        return f"all {len(rows)} attempts have the same accuracy, so there is nothing to explain"
    return ""


def _errors(result: RegressionResults) -> dict:
    """Return what the residual variance tells of each coefficient."""
    interval = result.conf_int(alpha=1 - CONFIDENCE)
    return {
        "se": result.bse,
        "df": result.df_resid,
        "low": interval[0],
        "high": interval[1],
        "p_value": result.pvalues,
    }


def _unmeasured(result: RegressionResults) -> str:
    """Return why the residual variance, and with it every standard error, is unknown, or nothing."""
    if result.df_resid <= 0:
        return "no attempt is left over to measure the error"
    # What rounding leaves of residuals that are all zero is no error to test against.
    return "the residuals are all zero" if np.sqrt(result.scale) < _EXACT else ""


def _residuals(about: dict, rows: pd.DataFrame, result: RegressionResults) -> pd.DataFrame:
    standardised = np.full(len(rows), np.nan)
    if not _unmeasured(result):
        leverage = result.get_influence().hat_matrix_diag
        # An attempt alone in its group is fitted exactly: its residual is rounding, not evidence.
        free = leverage < 1 - 1e-9
        spread = np.sqrt(result.scale * (1 - leverage[free]))
        standardised[free] = np.asarray(result.resid)[free] / spread
    return pd.DataFrame(
        {
            **about,
            "architecture": rows["architecture"].astype(str).to_numpy(),
            "fitted": np.asarray(result.fittedvalues),
            "residual": np.asarray(result.resid),
            "standardised": standardised,
        }
    )
