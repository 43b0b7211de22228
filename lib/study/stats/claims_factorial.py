"""What the factorial experiment says of the dissertation's claims: error rates, single attempts, behaviours over tasks and the twelve models.

That an effect differs between tasks (chapter 1) is measured by how much it does, and not by how many tests reject: a small experiment rejects nothing, and
that refutes nothing. Which replicates Figure 3.5 shows, and which attempts Figure 3.4, are rules that can be stated in one sentence. Of the models
(section 3.5) the metric is taken as single precision would have stored it, which is what the text's numbers are made of; intervals come from resampling
treatments (`study.stats.resample`).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, cached_property, partial

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats
from scipy.optimize import brentq

from study.results import claims
from study.results.claims import Finding, Judges, Scale, unable
from study.results.learned import STAND_INS, above_chance, longest
from study.results.quartiles import QUARTILES, TOP, quartiles
from study.results.schema import COMPLETED, MISSING, settings_of
from study.stats import comparisons, task_models
from study.stats.accuracy import LEVEL, at_best, can_cross, grade
from study.stats.attempts import TASK, TREATMENT, attempts, epochs, error_rates, terminal
from study.stats.design import COVARIATES, NothingToFit
from study.stats.linear import CONFIDENCE
from study.stats.regimes import VANISHED, published_border, regimes
from study.stats.reml import ConvergenceError
from study.stats.resample import interval, resample
from study.stats.tenet import MODELS, SINGLE, TRAINING, WITHIN, Fits


class Evidence(Fits):
    """The tables and models of one set of results, each made when a claim asks for it, and once."""

    def __init__(self, ds: xr.Dataset) -> None:
        super().__init__(ds)
        self.drawn = cache(lambda number, view: resample(self.fit(number, view)))
        self.reference = task_models.choose_reference(ds["architecture"].values.tolist())

    @property
    def scale(self) -> Scale:
        """How large the experiment was."""
        settings = settings_of(self.ds)
        return Scale(
            sequences=settings.get("train_size"),
            epochs=int(self.ds["training_length"].max()),
            width=int(self.ds["width"].max()),
            replicates=int((self.ds["status"] != MISSING).sum("replicate").min()),  # the fewest
            test_size=settings.get("test_size"),
            time_steps=longest(self.ds),
        )

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Every attempt with its task accuracy."""
        return grade(self.ds)

    @cached_property
    def best(self) -> pd.DataFrame:
        """The same, those that are not at h* marked as left out; h* is chosen on other replicates, where there are any."""
        return at_best(self.frame, crossed=can_cross(self.frame))

    @cached_property
    def first(self) -> task_models.TaskFits:
        """Fits of (1.8) to `best`."""
        return task_models.fit_tasks(self.best, task_models.FIRST, self.reference)

    @cached_property
    def second(self) -> task_models.TaskFits:
        """Fits of (1.11), with differences of architectures in the middle of the learning rates."""
        middle = float(np.exp(np.log(self.ds["learning_rate"]).mean()))
        return task_models.fit_tasks(self.frame, task_models.SECOND, self.reference, centre=middle)

    def r2(self, number: int) -> np.ndarray:
        """Return the explained variance of a model, and draws of it."""
        return self.drawn(number, SINGLE).r2

    def slope(self, number: int, view: str = SINGLE) -> np.ndarray:
        """Return the coefficient of the metric or of the accuracy, and draws of it."""
        names = self.fit(number, view).design.names
        if MODELS[number].predictor not in names:
            raise NothingToFit("these rows do not tell the coefficient")
        return self.drawn(number, view).coefficients[:, names.index(MODELS[number].predictor)]


def judge_of(quantity: Callable[[Evidence], Finding]) -> Callable[[xr.Dataset | Evidence], Finding]:
    """Return the judge of a quantity, on the text's data alone."""

    def judge(evidence: xr.Dataset | Evidence) -> Finding:
        e = evidence if isinstance(evidence, Evidence) else Evidence(evidence)
        instead = ", ".join(sorted({*STAND_INS} & {*e.ds["dataset"].values.tolist()}))
        if instead:
            return unable(f"the data set {instead} stands in for the text's", e.scale)
        if not (e.ds["status"] == COMPLETED).any():
            return unable("no attempt completed", e.scale)
        try:
            return replace(quantity(e), scale=e.scale)
        except (NothingToFit, ConvergenceError) as refusal:
            return unable(str(refusal), e.scale)

    return judge


# single attempts: errors (1.5.2) and counterexamples (3.4)

ROBUST = ("exponential", "antisymmetric", "unicornn")
FRAGILE = ("rnn", "lstm", "gru", "lipschitz")
FIGURE_35 = {"rnn": ("imdb", "sequential", "none"), "exponential": ("mnist", "permuted", "uniform")}
"""Architecture and task (data set, order, noise) of the treatments that Figure 3.5 shows."""


def nearest_zero(frame: pd.DataFrame) -> pd.DataFrame:
    """Return, for each architecture, the row whose adjoint metric is nearest to zero; rows of undefined metric do not compete."""
    return first_of_each(frame.assign(distance=frame["metric"].abs()), ["distance"])


def first_of_each(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return for each architecture the row that comes first in the order of the columns `by`, which are dropped; rows without the first do not compete."""
    ranked = frame[frame[by[0]].notna()].sort_values(by, kind="stable")
    chosen = ranked.drop_duplicates("architecture").drop(columns=by)
    order = {name: place for place, name in enumerate(frame["architecture"].drop_duplicates())}
    return chosen.sort_values("architecture", key=lambda names: names.map(order), ignore_index=True)


def choose_treatment(
    frame: pd.DataFrame, architecture: str, task: tuple[str, str, str], border: float
) -> tuple[pd.DataFrame, str]:
    """Return the replicates of one treatment that spread most in the adjoint metric, and the reason for the choice.

    Candidates are treatments with at least two completed replicates of finite metric whose accuracies are not
    all equal: equal ones have no order to compare. Those with replicates both inside and outside the vanishing regime of `border` go first, as in the text; among them the
    largest spread (maximum less minimum) of the metric wins. The candidates are sought in the text's
    `architecture` and `task` (data set, order, noise), then in its architecture, order and noise, then in its architecture, then everywhere.

    `frame` has terminal iterates; the result has all completed replicates of the treatment, those of infinite metric included, and is empty where none qualifies.
    """
    groups = frame.assign(
        finite=frame["metric"].where(np.isfinite(frame["metric"])),
        vanished=regimes(frame["metric"], border) == VANISHED,
    ).groupby(list(TREATMENT), sort=True)
    table = groups.agg(
        replicates=("finite", "count"),
        low=("finite", "min"),
        high=("finite", "max"),
        vanished=("vanished", "mean"),
        accuracies=("accuracy", "nunique"),
    ).reset_index()
    table = table[(table["replicates"] >= 2) & (table["accuracies"] >= 2)]
    table["spread"] = table["high"] - table["low"]
    table["mixed"] = table["vanished"].between(0, 1, inclusive="neither")
    dataset, order, noise = task
    own = table["architecture"] == architecture
    varied = own & (table["order"] == order) & (table["noise"] == noise)
    scopes = {
        "the architecture and task of the text": varied & (table["dataset"] == dataset),
        f"{dataset} offers none: the same architecture, order and noise elsewhere": varied,
        "its task offers none: the same architecture on any task": own,
        "its architecture offers none: any treatment": np.full(len(table), True),
    }
    if table.empty:
        return frame.iloc[:0], "no treatment has two of finite metric and different accuracy"
    scope, inside = next((scope, inside) for scope, inside in scopes.items() if inside.any())
    best = table[inside].sort_values(["mixed", "spread"], ascending=False).iloc[0]
    rows = frame[(frame[list(TREATMENT)] == best[list(TREATMENT)].tolist()).all(axis=1)]
    regime = "replicates in both regimes" if best["mixed"] else "all replicates in one regime"
    return rows.reset_index(drop=True), f"{scope}; largest spread of the metric; {regime}"


def _rates(ds: xr.Dataset, names: Iterable[str], by: Iterable[str] = ()) -> list[Finding]:
    if missing := ", ".join({*names} - {*ds["architecture"].values.tolist()}):
        return [unable(f"not trained: {missing}")]
    table = error_rates(attempts(ds), by=["architecture", *by]).query("architecture in @names")
    return [claims.share(row.diverged, row.entered) for row in table.itertuples()]


def _and_together(rates: list[Finding]) -> list[Finding]:
    """Return rates and that of all their attempts together: the smallest is no larger, and more attempts tell how large that can be."""
    if any(rate.trials is None for rate in rates):
        return rates
    failed = sum(round(rate.value * rate.trials) for rate in rates)
    return [*rates, claims.share(failed, sum(rate.trials for rate in rates))]


def _vanished(rows: pd.DataFrame, border: float | None) -> pd.Series:
    """Return which rows are in the vanishing regime, of the text's `border` by default, by the metric as single precision would have stored it."""
    border = published_border() if border is None else border
    return pd.Series(regimes(rows["metric_float32"], border) == VANISHED, index=rows.index)


def beyond_guessing(rows: pd.DataFrame, ds: xr.Dataset) -> pd.Series:
    """Return which terminal iterates are above chance among the attempts at their task: the best of networks that guess have learned nothing."""
    guess = rows["dataset"].map(ds["largest_class"].to_series())
    examples = rows["dataset"].map(ds["examples"].sel(split="test").to_series())
    tried = rows.groupby(list(TASK))["accuracy"].transform("size")
    return above_chance(rows["accuracy"], guess, examples, tried)


def mean_share(chosen: pd.Series, total: pd.Series) -> Finding:
    """Return the mean of the share of `chosen` among `total`, counts by task or by treatment: attempts at one task compete, those of one treatment are nearly alike.

    Where all or none are chosen in every one, Student's interval would have no width: then they are counted, exactly.
    """
    shares = chosen[total > 0] / total[total > 0]
    if len(shares) and shares.eq(shares.iloc[0]).all() and shares.iloc[0] in (0, 1):
        return claims.share(int(shares.sum()), len(shares))
    return claims.mean(shares)


def best_had_vanished_while_training(ds: xr.Dataset, border: float | None = None) -> Finding:
    """Return the share, of the attempts in the upper quartile, that were in the vanishing regime in some epoch."""
    ended, training = terminal(ds), epochs(ds, "train")
    ever = ended["attempt"].isin(training.loc[_vanished(training, border), "attempt"])
    top = (quartiles(ended) == TOP) & beyond_guessing(ended, ds)
    task = [ended[name] for name in TASK]
    return mean_share(*((which & top).groupby(task).sum() for which in (ever, top)))


def _among_vanished(rows: pd.DataFrame, chosen: pd.Series, border: float | None) -> pd.DataFrame:
    """Return for every treatment how many attempts vanished (``all``) and how many of these are `chosen`."""
    gone = _vanished(rows, border)
    counts = rows.assign(chosen=chosen & gone, all=gone).groupby(list(TREATMENT), observed=True)
    return counts[["chosen", "all"]].sum()


def vanished_are_among_the_best(ds: xr.Dataset, border: float | None = None) -> Finding:
    """Return the share, of the attempts that vanished at the end, that are in the upper quartile."""
    rows = terminal(ds)
    top = (quartiles(rows) == TOP) & beyond_guessing(rows, ds)
    counts = _among_vanished(rows, top, border)
    return mean_share(counts["chosen"], counts["all"])


def vanished_are_above_the_median(ds: xr.Dataset, border: float | None = None) -> Finding:
    """Return the smallest share over the task varieties, of treatments that vanished at the end, that have an attempt above the median."""
    rows = terminal(ds)
    upper = quartiles(rows).isin(QUARTILES[2:]) & beyond_guessing(rows, ds)
    kinds = _among_vanished(rows, upper, border).groupby(["order", "noise"])
    if not all(of["all"].any() for _, of in kinds):
        return unable("some task variety has no attempt with vanished adjoints")
    counts = ((of[["chosen", "all"]] > 0).sum() for _, of in kinds)
    return claims.smallest(claims.share(int(of["chosen"]), int(of["all"])) for of in counts)


def basic_rnn_nearest(ds: xr.Dataset) -> Finding:
    """Return how much nearer to zero the basic RNN is: each replicate of the design has its own best attempts, an independent difference."""
    rows = terminal(ds)
    rows = rows[(rows[list(TASK)] == ["imdb", "permuted", "uniform"]).all(axis=1)]
    differences = []
    for _, part in rows.groupby("replicate"):
        distance = nearest_zero(part).set_index("architecture")["metric"].abs()
        if "rnn" in distance and len(distance) > 1:
            differences.append(distance.drop("rnn").min() - distance["rnn"])
    return claims.mean(differences)


def nearer_is_worse(ds: xr.Dataset) -> Finding:
    """Return the correlation in Figure 3.5's treatments, chosen without a look at the order of their accuracies."""
    found = []
    for architecture, task in FIGURE_35.items():
        chosen, _ = choose_treatment(terminal(ds), architecture, task, published_border())
        if set(chosen["architecture"]) - {architecture}:
            return unable(f"no treatment of {architecture} has an order to compare")
        found.append(claims.correlation(chosen["accuracy"], -chosen["metric"].abs()))
    if any(np.isnan(one.low) for one in found):
        return unable("a treatment has too few replicates for a correlation")
    # The mean of two independent correlations: their errors add as squares.
    value = np.mean([one.value for one in found])
    low = value - np.hypot(*(one.value - one.low for one in found)) / 2
    high = value + np.hypot(*(one.high - one.value for one in found)) / 2
    return Finding(float(value), float(low), float(high))


COUNTEREXAMPLES: dict[str, Callable[..., Finding]] = {
    "diss-3.4-training-quartile": best_had_vanished_while_training,
    "diss-3.4-terminal-quartile": vanished_are_among_the_best,
    "diss-3.4-terminal-median": vanished_are_above_the_median,
}
"""Claims on attempts that learn with vanished gradients; the border of the regime is the text's where a claim is judged, and may be another one to see what hangs on it."""
_ATTEMPTS = {
    "diss-1.5.2-robust": lambda ds: claims.largest(_rates(ds, ROBUST)),
    "diss-1.5.2-fragile": lambda ds: claims.smallest(_and_together(_rates(ds, FRAGILE))),
    "diss-1.4-error-rate": lambda ds: claims.largest(_rates(ds, ROBUST, TASK)),
    **COUNTEREXAMPLES,
    "diss-3.4-basic-rnn": basic_rnn_nearest,
    "diss-3.4-inverse": nearer_is_worse,
}
judges = Judges({claim: judge_of(lambda e, of=of: of(e.ds)) for claim, of in _ATTEMPTS.items()})
"""The judges of numerical errors and counterexamples."""


# behaviours over tasks (chapter 1)

LARGE = 0.7
"""Explained variance that the text calls substantial."""
OF_ARCHITECTURE, OF_SETTINGS, CROSSED = task_models.EFFECTS
DECADES = 4
"""Powers of ten that the text's learning rates cover (Table 1.2): over much fewer, hyper-parameters have hardly an effect to differ."""


def spread_over_tasks(e: Evidence, fits: task_models.TaskFits, effect: str) -> Finding:
    """Return by how much coefficients differ between tasks beyond their errors, mean over coefficients.

    It is the standard deviation of the true coefficients (Paule and Mandel) with the interval of the Q profile (Viechtbauer 2007), from the largest of the three
    standard errors (the model's, the robust one, and the one that knows the binomial error of accuracies), its upper end from the smallest, in units of task accuracy: a slope is taken over half the range of its covariate.
    """
    of_effect = task_models.effect_of(fits.coefficients) == effect
    # The intercept is a level, not what an architecture changes.
    table = fits.coefficients[of_effect & (fits.coefficients["term"] != "intercept")]
    reach = np.ptp(np.log(e.ds["learning_rate"].values)) / 2
    units = {"log_rate": reach, "log_rate_squared": reach**2}
    units |= {name: np.ptp(e.ds[name].values) / 2 for name in ("width", "training_length")}
    found = []
    for (term, _), rows in table.groupby(comparisons.TERM, sort=False):
        errors = rows[["se", "robust_se", "weighted_se"]].agg(["max", "min"], axis=1)
        known = (errors["min"] > 0) & rows["robust_se"].notna()
        unit = next((units[n] for n in units if term.endswith(COVARIATES[n].label)), 1.0)
        if known.sum() > 2:
            estimates, both = rows["estimate"][known].to_numpy(), errors[known].to_numpy().T
            most, least = (_between(estimates, error) for error in both)
            found.append(unit * np.array([*most[:2], max(most[2], least[2])]))
    if not found:
        return unable("no coefficient is known at three tasks")
    low, value, high = np.mean(found, axis=0)
    return Finding(float(value), float(low), float(high))


def _between(estimate: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return low end, value and high end of the standard deviation of what `estimate` measures with `error`."""

    def q(variance: float) -> float:
        weight = 1 / (error**2 + variance)
        middle = np.average(estimate, weights=weight)
        return float(weight @ (estimate - middle) ** 2)

    free, tail, ends = len(estimate) - 1, (1 - CONFIDENCE) / 2, []
    for target in (stats.chi2.isf(tail, free), free, stats.chi2.ppf(tail, free)):
        top = np.var(estimate) + error.max() ** 2
        while q(top) > target:
            top *= 4
        ends.append(brentq(lambda v, t=target: q(v) - t, 0.0, top) if q(0.0) > target else 0.0)
    return np.sqrt(ends)


def _second_order(e: Evidence, effect: str) -> Finding:
    if (decades := np.ptp(np.log10(e.ds["learning_rate"].values))) < DECADES / 2:
        return unable(f"learning rates over {decades:.1f} decades; the text's cover {DECADES}")
    return spread_over_tasks(e, e.second, effect)


def _share_of_tests(table: pd.DataFrame) -> Finding:
    made = table[table["p_value"].notna()]
    if made.empty:
        return unable(table["cause"].iloc[0])
    rejected = claims.share(int((made["p_bonferroni"] < LEVEL).sum()), len(made))
    # A test that does not reject refutes nothing, and how often it would is not known in general.
    return replace(rejected, high=1.0, chance=lambda *_: np.nan)


def _variances(e: Evidence) -> Finding:
    table = comparisons.compare_variances(e.best).query("test == 'levene'")
    made = table.dropna(subset="p_value")
    return replace(_share_of_tests(table), chance=partial(_chance_of_tests, made))


def _chance_of_tests(made: pd.DataFrame, region: claims.Region, _: float) -> float:
    """Return the chance that enough tests of variances reject where these differ as much as they can: normal accuracies in some tasks, always the same in the others."""
    tasks, size = made["tasks"].max(), (made["attempts"] // made["tasks"]).max()
    drawn = np.random.default_rng(0).standard_normal((tasks, 1000, size))
    varied = [drawn * (np.arange(tasks) < some)[:, None, None] for some in range(1, tasks)]
    found = [np.mean(len(made) * stats.levene(*one, axis=1).pvalue < LEVEL) for one in varied]
    return claims.counted_chance(len(made), region, max(found))


def _times(e: Evidence) -> Finding:
    times = comparisons.convergence_times(e.ds, e.best)
    return _share_of_tests(comparisons.compare_times(e.frame, times, by=("dataset",)))


def _share_explained(fits: task_models.TaskFits) -> Finding:
    explained = fits.summary["adj_r2"].dropna()
    return claims.share(int((explained > LARGE).sum()), len(explained))


_TASKS = {
    "diss-1.4-first-order-accuracy": lambda e: spread_over_tasks(e, e.first, OF_ARCHITECTURE),
    "diss-1.4-variance": _variances,
    "diss-1.4-convergence": _times,
    "diss-1.4-second-order-architecture": partial(_second_order, effect=OF_ARCHITECTURE),
    "diss-1.4-second-order-hyperparameters": partial(_second_order, effect=OF_SETTINGS),
    "diss-1.4-second-order-interactions": partial(_second_order, effect=CROSSED),
    "diss-1.5.1-variance-explained": lambda e: _share_explained(e.first),
    "diss-1.5.2-variance-explained": lambda e: _share_explained(e.second),
}
over_tasks = Judges({claim: judge_of(quantity) for claim, quantity in _TASKS.items()})
"""The judges of chapter 1."""


# the twelve models (3.5)

QUANTITIES: dict[int, dict[str, int | tuple[int, int] | Callable[[Evidence], np.ndarray]]] = {
    1: {
        "diss-3.5-training-alone": 1,
        "diss-3.5-training-omission": (2, 3),
        "diss-3.5-training-range": lambda e: (
            np.abs(e.slope(2)) * np.ptp(e.rows(TRAINING, SINGLE).column("metric"))
        ),
    },
    2: {
        "diss-3.5-terminal-stronger": lambda e: e.r2(4) - e.r2(1),
        "diss-3.5-terminal-mild": 4,
        "diss-3.5-terminal-factors": (5, 6),
        # Tasks of larger metrics may be the more accurate ones, which says nothing of networks.
        "diss-3.5-terminal-sign": lambda e: np.minimum(e.slope(5), e.slope(5, WITHIN)),
    },
    3: {
        "diss-3.5-reverse-training-alone": 7,
        "diss-3.5-reverse-training-beside": (8, 9),
        "diss-3.5-reverse-training-size": lambda e: np.abs([e.slope(7), e.slope(8)]).max(0),
    },
    4: {
        "diss-3.5-reverse-terminal-stronger": lambda e: e.r2(10) - e.r2(7),
        "diss-3.5-reverse-terminal-beside": (11, 12),
        "diss-3.5-reverse-terminal-drop": lambda e: e.slope(11) / e.slope(10),
    },
}
"""What decides the claims on each family of models: what one explains of the variance, or one more than another without its predictor, or a number and draws of it."""


def draws_of(e: Evidence, quantity) -> np.ndarray:
    """Return one of `QUANTITIES`, and draws of it."""
    if callable(quantity):
        return quantity(e)
    return e.r2(quantity) if isinstance(quantity, int) else np.subtract(*map(e.r2, quantity))


def _of_draws(quantity) -> Callable[[Evidence], Finding]:
    of_variance = not callable(quantity)
    return lambda e: Finding(*interval(draws_of(e, quantity)), of_variance=of_variance)


JUDGES = {
    family: Judges({claim: judge_of(_of_draws(one)) for claim, one in quantities.items()})
    for family, quantities in QUANTITIES.items()
}
"""The judges of each family of models."""
