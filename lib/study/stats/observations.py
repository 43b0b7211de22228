r"""The observations of chapter 3: accuracy and adjoint metric of every epoch or terminal iterate.

An observation needs a finite accuracy and a finite adjoint metric. All three models of a family use
the same rows, because explained variances can only be compared over the same rows. Omitted rows are
counted (`Observations.account`).

The paper's program computed in single precision. There a vanished gradient counts as the smallest
number; in double precision a gradient of exactly zero has no finite metric. Several *views* of the
metric (`VIEWS`) show how much the results depend on that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import xarray as xr
from patsy import dmatrix
from scipy.stats import rankdata

from study.results.factorial import ATTEMPT, TREATMENT
from study.stats.attempts import attempts, count_status, epochs, terminal
from study.stats.covariates import CENTER, with_covariates
from study.stats.design import NothingToFit

TRAINING = "training"
"""Observations of every epoch, measured on the training data."""
TERMINAL = "terminal"
"""Observations of the last epoch of completed attempts, measured on the test data."""
ACCURACY = "accuracy"
"""Name of the accuracy among the measurements."""
METRIC = "metric"
"""Name of the adjoint metric (3.6) among the measurements."""
REFERENCE = {
    "architecture": "antisymmetric",
    "dataset": "cifar10",
    "noise": "none",
    "order": "sequential",
}
"""Level of each factor that the published tables leave out; its effect is in the intercept."""

UNROUNDED = "true"
FLOAT32 = "single"
RANKS = "ranks"
CENTERED = "centered"
CLIPPED = "clipped"
WITHOUT_EXTREMES = "mild"
SPLINE = "spline"
WITHIN_TASKS = "within"
FLOOR = -5.0
"""Orders of magnitude at which the metric is clipped."""
EXTREME = -10.0
"""Orders of magnitude below which the metric of a row is extreme."""
VIEWS = {
    UNROUNDED: "norms as they are; a norm of exactly zero leaves its row out",
    FLOAT32: "norms as single precision would have stored them: what vanished counts as its "
    "smallest number, 1.4e-45",
    RANKS: "the rank of the metric, from 0 to 1; a norm of exactly zero ranks last",
    CENTERED: f"norms as they are; the logarithm of the learning rate counts from {CENTER}",
    CLIPPED: f"norms as they are; a metric below {FLOOR:g} counts as {FLOOR:g}",
    WITHOUT_EXTREMES: f"norms as they are; rows with a metric below {EXTREME:g} are left out",
    SPLINE: "norms as they are; the effect of the predictor is a natural cubic spline with four "
    "degrees of freedom",
    WITHIN_TASKS: "norms as single precision would have stored them; each task has a level of its "
    "own",
}
"""Views of the adjoint metric, with what each one means for a reader."""
_FLOAT32_VIEWS = (FLOAT32, WITHIN_TASKS)
"""Views whose norms are as single precision would have stored them
(`study.stats.regimes.float32_metric`).
"""
_ENDS = (
    "entered",
    "the adjoint of the first step is exactly zero",
    "the adjoint of the last step is exactly zero, or that of the first overflows",
    "both adjoints are exactly zero",
)
"""Fate of a row whose metric is finite, -inf, inf, or nan, in this order."""


@dataclass(frozen=True)
class Observations:
    """N observations of G attempts."""

    kind: str
    """`TRAINING` or `TERMINAL`."""
    attempts: pd.DataFrame
    """The factors of each attempt that has an observation, G rows. The factors of `REFERENCE` are
    categories whose first level is the reference.
    """
    attempt: np.ndarray
    """Row of `attempts` that each observation belongs to, shape (N,)."""
    measured: Mapping[str, np.ndarray]
    """``epoch``, ``accuracy`` and ``metric``, each of shape (N,)."""
    account: pd.DataFrame
    """How many attempts and rows entered, and how many did not and why: columns ``what``,
    ``attempts`` and ``rows``.
    """

    def __len__(self) -> int:
        return len(self.attempt)

    @cached_property
    def treatment(self) -> np.ndarray:
        """Treatment of each attempt, shape (G,)."""
        groups = self.attempts.groupby(list(TREATMENT), sort=False, observed=True)
        return groups.ngroup().to_numpy()

    def column(self, name: str) -> np.ndarray:
        """Return a column of the observations.

        Parameters
        ----------
        name
            A measurement, or a factor of the attempts.

        Returns
        -------
        numpy.ndarray
            Shape (N,).
        """
        if name in self.measured:
            return self.measured[name]
        return self.attempts[name].to_numpy()[self.attempt]

    def splines(self, name: str) -> dict[str, np.ndarray]:
        """Return a natural cubic spline basis of a measurement, as `patsy` computes it.

        Parameters
        ----------
        name
            The measurement.

        Returns
        -------
        dict
            Name of each of the four terms: its column, shape (N,).
        """
        basis = dmatrix("cr(x, df=4, constraints='center') - 1", {"x": self.column(name)})
        columns = np.asarray(basis).T
        return {f"spline {k}": column for k, column in enumerate(columns, start=1)}


def select_observations(
    ds: xr.Dataset, kind: str, *, view: str = UNROUNDED, frame: pd.DataFrame | None = None
) -> Observations:
    """Return the observations of one kind in the results of the factorial experiment.

    Parameters
    ----------
    ds
        Results of the factorial experiment.
    kind
        `TRAINING` (epochs before a divergence included) or `TERMINAL`.
    view
        View of the adjoint metric, one of `VIEWS`.
    frame
        The result of `measurements(ds, kind)`, to save its computation.

    Returns
    -------
    Observations
        The rows with a finite metric, and an account of the others.

    Raises
    ------
    NothingToFit
        No attempt was measured, or none has a finite adjoint metric.
    ValueError
        `kind` or `view` is unknown.
    """
    _check_name("kind", kind, (TRAINING, TERMINAL))
    _check_name("view", view, VIEWS)
    if frame is None:
        frame = measurements(ds, kind)
    all_attempts = attempts(ds)
    metric = _view_metric(frame, view)
    attempt_number = frame["attempt"].to_numpy()
    account = _account(all_attempts, kind, attempt_number, metric)
    usable = np.isfinite(metric)
    if view == WITHOUT_EXTREMES:
        usable = usable & (metric >= EXTREME)
    if not usable.any():
        raise NothingToFit(_why_empty(account, len(frame)))
    if view == CLIPPED:
        metric = np.maximum(metric, FLOOR)
    present, attempt = np.unique(attempt_number[usable], return_inverse=True)
    measured = {
        "epoch": frame["epoch"].to_numpy(float)[usable],
        "accuracy": frame["accuracy"].to_numpy()[usable],
        "metric": metric[usable],
    }
    factors = all_attempts.iloc[present][list(ATTEMPT)]
    center = 1.0
    if view == CENTERED:
        center = CENTER
    table = with_covariates(factors, REFERENCE, center=center)
    return Observations(kind, table, attempt, measured, account)


def _check_name(parameter: str, name: str, known: Mapping[str, str] | tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(f"{parameter} is {name!r}; expected one of {', '.join(known)}")


def _view_metric(frame: pd.DataFrame, view: str) -> np.ndarray:
    """Return the adjoint metric of each row in a view, before clipping."""
    if view in _FLOAT32_VIEWS:
        return frame["metric_float32"].to_numpy()
    metric = frame["metric"].to_numpy()
    if view == RANKS:
        ranks = rankdata(metric, nan_policy="omit")
        largest = np.nanmax(ranks, initial=0)
        return (ranks - 1) / max(largest - 1, 1)
    return metric


def measurements(ds: xr.Dataset, kind: str) -> pd.DataFrame:
    """Return the table of epochs that observations come from.

    Parameters
    ----------
    ds
        Results of the factorial experiment.
    kind
        `TRAINING` or `TERMINAL`.

    Returns
    -------
    pandas.DataFrame
        As `study.stats.attempts.epochs` or `study.stats.attempts.terminal`.
    """
    if kind == TRAINING:
        return epochs(ds, "train")
    return terminal(ds)


def _account(
    all_attempts: pd.DataFrame, kind: str, attempt_number: np.ndarray, metric: np.ndarray
) -> pd.DataFrame:
    """Count attempts and rows by whether they entered, or why they did not.

    An attempt with several rows counts once: as entered if any of its rows entered.
    """
    conditions = [np.isfinite(metric), np.isneginf(metric), np.isposinf(metric)]
    end_of_row = np.select(conditions, [0, 1, 2], 3)
    end_of_attempt = pd.Series(end_of_row).groupby(attempt_number).min()
    row_counts = np.bincount(end_of_row, minlength=len(_ENDS))
    attempt_counts = np.bincount(end_of_attempt, minlength=len(_ENDS))
    diverged = all_attempts["status"] == "diverged"
    diverged_text = "diverged"
    if kind == TRAINING:
        diverged = diverged & (all_attempts["epochs_completed"] == 0)
        diverged_text = "diverged before a first measurement"
    lines = [
        ("planned", len(all_attempts), 0),
        ("missing: never ran", count_status(all_attempts)["missing"], 0),
        (diverged_text, diverged.sum(), 0),
    ]
    for end in (1, 2, 3, 0):
        lines.append((_ENDS[end], attempt_counts[end], row_counts[end]))
    return pd.DataFrame(lines, columns=["what", "attempts", "rows"])


def _why_empty(account: pd.DataFrame, measured_rows: int) -> str:
    """Return why no row is an observation."""
    if not measured_rows:
        return "no attempt was measured, so there is nothing to fit; train more attempts"
    table = account.set_index("what")["rows"]
    causes = [f"{count:,} rows: {what}" for what, count in table.items() if count]
    return f"no row has a finite adjoint metric ({'; '.join(causes)}), so no model can be fitted"
