"""The observations of the twelve models, and an account of what cannot be one.

An observation needs a finite accuracy and an adjoint metric, for all three models of a family alike: their explained
variances compare only over the same rows. What is left out is counted, never silently.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import rankdata

from lib.analysis.attempts import attempts, count_status, epochs, terminal
from lib.analysis.design import NothingToFit, with_covariates
from lib.analysis.tenet.models import REFERENCE, TERMINAL, TRAINING
from lib.results.factorial import ATTEMPT

TRUE, SINGLE, RANKS = "true", "single", "ranks"
VIEWS = {
    TRUE: "norms as they are; a norm of exactly zero leaves its row out",
    SINGLE: "norms as single precision would have stored them: what vanished counts as its smallest number, 1.4e-45",
    RANKS: "the rank of the metric, from 0 to 1; a norm of exactly zero ranks last",
}
"""What is taken as the adjoint metric (`lib.analysis.regimes.float32_metric`). The text's program computed in single precision."""


@dataclass(frozen=True)
class Rows:
    """N observations of G attempts.

    Attributes
    ----------
    kind
        ``training`` or ``terminal``.
    attempts
        The factors of each attempt that has an observation, G lines; factors are categories whose first level is the
        reference, the published one where the results have it.
    attempt
        Line of `attempts` that each observation belongs to, shape (N,).
    epoch, accuracy, metric
        The observations, shape (N,).
    account
        How many attempts and rows entered, and how many did not and why: ``what``, ``attempts``, ``rows``.
    clamped
        Rows of which single precision would have kept another norm.
    """

    kind: str
    attempts: pd.DataFrame
    attempt: np.ndarray
    epoch: np.ndarray
    accuracy: np.ndarray
    metric: np.ndarray
    account: pd.DataFrame
    clamped: int = 0

    def __len__(self) -> int:
        return len(self.attempt)

    def column(self, name: str) -> np.ndarray:
        """Return a column of the observations: a measurement, the epoch, or a factor of their attempts."""
        if name in ("epoch", "accuracy", "metric"):
            return getattr(self, name)
        return self.attempts[name].to_numpy()[self.attempt]

    def frame(self) -> pd.DataFrame:
        """Return the observations as one table, for other programs."""
        measured = {name: self.column(name) for name in ("epoch", "accuracy", "metric")}
        table = self.attempts.iloc[self.attempt].reset_index(drop=True)
        return table.assign(attempt=self.attempt, **measured)

    def describe(self) -> str:
        """Return the account as sentences."""
        entered = self.account.iloc[-1]
        causes = [
            f"{row.what} ({row.attempts:,} attempts, {row.rows:,} rows)"
            for row in self.account.iloc[1:-1].itertuples()
            if row.attempts or row.rows
        ]
        return (
            f"{entered['rows']:,} rows of {entered['attempts']:,} attempts entered, of "
            f"{self.account['attempts'].iloc[0]:,} attempts planned. "
            + (f"Left out: {'; '.join(causes)}." if causes else "Nothing was left out.")
        )


def rows(ds: xr.Dataset, kind: str, *, view: str = TRUE, centre: float = 1.0) -> Rows:
    """Return the observations of `kind` in the results of the factorial experiment.

    Parameters
    ----------
    ds
        Results as `lib.results.factorial` describes them.
    kind
        ``training``: one row per attempt and epoch measured on the training data, the epochs before a
        divergence included. ``terminal``: the last epoch of completed attempts, measured on the test data.
    view
        What is taken as the metric, one of `VIEWS`.
    centre
        Learning rate whose logarithm counts as zero.

    Raises
    ------
    NothingToFit
        No attempt was measured, or none has an adjoint metric.
    ValueError
        `kind` or `view` is unknown.
    """
    for what, name, known in (("kind", kind, (TRAINING, TERMINAL)), ("view", view, VIEWS)):
        if name not in known:
            raise ValueError(f"{what} is {name!r}; expected one of {', '.join(known)}")
    design = attempts(ds)
    frame = epochs(ds, "train") if kind == TRAINING else terminal(ds)
    metric = frame["metric_float32" if view == SINGLE else "metric"].to_numpy()
    with np.errstate(invalid="ignore"):
        clamped = np.abs(metric - frame["metric"].to_numpy()) > 1e-6
    if view == RANKS:
        ranks = rankdata(metric, nan_policy="omit")
        metric = (ranks - 1) / max(np.nanmax(ranks, initial=0) - 1, 1)
    usable, line = np.isfinite(metric), frame["attempt"].to_numpy()
    account = _account(design, kind, line, metric, usable)
    if not usable.any():
        raise NothingToFit(_why(account, len(line)))
    present, attempt = np.unique(line[usable], return_inverse=True)
    return Rows(
        kind=kind,
        attempts=with_covariates(design.iloc[present][list(ATTEMPT)], REFERENCE, centre=centre),
        attempt=attempt,
        epoch=frame["epoch"].to_numpy(float)[usable],
        accuracy=frame["accuracy"].to_numpy()[usable],
        metric=metric[usable],
        account=account,
        clamped=int(clamped[usable].sum()),
    )


def _account(
    design: pd.DataFrame, kind: str, line: np.ndarray, metric: np.ndarray, usable: np.ndarray
) -> pd.DataFrame:
    counts = count_status(design)
    done = design["epochs_completed"]
    broken = design["status"] == "diverged"
    measured = broken & (done > 0) if kind == TRAINING else broken & False
    counted = set(line[usable].tolist())
    entered = len(counted)

    def lost(which: np.ndarray) -> tuple[int, int]:
        """Attempts of which no row is left, each counted once, and rows."""
        gone = set(line[which].tolist()) - counted
        counted.update(gone)
        return len(gone), int(which.sum())

    table = [
        ("planned", len(design), 0),
        ("missing: never ran", counts["missing"], 0),
        (
            "diverged before a first measurement" if kind == TRAINING else "diverged",
            int((broken & ~measured).sum()),
            0,
        ),
        ("the adjoint of the first step is exactly zero", *lost(np.isneginf(metric))),
        (
            "the adjoint of the last step is exactly zero, or that of the first overflows",
            *lost(np.isposinf(metric)),
        ),
        ("both adjoints are exactly zero", *lost(np.isnan(metric))),
        ("entered", entered, int(usable.sum())),
    ]
    return pd.DataFrame(table, columns=["what", "attempts", "rows"])


def _why(account: pd.DataFrame, measured: int) -> str:
    if not measured:
        return "no attempt was measured, so there is nothing to fit; train more attempts"
    table = account.set_index("what")["rows"]
    causes = [f"{count:,} rows: {what}" for what, count in table.items() if count]
    return f"no row has a finite adjoint metric ({'; '.join(causes)}), so no model can be fitted"
