"""The observations of the twelve models, and an account of what cannot be one.

An observation needs a finite accuracy and an adjoint metric, for all three models of a family alike: their explained
variances compare only over the same rows. What is left out is counted, never silently.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import rankdata

from lib.analysis.attempts import attempts, count_status, epochs, terminal
from lib.analysis.design import CENTRE, NothingToFit, with_covariates
from lib.analysis.tenet.models import REFERENCE, TERMINAL, TRAINING
from lib.results.factorial import ATTEMPT

TRUE, SINGLE, RANKS, CENTRED = "true", "single", "ranks", "centred"
CLIPPED, MILD = "clipped", "mild"
FLOOR, EXTREME = -5.0, -10.0
"""Orders of magnitude at which the metric is clipped, and below which a row is extreme."""
VIEWS = {
    TRUE: "norms as they are; a norm of exactly zero leaves its row out",
    SINGLE: "norms as single precision would have stored them: what vanished counts as its smallest number, 1.4e-45",
    RANKS: "the rank of the metric, from 0 to 1; a norm of exactly zero ranks last",
    CENTRED: f"norms as they are; the logarithm of the learning rate counts from {CENTRE}",
    CLIPPED: f"norms as they are; a metric below {FLOOR:g} counts as {FLOOR:g}",
    MILD: f"norms as they are; rows with a metric below {EXTREME:g} are left out",
}
"""What is taken as the adjoint metric. The text's program computed in single precision (`lib.analysis.regimes.float32_metric`)."""


@dataclass(frozen=True)
class Rows:
    """N observations of G attempts."""

    kind: str
    """``training`` or ``terminal``."""
    attempts: pd.DataFrame
    """The factors of each attempt that has an observation, G lines; factors are categories whose first level is the
    reference, the published one where the results have it."""
    attempt: np.ndarray
    """Line of `attempts` that each observation belongs to, shape (N,)."""
    measured: Mapping[str, np.ndarray]
    """``epoch``, ``accuracy`` and ``metric``, each of shape (N,)."""
    account: pd.DataFrame
    """How many attempts and rows entered, and how many did not and why: ``what``, ``attempts``, ``rows``."""

    def __len__(self) -> int:
        return len(self.attempt)

    def column(self, name: str) -> np.ndarray:
        """Return a column of the observations: a measurement, or a factor of their attempts."""
        if name in self.measured:
            return self.measured[name]
        return self.attempts[name].to_numpy()[self.attempt]


def rows(ds: xr.Dataset, kind: str, *, view: str = TRUE, frame: pd.DataFrame | None = None) -> Rows:
    """Return the observations of `kind` in the results of the factorial experiment.

    ``training``: one row per attempt and epoch measured on the training data, the epochs before a divergence included. ``terminal``: the last epoch of completed attempts,
    measured on the test data. `view` is one of `VIEWS`; `frame` are the measurements of that kind, where somebody has them.
    Raises NothingToFit: no attempt was measured, or none has an adjoint metric.
    Raises ValueError: `kind` or `view` is unknown.
    """
    for what, name, known in (("kind", kind, (TRAINING, TERMINAL)), ("view", view, VIEWS)):
        if name not in known:
            raise ValueError(f"{what} is {name!r}; expected one of {', '.join(known)}")
    frame = measurements(ds, kind) if frame is None else frame
    design = attempts(ds)
    metric = frame["metric_float32" if view == SINGLE else "metric"].to_numpy()
    if view == RANKS:
        ranks = rankdata(metric, nan_policy="omit")
        metric = (ranks - 1) / max(np.nanmax(ranks, initial=0) - 1, 1)
    usable, line = np.isfinite(metric), frame["attempt"].to_numpy()
    account = _account(design, kind, line, metric, usable)
    if view == MILD:
        usable = usable & (metric >= EXTREME)
    if not usable.any():
        raise NothingToFit(_why(account, len(line)))
    present, attempt = np.unique(line[usable], return_inverse=True)
    centre = CENTRE if view == CENTRED else 1.0
    measured = {
        "epoch": frame["epoch"].to_numpy(float)[usable],
        "accuracy": frame["accuracy"].to_numpy()[usable],
        "metric": np.maximum(metric, FLOOR)[usable] if view == CLIPPED else metric[usable],
    }
    covariates = with_covariates(design.iloc[present][list(ATTEMPT)], REFERENCE, centre=centre)
    return Rows(kind, covariates, attempt, measured, account)


def measurements(ds: xr.Dataset, kind: str) -> pd.DataFrame:
    """Return the table of epochs that the observations of `kind` come from."""
    return epochs(ds, "train") if kind == TRAINING else terminal(ds)


def _account(
    design: pd.DataFrame, kind: str, line: np.ndarray, metric: np.ndarray, usable: np.ndarray
) -> pd.DataFrame:
    broken = design["status"] == "diverged"
    unmeasured = broken & (design["epochs_completed"] == 0) if kind == TRAINING else broken
    counted = set(line[usable].tolist())
    entered = len(counted)

    def lost(which: np.ndarray) -> tuple[int, int]:
        """Attempts of which no row is left, each counted once, and rows."""
        gone = set(line[which].tolist()) - counted
        counted.update(gone)
        return len(gone), int(which.sum())

    diverged = "diverged before a first measurement" if kind == TRAINING else "diverged"
    overflow = "the adjoint of the last step is exactly zero, or that of the first overflows"
    table = [
        ("planned", len(design), 0),
        ("missing: never ran", count_status(design)["missing"], 0),
        (diverged, int(unmeasured.sum()), 0),
        ("the adjoint of the first step is exactly zero", *lost(np.isneginf(metric))),
        (overflow, *lost(np.isposinf(metric))),
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
