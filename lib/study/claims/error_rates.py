"""Claims about attempts that end in a numerical error (sections 1.4 and 1.5.2)."""

from collections.abc import Iterable

import xarray as xr

from study.claims.estimates import Cause, Estimate, not_testable
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
    papers = _largest_published_rate()
    if largest_rate < papers:
        reason = (
            f"not tested: our learning rates go up to {largest_rate:g}, the paper's up to "
            f"{papers:g}, and large steps are the usual cause of numerical errors"
        )
        return [not_testable(reason, Cause.TOO_SMALL)]
    table = error_rates(attempts(ds), by=["architecture", *factors])
    table = table[table["architecture"].isin(names)]
    return [proportion(row.diverged, row.entered) for row in table.itertuples()]


def _largest_published_rate() -> float:
    """Return the largest learning rate of the paper's factorial experiment (Table 3.2)."""
    levels = load_published("diss-tab-3.2").query("factor == 'learning_rate'")["level"]
    return float(levels.astype(float).max())


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
    return largest(_rates(ds, ROBUST))


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
    return largest(_rates(ds, ROBUST, TASK))


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
    return smallest(rates)


judge_error_rates = judges_of(
    {
        "diss-1.5.2-robust": of_dataset(robust_error_rate),
        "diss-1.5.2-fragile": of_dataset(fragile_error_rate),
        "diss-1.4-error-rate": of_dataset(robust_error_rate_of_a_task),
    }
)
"""The judges of error rates."""
