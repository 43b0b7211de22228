"""Claims about attempts that learn although their gradients vanished (section 3.4).

`study.stats.treatments` has the rules that choose the attempts of Figures 3.4 and 3.5.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import xarray as xr

from study.claims.estimates import Cause, Estimate, not_testable
from study.claims.extremes import smallest
from study.claims.factorial import judges_of, of_dataset
from study.claims.intervals import correlation, mean, odds_ratio, proportion
from study.results.factorial import TASK, TREATMENT
from study.results.learned import above_chance
from study.results.quartiles import QUARTILES, TOP, quartiles
from study.stats.attempts import epochs, terminal
from study.stats.regimes import VANISHED, published_threshold, regimes
from study.stats.treatments import FIGURE_35, choose_treatment, nearest_zero


def vanished_rows(rows: pd.DataFrame, threshold: float | None) -> pd.Series:
    """Return which rows are in the vanishing regime, with norms as float32 would have stored them.

    Parameters
    ----------
    rows
        Epochs or terminal iterates with ``metric_float32``.
    threshold
        Threshold in orders of magnitude; the paper's if None.

    Returns
    -------
    pandas.Series
        Boolean, one per row.
    """
    if threshold is None:
        threshold = published_threshold()
    return pd.Series(regimes(rows["metric_float32"], threshold) == VANISHED, index=rows.index)


def beyond_chance(rows: pd.DataFrame, ds: xr.Dataset) -> pd.Series:
    """Return which terminal iterates are above chance, corrected for the attempts at their task.

    The best of many networks that guess may be above chance by luck.

    Parameters
    ----------
    rows
        Terminal iterates.
    ds
        The factorial's results.

    Returns
    -------
    pandas.Series
        Boolean, one per row.
    """
    guess = rows["dataset"].map(ds["largest_class"].to_series())
    examples = rows["dataset"].map(ds["examples"].sel(split="test").to_series())
    tried = rows.groupby(list(TASK))["accuracy"].transform("size")
    return above_chance(rows["accuracy"], guess, examples, tried)


def mean_share(chosen: pd.Series, total: pd.Series) -> Estimate:
    """Estimate the mean of a share over tasks or treatments.

    Tasks or treatments are the independent units: attempts at one task compete with each other, and
    attempts of one treatment are nearly equal.

    Parameters
    ----------
    chosen, total
        Counts by task or by treatment.

    Returns
    -------
    Estimate
        With Student's interval, which would have no width if all shares are 0 or all are 1. In that
        case the estimate is the exact binomial proportion of units with a share of 1.
    """
    shares = chosen[total > 0] / total[total > 0]
    all_zero = shares.eq(0).all()
    all_one = shares.eq(1).all()
    if len(shares) and (all_zero or all_one):
        return proportion(int(shares.sum()), len(shares))
    return mean(shares)


def vanished_in_training(
    ds: xr.Dataset, ended: pd.DataFrame, threshold: float | None = None
) -> pd.Series:
    """Return which attempts were in the vanishing regime after an epoch of training.

    Parameters
    ----------
    ds
        The factorial's results.
    ended
        Terminal iterates.
    threshold
        Threshold of the regime in orders of magnitude; the paper's if None.

    Returns
    -------
    pandas.Series
        Boolean, one per row of `ended`.
    """
    training = epochs(ds, "train")
    vanished = training.loc[vanished_rows(training, threshold), "attempt"]
    return ended["attempt"].isin(vanished)


def best_had_vanished_in_training(ds: xr.Dataset, threshold: float | None = None) -> Estimate:
    """Estimate the share of upper-quartile attempts that were in the vanishing regime in an epoch.

    Parameters
    ----------
    ds
        The factorial's results.
    threshold
        Threshold of the regime in orders of magnitude; the paper's if None.

    Returns
    -------
    Estimate
        Mean share over tasks.
    """
    ended = terminal(ds)
    ever = vanished_in_training(ds, ended, threshold)
    top = (quartiles(ended) == TOP) & beyond_chance(ended, ds)
    task = [ended[name] for name in TASK]
    return mean_share((ever & top).groupby(task).sum(), top.groupby(task).sum())


def vanished_in_training_are_poor(ds: xr.Dataset) -> Estimate:
    """Estimate the share of attempts once in the vanishing regime that end in the lower half.

    Parameters
    ----------
    ds
        The factorial's results.

    Returns
    -------
    Estimate
        Mean share over tasks; 0.5 if vanishing had nothing to do with accuracy.
    """
    ended = terminal(ds)
    ever = vanished_in_training(ds, ended)
    lower = quartiles(ended).isin(QUARTILES[:2])
    task = [ended[name] for name in TASK]
    return mean_share((ever & lower).groupby(task).sum(), ever.groupby(task).sum())


def _among_vanished(rows: pd.DataFrame, chosen: pd.Series, threshold: float | None) -> pd.DataFrame:
    """Return, for every treatment, how many attempts vanished (``all``) and are ``chosen``."""
    vanished = vanished_rows(rows, threshold)
    counts = rows.assign(chosen=chosen & vanished, all=vanished)
    return counts.groupby(list(TREATMENT), observed=True)[["chosen", "all"]].sum()


def vanished_are_among_the_best(ds: xr.Dataset, threshold: float | None = None) -> Estimate:
    """Estimate the odds ratio of being in the upper quartile, vanished attempts over others.

    Attempts of one treatment are nearly equal, so each treatment counts at most once on each side:
    with the first of its replicates that vanished at the end, and with the first that did not.

    Parameters
    ----------
    ds
        The factorial's results.
    threshold
        Threshold of the regime in orders of magnitude; the paper's if None.

    Returns
    -------
    Estimate
        An odds ratio, below 1 if vanished attempts are rarer in the upper quartile.
    """
    rows = terminal(ds)
    top = (quartiles(rows) == TOP) & beyond_chance(rows, ds)
    rows = rows.assign(top=top, vanished=vanished_rows(rows, threshold)).sort_values("replicate")
    first = rows.drop_duplicates([*TREATMENT, "vanished"])
    vanished = first.loc[first["vanished"], "top"]
    others = first.loc[~first["vanished"], "top"]
    return odds_ratio(
        (int(vanished.sum()), len(vanished)),
        (int(others.sum()), len(others)),
    )


def vanished_are_above_the_median(ds: xr.Dataset, threshold: float | None = None) -> Estimate:
    """Estimate the smallest share, over task varieties, of vanished treatments above the median.

    A treatment counts if one of its vanished attempts is above the median of its task.

    Parameters
    ----------
    ds
        The factorial's results.
    threshold
        Threshold of the regime in orders of magnitude; the paper's if None.

    Returns
    -------
    Estimate
        A share of treatments.
    """
    rows = terminal(ds)
    upper = quartiles(rows).isin(QUARTILES[2:]) & beyond_chance(rows, ds)
    estimates = []
    for _, counts in _among_vanished(rows, upper, threshold).groupby(["order", "noise"]):
        if not counts["all"].any():
            reason = "some task variety has no attempt with vanished adjoints"
            return not_testable(reason, Cause.PREMISE)
        treatments = (counts[["chosen", "all"]] > 0).sum()
        estimates.append(proportion(int(treatments["chosen"]), int(treatments["all"])))
    return smallest(estimates)


def basic_rnn_nearest(ds: xr.Dataset) -> Estimate:
    """Estimate how much closer to zero the basic RNN's metric is than any other architecture's.

    Each architecture counts with its attempt whose metric is closest to zero, in each replicate of
    the design. Replicates give independent differences.

    Parameters
    ----------
    ds
        Results of the factorial.

    Returns
    -------
    Estimate
        A difference of distances from zero, in orders of magnitude; mean over replicates.
    """
    rows = terminal(ds)
    rows = rows[(rows[list(TASK)] == ["imdb", "permuted", "uniform"]).all(axis=1)]
    differences = []
    for _, part in rows.groupby("replicate"):
        distance = nearest_zero(part).set_index("architecture")["metric"].abs()
        if "rnn" in distance and len(distance) > 1:
            differences.append(distance.drop("rnn").min() - distance["rnn"])
    return mean(differences)


def nearer_is_worse(ds: xr.Dataset) -> Estimate:
    """Estimate the rank correlation of accuracy and closeness of the metric to zero.

    It is the mean over the two treatments of Figure 3.5, over the replicates of each. The rule that
    chooses the treatments does not use the order of accuracies.

    Parameters
    ----------
    ds
        Results of the factorial.

    Returns
    -------
    Estimate
        Between -1 and 1.
    """
    estimates = []
    for architecture, task in FIGURE_35.items():
        chosen, _ = choose_treatment(terminal(ds), architecture, task, published_threshold())
        if set(chosen["architecture"]) - {architecture}:
            reason = f"no treatment of {architecture} has an order to compare"
            return not_testable(reason, Cause.TOO_SMALL)
        estimates.append(correlation(chosen["accuracy"], -chosen["metric"].abs()))
    if not all(estimate.known for estimate in estimates):
        reason = "a treatment has too few replicates for a correlation"
        return not_testable(reason, Cause.NO_SEEDS)
    # The two correlations are independent, so the squares of their errors add up.
    value = np.mean([estimate.value for estimate in estimates])
    below = np.hypot(*(estimate.value - estimate.low for estimate in estimates)) / 2
    above = np.hypot(*(estimate.high - estimate.value for estimate in estimates)) / 2
    return Estimate(float(value), float(value - below), float(value + above))


COUNTEREXAMPLES: dict[str, Callable[..., Estimate]] = {
    "diss-3.4-training-quartile": best_had_vanished_in_training,
    "diss-3.4-terminal-quartile": vanished_are_among_the_best,
    "diss-3.4-terminal-median": vanished_are_above_the_median,
}
"""The quantity that decides each claim about vanished gradients, by id of the claim.

The threshold of the vanishing regime defaults to the paper's; vary it for a sensitivity analysis.
"""


judge_vanished = judges_of(
    {
        **{claim: of_dataset(quantity) for claim, quantity in COUNTEREXAMPLES.items()},
        "diss-3.4-training-majority": of_dataset(vanished_in_training_are_poor),
    }
)
"""The judges of `COUNTEREXAMPLES`, and of the claim that such attempts are exceptions."""
judge_examples = judges_of(
    {
        "diss-3.4-basic-rnn": of_dataset(basic_rnn_nearest),
        "diss-3.4-inverse": of_dataset(nearer_is_worse),
    }
)
"""The judges of the attempts in Figures 3.4 and 3.5."""
