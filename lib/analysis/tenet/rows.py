"""The observations of the twelve models, and an account of what cannot be one.

An observation needs a finite accuracy and a finite adjoint metric, for all three models of a family alike: their
explained variances compare only over the same rows. What is left out is counted, never silently.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from lib.analysis.attempts import attempts, count_status
from lib.analysis.regimes import adjoint_metric
from lib.analysis.tenet.models import REFERENCE, TERMINAL, TRAINING
from lib.results.factorial import ATTEMPT, MEASURED

SMALLEST_SINGLE = float(np.log10(np.finfo(np.float32).smallest_subnormal))
"""log10 of the smallest positive number in single precision."""

_SPLIT = {TRAINING: "train", TERMINAL: "test"}


class NothingToFit(ValueError):
    """The results hold nothing that a model could be fitted to; the message names the cause."""


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
    """

    kind: str
    attempts: pd.DataFrame
    attempt: np.ndarray
    epoch: np.ndarray
    accuracy: np.ndarray
    metric: np.ndarray
    account: pd.DataFrame

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

    def said(self) -> str:
        """Return the account as a sentence."""
        entered = self.account.iloc[-1]
        left = self.account.iloc[1:-1]
        causes = [
            f"{row.what} ({row.attempts:,} attempts, {row.rows:,} rows)"
            for row in left.itertuples()
            if row.attempts or row.rows
        ]
        return (
            f"{entered['rows']:,} rows of {entered['attempts']:,} attempts entered, of "
            f"{self.account['attempts'].iloc[0]:,} attempts planned. "
            + (f"Left out: {'; '.join(causes)}." if causes else "Nothing was left out.")
        )


def rows(ds: xr.Dataset, kind: str, *, smallest: float = -np.inf) -> Rows:
    """Return the observations of `kind` in the results of the factorial experiment.

    Parameters
    ----------
    ds
        Results as `lib.results.factorial` describes them.
    kind
        ``training``: one row per attempt and epoch measured on the training data, the epochs before a
        divergence included. ``terminal``: the last epoch of completed attempts, measured on the test data.
    smallest
        log10 of the smallest norm that is not taken as zero: `SMALLEST_SINGLE` shows what is left of the
        results where norms are kept in single precision.

    Raises
    ------
    NothingToFit
        No attempt was measured, or none has a finite adjoint metric.
    ValueError
        `kind` is neither.
    """
    if kind not in _SPLIT:
        raise ValueError(f"kind is {kind!r}; expected one of {', '.join(_SPLIT)}")
    design = attempts(ds)
    part = ds[["accuracy", "adjoint_first", "adjoint_last"]].sel(split=_SPLIT[kind])
    part = part.transpose(*(dim for dim in MEASURED if dim != "split"))
    numbers = part["epoch"].values
    done = design["epochs_completed"].to_numpy()
    if kind == TRAINING:
        kept = numbers <= done[:, None]
    else:
        completed = (design["status"] == "completed").to_numpy()
        kept = completed[:, None] & (numbers == design["training_length"].to_numpy()[:, None])
    line, place = np.nonzero(kept)

    def measured(name: str) -> np.ndarray:
        return part[name].values.reshape(kept.shape)[kept]

    first, last = (
        np.where(norm < smallest, -np.inf, norm)
        for norm in (measured("adjoint_first"), measured("adjoint_last"))
    )
    metric = adjoint_metric(first, last)
    usable = np.isfinite(metric)
    account = _account(design, kind, line, metric, usable)
    if not usable.any():
        raise NothingToFit(_why(account, len(line)))
    line, place = line[usable], place[usable]
    present, attempt = np.unique(line, return_inverse=True)
    return Rows(
        kind=kind,
        attempts=factors(design.iloc[present][list(ATTEMPT)]),
        attempt=attempt,
        epoch=numbers[place].astype(float),
        accuracy=measured("accuracy")[usable],
        metric=metric[usable],
        account=account,
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
        ("the adjoint of the last step is exactly zero", *lost(np.isposinf(metric))),
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


def factors(table: pd.DataFrame) -> pd.DataFrame:
    """Return the factors of attempts or treatments as the models need them.

    Categories begin with their reference level, the published one where the table has it; the covariates ``log_rate`` and
    ``log_rate_squared`` are added.
    """
    table = table.reset_index(drop=True)
    for name, reference in REFERENCE.items():
        levels = sorted(table[name].unique())
        if reference in levels:
            levels = [reference, *(level for level in levels if level != reference)]
        table[name] = pd.Categorical(table[name], levels)
    table["log_rate"] = np.log(table["learning_rate"])
    table["log_rate_squared"] = table["log_rate"] ** 2
    return table
