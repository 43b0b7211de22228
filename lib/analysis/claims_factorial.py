"""What the factorial experiment says of the text's claims that need no model: numerical errors (1.5.2) and counterexamples (3.4)."""

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
import xarray as xr

from lib.analysis.attempts import TASK, attempts, epochs, error_rates, terminal
from lib.analysis.claims_tenet import judge_of
from lib.analysis.quartiles import QUARTILES, TOP, quartiles
from lib.analysis.regimes import VANISHED, published_border, regimes
from lib.analysis.selection import FIGURE_35, choose_treatment, nearest_zero
from lib.results.claims import Finding, Judges, correlation, largest, mean, share, smallest, unable
from lib.results.learned import above_chance

ROBUST = ("exponential", "antisymmetric", "unicornn")
FRAGILE = ("rnn", "lstm", "gru", "lipschitz")


def _rates(ds: xr.Dataset, names: Iterable[str], by: Iterable[str] = ()) -> list[Finding]:
    table = error_rates(attempts(ds), by=["architecture", *by])
    table = table[table["architecture"].isin(names)]
    return [share(row.diverged, row.entered) for row in table.itertuples()]


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


def share_by_task(chosen: pd.Series, total: pd.Series) -> Finding:
    """Return the mean over tasks of the share of `chosen` among `total`, counts by task: attempts at one task compete and depend on each other.

    Where all or none are chosen at every task, Student's interval would have no width: then tasks are counted, exactly.
    """
    shares = chosen[total > 0] / total[total > 0]
    if len(shares) and shares.eq(shares.iloc[0]).all() and shares.iloc[0] in (0, 1):
        return share(int(shares.sum()), len(shares))
    return mean(shares)


def best_had_vanished_while_training(ds: xr.Dataset, border: float | None = None) -> Finding:
    """Return the share, of the attempts in the upper quartile, that were in the vanishing regime in some epoch."""
    ended, training = terminal(ds), epochs(ds, "train")
    ever = ended["attempt"].isin(training.loc[_vanished(training, border), "attempt"])
    top = (quartiles(ended) == TOP) & beyond_guessing(ended, ds)
    task = [ended[name] for name in TASK]
    return share_by_task(*((which & top).groupby(task).sum() for which in (ever, top)))


def vanished_are_among_the_best(ds: xr.Dataset, border: float | None = None) -> Finding:
    """Return the share, of the attempts that vanished at the end, that are in the upper quartile."""
    rows = terminal(ds)
    top = (quartiles(rows) == TOP) & beyond_guessing(rows, ds)
    gone = _vanished(rows, border)
    return share(int((top & gone).sum()), int(gone.sum()))


def vanished_are_above_the_median(ds: xr.Dataset, border: float | None = None) -> Finding:
    """Return the smallest share over the task varieties of attempts that vanished at the end and are above the median."""
    rows = terminal(ds)
    upper = quartiles(rows).isin(QUARTILES[2:]) & beyond_guessing(rows, ds)
    kinds = rows.assign(upper=upper)[_vanished(rows, border)]
    found = [share(int(k.sum()), len(k)) for _, k in kinds.groupby(["order", "noise"])["upper"]]
    if len(found) < ds.sizes["order"] * ds.sizes["noise"]:
        return unable("some task variety has no attempt with vanished adjoints")
    return smallest(found)


def basic_rnn_nearest(ds: xr.Dataset) -> Finding:
    """Return how much nearer to zero the basic RNN is: each replicate of the design has its own best attempts, an independent difference."""
    rows = terminal(ds)
    rows = rows[(rows[list(TASK)] == ["imdb", "permuted", "uniform"]).all(axis=1)]
    differences = []
    for _, part in rows.groupby("replicate"):
        distance = nearest_zero(part).set_index("architecture")["metric"].abs()
        if "rnn" in distance and len(distance) > 1:
            differences.append(distance.drop("rnn").min() - distance["rnn"])
    return mean(differences)


def nearer_is_worse(ds: xr.Dataset) -> Finding:
    """Return the correlation in Figure 3.5's treatments, chosen without a look at the order of their accuracies."""
    found = []
    for architecture, task in FIGURE_35.items():
        chosen, _ = choose_treatment(terminal(ds), architecture, task, published_border())
        found.append(correlation(chosen["accuracy"], -chosen["metric"].abs()))
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
    "diss-1.5.2-robust": lambda ds: largest(_rates(ds, ROBUST)),
    "diss-1.5.2-fragile": lambda ds: smallest(_rates(ds, FRAGILE)),
    "diss-1.4-error-rate": lambda ds: largest(_rates(ds, ROBUST, TASK)),
    **COUNTEREXAMPLES,
    "diss-3.4-basic-rnn": basic_rnn_nearest,
    "diss-3.4-inverse": nearer_is_worse,
}
judges = Judges({claim: judge_of(lambda e, of=of: of(e.ds)) for claim, of in _ATTEMPTS.items()})
