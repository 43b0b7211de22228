"""Claims about attempts that end in a numerical error (sections 1.4 and 1.5.2).

An attempt that fails stays failed, so more epochs can only raise an error rate. If our attempts are
shorter than the paper's, failures that we count are evidence, and the lack of failures is not: a
small rate can't confirm that an architecture is robust, or refute that it is fragile.
"""

from collections.abc import Iterable
from dataclasses import replace

import pandas as pd
import xarray as xr

from study.claims.estimates import ByVerdict, Cause, Estimate, Reasons, not_testable
from study.claims.extremes import largest, smallest
from study.claims.factorial import judges_of, of_dataset
from study.claims.intervals import proportion
from study.results.factorial import TASK
from study.results.published import load_published
from study.stats.attempts import attempts, error_rates

ROBUST = ("exponential", "antisymmetric", "unicornn")
FRAGILE = ("rnn", "lstm", "gru", "lipschitz")


def _rates(ds: xr.Dataset, names: Iterable[str], factors: Iterable[str] = ()) -> list[Estimate]:
    """Return the error rates of some architectures, for each combination of the factors."""
    names = list(names)
    trained = ds["architecture"].values.tolist()
    missing = [name for name in names if name not in trained]
    if missing:
        return [not_testable(f"not trained: {', '.join(missing)}", Cause.NO_DATA)]
    largest_rate = float(ds["learning_rate"].max())
    papers = float(_published_levels("learning_rate").max())
    if largest_rate < papers:
        reason = (
            f"not tested: our learning rates go up to {largest_rate:g}, the paper's up to "
            f"{papers:g}, and large steps are the usual cause of numerical errors"
        )
        return [not_testable(reason, Cause.TOO_SMALL)]
    table = error_rates(attempts(ds), by=["architecture", *factors])
    table = table[table["architecture"].isin(names)]
    return [proportion(row.diverged, row.entered) for row in table.itertuples()]


def _published_levels(factor: str) -> pd.Series:
    """Return the levels of a factor in the paper's factorial experiment (Table 3.2)."""
    levels = load_published("diss-tab-3.2").query("factor == @factor")["level"]
    return levels.astype(float)


def _fewer_epochs(rates: list[Estimate], ds: xr.Dataset) -> Reasons:
    """Explain that our attempts are shorter than the paper's; empty if not, or without rates."""
    if not all(rate.known for rate in rates):
        return ()
    ours = int(ds["training_length"].max())
    papers = int(_published_levels("training_length").min())
    if ours >= papers:
        return ()
    return (
        f"our runs take {ours} epochs and the paper's at least {papers}; more epochs can only add "
        "failures",
    )


def _too_short_to_agree(rates: list[Estimate], ds: xr.Dataset) -> list[Estimate]:
    """Note that short attempts can't confirm a claim of few failures."""
    too_short = ByVerdict(to_agree=_fewer_epochs(rates, ds))
    return [replace(rate, too_short=too_short) for rate in rates]


def _too_short_to_differ(rates: list[Estimate], ds: xr.Dataset) -> list[Estimate]:
    """Note that short attempts can't refute a claim of many failures."""
    too_short = ByVerdict(to_differ=_fewer_epochs(rates, ds))
    return [replace(rate, too_short=too_short) for rate in rates]


def robust_error_rate(ds: xr.Dataset) -> Estimate:
    """Estimate the largest error rate of the three architectures that the paper calls robust.

    Parameters
    ----------
    ds
        Results of the factorial.

    Returns
    -------
    Estimate
        A share of attempts; not testable if our learning rates end below the paper's.
    """
    return largest(_too_short_to_agree(_rates(ds, ROBUST), ds))


def robust_error_rate_of_a_task(ds: xr.Dataset) -> Estimate:
    """Estimate the largest error rate of the three architectures on any task.

    Parameters
    ----------
    ds
        Results of the factorial.

    Returns
    -------
    Estimate
        A share of attempts; not testable if our learning rates end below the paper's.
    """
    return largest(_too_short_to_agree(_rates(ds, ROBUST, TASK), ds))


def fragile_error_rate(ds: xr.Dataset) -> Estimate:
    """Estimate the smallest error rate of the four other architectures.

    The pooled rate of all four is added to the four rates: the smallest rate can't be larger, and
    the pooled one is estimated from more attempts.

    Parameters
    ----------
    ds
        Results of the factorial.

    Returns
    -------
    Estimate
        A share of attempts; not testable if our learning rates end below the paper's.
    """
    rates = _rates(ds, FRAGILE)
    if all(rate.n is not None for rate in rates):
        failed = sum(round(rate.value * rate.n) for rate in rates)
        rates.append(proportion(failed, sum(rate.n for rate in rates)))
    return smallest(_too_short_to_differ(rates, ds))


judge_error_rates = judges_of(
    {
        "diss-1.5.2-robust": of_dataset(robust_error_rate),
        "diss-1.5.2-fragile": of_dataset(fragile_error_rate),
        "diss-1.4-error-rate": of_dataset(robust_error_rate_of_a_task),
    }
)
"""The judges of error rates."""
