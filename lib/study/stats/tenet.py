r"""The tenet of the dissertation's chapter 3, if gradients vanish, learning is poor, as the
twelve linear models of Section 3.5.

Two questions, each asked of two kinds of observation with three sets of predictors:

========== ============ ============== ================= =================== ===========
models     response     rows           1st of the three  2nd                 3rd
========== ============ ============== ================= =================== ===========
1, 2, 3    accuracy     every epoch    metric            metric and factors  factors
4, 5, 6    accuracy     terminal       metric            metric and factors  factors
7, 8, 9    metric       every epoch    accuracy          accuracy, factors   factors
10, 11, 12 metric       terminal       accuracy          accuracy, factors   factors
========== ============ ============== ================= =================== ===========

The equations of the paper leave out a covariate that its tables have: *epochs*, the epoch an
observation was made after, in all models with factors but 8 and 9. The tables are followed, because
they print its estimates. The learning rate enters as its natural logarithm: the published condition
numbers lie near those of the design with natural logarithms, and the quadratic of Model 3 has its
top at 7e-4 with them, and at 6e-8, far outside the design, with decimal ones.

An observation needs a finite accuracy and an adjoint metric, for all three models of a family
alike: their explained variances compare only over the same rows. What is left out is counted, never
silently.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import pandas as pd
import xarray as xr
from patsy import dmatrix
from scipy.stats import rankdata

from study.results.factorial import ATTEMPT
from study.stats import linear
from study.stats.attempts import TREATMENT, attempts, count_status, epochs, terminal
from study.stats.design import CENTRE, NothingToFit, design, with_covariates
from study.stats.linear import Fit, Unequal, with_own_variances
from study.stats.reml import ConvergenceError

TRAINING, TERMINAL = "training", "terminal"
ACCURACY, METRIC = "accuracy", "metric"
FACTORS = ("architecture", "log_rate", "log_rate_squared", "width", "dataset", "noise", "order")
FACTORS += ("epoch", "architecture:log_rate", "architecture:log_rate_squared", "architecture:noise")
"""Covariates describing the experimental factors, in the order of the published tables."""
OF_TASKS = ("dataset:order", "dataset:noise", "order:noise", "dataset:order:noise")
"""Interactions that the paper's models leave out; with them each task has a level of its own."""
REFERENCE = {"architecture": "antisymmetric", "dataset": "cifar10"}
REFERENCE |= {"noise": "none", "order": "sequential"}
"""The level of each factor that the published tables leave out, so that its effect is in the
intercept.
"""


@dataclass(frozen=True)
class Model:
    """One of the twelve models.

    `response` is ``accuracy`` or ``metric``, the adjoint metric (3.6), `rows` ``training`` (every
    epoch, measured on the training data) or ``terminal`` (the last epoch of attempts that
    completed, measured on the test data); `terms` are those beside the intercept, in the order of
    the published table.
    """

    number: int
    response: str
    rows: str
    terms: tuple[str, ...]

    @property
    def name(self) -> str:
        """As the paper writes it."""
        return f"MODEL {self.number}"

    @property
    def formula(self) -> str:
        """The fixed effects as statsmodels and R read them."""
        return f"{self.response} ~ {' + '.join(self.terms)}"

    @property
    def predictor(self) -> str | None:
        """The measurement among the terms: the adjoint metric or the accuracy; None where there
        is none.
        """
        return next((term for term in self.terms if term in (ACCURACY, METRIC)), None)

    @property
    def random(self) -> bool:
        """Whether each attempt has an intercept of its own: epochs of one attempt share weights,
        data and luck.
        """
        return self.rows == TRAINING

    @property
    def summary(self) -> str:
        """Artefact of its family's summary, Table 3.5 to 3.8."""
        return f"diss-tab-3.{5 + (self.number - 1) // 3}"

    @property
    def table(self) -> str:
        """Artefact of its coefficients, Table A8 to A19."""
        return f"diss-tab-A{7 + self.number}"


MODELS: dict[int, Model] = {}
"""The models by their number."""
for _response, _other in ((ACCURACY, METRIC), (METRIC, ACCURACY)):
    for _rows in (TRAINING, TERMINAL):
        # The published tables of Models 8 and 9 have no epochs; all others with factors do.
        _no_epochs = _response == METRIC and _rows == TRAINING
        _factors = tuple(term for term in FACTORS if not (_no_epochs and term == "epoch"))
        for _terms in ((_other,), (_other, *_factors), _factors):
            MODELS[len(MODELS) + 1] = Model(len(MODELS) + 1, _response, _rows, _terms)
FAMILIES = {family: (3 * family - 2, 3 * family - 1, 3 * family) for family in (1, 2, 3, 4)}
"""The three models of each summary table, 3.5 to 3.8: with the one predictor alone, with the
factors too, and with the factors alone.
"""


# their observations

TRUE, SINGLE, RANKS, CENTRED = "true", "single", "ranks", "centred"
CLIPPED, MILD, SPLINE, WITHIN = "clipped", "mild", "spline", "within"
FLOOR, EXTREME = -5.0, -10.0
"""Orders of magnitude at which the metric is clipped, and below which a row is extreme."""
VIEWS = {
    TRUE: "norms as they are; a norm of exactly zero leaves its row out",
    SINGLE: "norms as single precision would have stored them: what vanished counts as its "
    "smallest number, 1.4e-45",
    RANKS: "the rank of the metric, from 0 to 1; a norm of exactly zero ranks last",
    CENTRED: f"norms as they are; the logarithm of the learning rate counts from {CENTRE}",
    CLIPPED: f"norms as they are; a metric below {FLOOR:g} counts as {FLOOR:g}",
    MILD: f"norms as they are; rows with a metric below {EXTREME:g} are left out",
    SPLINE: "norms as they are; the effect of the predictor is a natural cubic spline with four "
    "degrees of freedom",
    WITHIN: "norms as single precision would have stored them; each task has a level of its own",
}
"""What is taken as the adjoint metric.

The paper's program computed in single precision (`study.stats.regimes.float32_metric`).
"""


@dataclass(frozen=True)
class Rows:
    """N observations of G attempts."""

    kind: str
    """``training`` or ``terminal``."""
    attempts: pd.DataFrame
    """The factors of each attempt that has an observation, G lines; factors are categories whose
    first level is the reference, the published one where the results have it.
    """
    attempt: np.ndarray
    """Line of `attempts` that each observation belongs to, shape (N,)."""
    measured: Mapping[str, np.ndarray]
    """``epoch``, ``accuracy`` and ``metric``, each of shape (N,)."""
    account: pd.DataFrame
    """How many attempts and rows entered, and how many did not and why: ``what``, ``attempts``,
    ``rows``.
    """

    def __len__(self) -> int:
        return len(self.attempt)

    @cached_property
    def treatment(self) -> np.ndarray:
        """Treatment of each attempt, shape (G,)."""
        return self.attempts.groupby(list(TREATMENT), sort=False, observed=True).ngroup().to_numpy()

    def column(self, name: str) -> np.ndarray:
        """Return a column of the observations: a measurement, or a factor of their attempts."""
        if name in self.measured:
            return self.measured[name]
        return self.attempts[name].to_numpy()[self.attempt]

    def splines(self, name: str) -> dict[str, np.ndarray]:
        """Return a natural cubic spline basis of a measurement, by the names of its terms."""
        basis = dmatrix("cr(x, df=4, constraints='center') - 1", {"x": self.column(name)})
        return {f"spline {k}": part for k, part in enumerate(np.asarray(basis).T, start=1)}


def rows(ds: xr.Dataset, kind: str, *, view: str = TRUE, frame: pd.DataFrame | None = None) -> Rows:
    """Return the observations of `kind` in the results of the factorial experiment.

    ``training``: one row per attempt and epoch measured on the training data, the epochs before a
    divergence included. ``terminal``: the last epoch of completed attempts, measured on the test
    data. `view` is one of `VIEWS`; `frame` are the measurements of that kind, where somebody has
    them. Raises NothingToFit: no attempt was measured, or none has an adjoint metric. Raises
    ValueError: `kind` or `view` is unknown.
    """
    for what, name, known in (("kind", kind, (TRAINING, TERMINAL)), ("view", view, VIEWS)):
        if name not in known:
            raise ValueError(f"{what} is {name!r}; expected one of {', '.join(known)}")
    frame = measurements(ds, kind) if frame is None else frame
    every = attempts(ds)
    metric = frame["metric_float32" if view in (SINGLE, WITHIN) else "metric"].to_numpy()
    if view == RANKS:
        ranks = rankdata(metric, nan_policy="omit")
        metric = (ranks - 1) / max(np.nanmax(ranks, initial=0) - 1, 1)
    usable, line = np.isfinite(metric), frame["attempt"].to_numpy()
    account = _account(every, kind, line, metric)
    if view == MILD:
        usable = usable & (metric >= EXTREME)
    if not usable.any():
        raise NothingToFit(_why(account, len(line)))
    present, attempt = np.unique(line[usable], return_inverse=True)
    centre = CENTRE if view == CENTRED else 1.0
    columns = {"epoch": frame["epoch"].astype(float), "accuracy": frame["accuracy"]}
    columns["metric"] = np.maximum(metric, FLOOR) if view == CLIPPED else metric
    measured = {name: np.asarray(column)[usable] for name, column in columns.items()}
    covariates = with_covariates(every.iloc[present][list(ATTEMPT)], REFERENCE, centre=centre)
    return Rows(kind, covariates, attempt, measured, account)


def measurements(ds: xr.Dataset, kind: str) -> pd.DataFrame:
    """Return the table of epochs that the observations of `kind` come from."""
    return epochs(ds, "train") if kind == TRAINING else terminal(ds)


def _account(every: pd.DataFrame, kind: str, line: np.ndarray, metric: np.ndarray) -> pd.DataFrame:
    """Return how many attempts and rows there are of each end; an attempt of several rows counts
    once, where one that entered goes first.
    """
    broken = every["status"] == "diverged"
    unmeasured = broken & (every["epochs_completed"] == 0) if kind == TRAINING else broken
    ends = [
        "entered",
        "the adjoint of the first step is exactly zero",
        "the adjoint of the last step is exactly zero, or that of the first overflows",
        "both adjoints are exactly zero",
    ]
    end = np.select([np.isfinite(metric), np.isneginf(metric), np.isposinf(metric)], [0, 1, 2], 3)
    counts = (np.bincount(one, minlength=4) for one in (pd.Series(end).groupby(line).min(), end))
    entered, *lost = zip(ends, *counts, strict=True)
    diverged = "diverged before a first measurement" if kind == TRAINING else "diverged"
    table = [
        ("planned", len(every), 0),
        ("missing: never ran", count_status(every)["missing"], 0),
        (diverged, unmeasured.sum(), 0),
        *lost,
        entered,
    ]
    return pd.DataFrame(table, columns=["what", "attempts", "rows"])


def _why(account: pd.DataFrame, measured: int) -> str:
    if not measured:
        return "no attempt was measured, so there is nothing to fit; train more attempts"
    table = account.set_index("what")["rows"]
    causes = [f"{count:,} rows: {what}" for what, count in table.items() if count]
    return f"no row has a finite adjoint metric ({'; '.join(causes)}), so no model can be fitted"


# fits, each model once for every view of the metric

OWN = "a variance per architecture"
"""What stands for a view of the metric where the model is another one
(`study.stats.linear.with_own_variances`).
"""


def fit(model: Model, observations: Rows) -> Fit:
    """Estimate `model` from `observations`, without the coefficients that they cannot tell.

    Raises NothingToFit: the response is the same in every row, each attempt has a single row where
    a random intercept is asked for, or there are no more rows than coefficients. Raises
    ConvergenceError: there is no estimate that can be trusted. Raises ValueError: the observations
    are of the other kind.
    """
    if observations.kind != model.rows:
        raise ValueError(f"{model.name} needs {model.rows} rows, got {observations.kind} rows")
    response, count = observations.column(model.response), len(observations)
    if np.ptp(response) == 0:
        raise NothingToFit(
            f"{model.name}: the {model.response} is {response[0]:g} in all {count:,} rows; a "
            "constant has no variance to explain"
        )
    if model.random and count == len(observations.attempts):
        raise NothingToFit(
            f"{model.name}: each of the {count:,} attempts has a single {model.rows} row, so an "
            "intercept per attempt "
            "cannot be told from the residual; train for two epochs or more"
        )
    made = design(
        model.terms,
        observations.attempts,
        response,
        attempt=observations.attempt,
        treatment=observations.treatment,
        measured=observations.measured,
    )
    if count <= len(made.names):
        raise NothingToFit(
            f"{model.name} has {len(made.names)} coefficients and {count} rows; train more attempts"
        )
    try:
        return linear.fit(made, random=model.random)
    except ConvergenceError as error:
        raise ConvergenceError(f"{model.name} ({model.response}): {error}") from None


class Fits:
    """The twelve models on one set of results: rows and fits are made when they are asked for,
    and once.
    """

    def __init__(self, ds: xr.Dataset) -> None:
        self.ds = ds
        frame = self.measured = cache(lambda kind: measurements(ds, kind))
        self.rows = cache(lambda kind, view=TRUE: rows(ds, kind, view=view, frame=frame(kind)))
        self._fit, self.own = cache(self._estimate), cache(self._refit)

    def fit(self, number: int, view: str = TRUE) -> Fit:
        """Return a model on a view of the metric; raises as `fit`."""
        return self._fit(number, TRUE if view == SPLINE and not MODELS[number].predictor else view)

    def try_fit(self, number: int, view: str) -> tuple[Fit | None, str]:
        """Return the same, or None and why there is none."""
        try:
            return self.fit(number, view), ""
        except (NothingToFit, ConvergenceError) as refusal:
            return None, str(refusal)

    def _estimate(self, number: int, view: str) -> Fit:
        model = MODELS[number]
        observations = self.rows(model.rows, TRUE if view == SPLINE else view)
        if view == WITHIN:
            model = replace(model, terms=(*model.terms, *OF_TASKS))
        if view == SPLINE:
            bent = observations.splines(model.predictor)
            observations = replace(observations, measured={**observations.measured, **bent})
            others = (term for term in model.terms if term != model.predictor)
            model = replace(model, terms=(*bent, *others))
        return fit(model, observations)

    def _refit(self, number: int) -> tuple[Unequal | None, str]:
        """Return a model with variances of its own for each architecture, or None and why there
        is none.
        """
        try:
            groups = self.rows(MODELS[number].rows).attempts["architecture"].astype(str).to_numpy()
            return with_own_variances(self.fit(number), groups), ""
        except (NothingToFit, ConvergenceError) as error:
            return None, f"{MODELS[number].name}: {error}"

    def coefficients(self, numbers: Iterable[int], views: Iterable[str]) -> pd.DataFrame:
        """Return the coefficients of models by `views`, `OWN` among them, in one frame; a model
        that a view does not allow has no lines.

        Columns: ``model``, ``view``, ``term``, and those of `study.stats.linear.Fit.coefficients`
        that the fit has.
        """
        parts = []
        for view in views:
            for number in numbers:
                found, _ = self.own(number) if view == OWN else self.try_fit(number, view)
                if found:
                    parts.append(found.coefficients.assign(model=number, view=view))
        return pd.concat(parts, ignore_index=True)
