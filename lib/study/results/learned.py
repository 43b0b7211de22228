"""Decide whether the networks of a set of results learned.

A result at chance level is not evidence for or against a claim.
"""

import numpy as np
import xarray as xr
from scipy.special import bdtrik

from study.results.schema import settings_of

SHARE_OF_TASKS = 5 / 6
"""Share of the tasks on which the best network must be above chance."""
SIGNIFICANCE = 0.05
"""Probability that networks that only guess count as networks that learned."""
LEARNED_ERROR = 0.9
"""An error counts as learned if it is below this share of the error at chance."""


def chance_bound(guess, sequences, tried=1, level=SIGNIFICANCE):
    """Return the accuracy that the best of several guessing runs rarely exceeds.

    All arguments may be arrays of one shape.

    Parameters
    ----------
    guess : float or array
        Accuracy of guessing, a share.
    sequences : int or array
        Number of test sequences. Runs that are tested on the same sequences are not independent, so
        their number does not increase it.
    tried : int or array
        Number of runs among which the best is chosen (Bonferroni).
    level : float
        Probability that the best run is above the bound although all of them guess.

    Returns
    -------
    float or array
        The bound, a share: a binomial quantile.

    Examples
    --------
    >>> round(float(chance_bound(0.1, 10_000)), 5)
    0.10505
    """
    correct = np.ceil(bdtrik(1 - level / tried, sequences, guess))  # the binomial quantile
    return (correct + 0.5) / sequences  # between two counts, so that rounding a share is harmless


def above_chance(accuracy, guess, sequences, tried=1):
    """Return whether accuracies are above `chance_bound`.

    Parameters
    ----------
    accuracy : float or array
        Accuracies, shares.
    guess, sequences, tried
        As in `chance_bound`.

    Returns
    -------
    bool or array of bool
        Whether each is above the bound.
    """
    return accuracy > chance_bound(guess, sequences, tried)


def networks_learned(ds: xr.Dataset) -> bool | None:
    """Return whether networks are clearly above chance on most tasks of a dataset.

    Parameters
    ----------
    ds
        Results of any schema.

    Returns
    -------
    bool or None
        None if the schema has no rule. The rules by schema:

        - rows: the best run, on most tasks (`rows_learned`);
        - factorial: the best architecture, on most tasks (`tasks_learned`); and each architecture,
          on at least one task, because the experiment studies networks that fail on tasks that
          others learn;
        - linear gaps: the best network, for most of the deciding inputs;
        - interventions: the best network with ordinary backpropagation, at most of the locations;
        - latching: the best run has an error below the tolerance.
    """
    match ds.attrs.get("schema", "").partition("/")[0]:
        case "rows":
            learned = rows_learned(ds)
        case "factorial":
            by_architecture = tasks_learned(ds)
            tasks = [dim for dim in by_architecture.dims if dim != "architecture"]
            every_architecture = by_architecture.any(tasks).all()
            learned = by_architecture.any("architecture") & every_architecture
        case "linear_gaps":
            best = ds["accuracy"].max(["orthogonality", "replicate"])
            tried = ds["accuracy"].size // best.size
            learned = above_chance(best, 0.5, settings_of(ds)["test_size"], tried)
        case "interventions":
            best = ds["test_accuracy"].sel(treatment="plain").max(["cell", "replicate"])
            tried = ds.sizes["cell"] * ds.sizes["replicate"]
            chance = float(ds["chance"].max())
            learned = above_chance(best, chance, int(ds["test_sequences"].min()), tried)
        case "latching":
            learned = ds["error"].min() < settings_of(ds)["tolerance"]
        case _:
            return None
    return bool(learned.mean() >= SHARE_OF_TASKS)


def rows_learned(ds: xr.Dataset) -> xr.DataArray:
    """Return for every task of a group whether the best of its runs is clearly above chance.

    Parameters
    ----------
    ds
        Results of a group of rows.

    Returns
    -------
    xarray.DataArray
        By ``task_settings``. An accuracy is judged by an exact binomial test with Bonferroni's
        correction over all records of the task; an error must be a tenth below that at chance.
    """
    within_run = [dim for dim in ds["test_metric"].dims if dim != "run"]
    task = ds["task_settings"]
    records = ds["records"].groupby(task).sum(...).sel(task_settings=task)
    accurate = above_chance(
        ds["test_metric"].max(within_run),
        ds["guess_metric"],
        ds["test_sequences"],
        records.drop_vars("task_settings"),
    )
    small_error = ds["test_metric"].min(within_run) < LEARNED_ERROR * ds["guess_metric"]
    return accurate.where(ds["metric"] == "accuracy", small_error).groupby(task).max()


def tasks_learned(ds: xr.Dataset) -> xr.DataArray:
    """Return on which tasks each architecture's best network is clearly above chance.

    Parameters
    ----------
    ds
        Results of the factorial experiment.

    Returns
    -------
    xarray.DataArray
        Over ``architecture``, ``dataset``, ``order`` and ``noise``.
    """
    accuracy = ds["accuracy"].sel(split="test", epoch=ds["training_length"])
    factors = ("architecture", "dataset", "order", "noise")
    best = accuracy.max([dim for dim in accuracy.dims if dim not in factors])
    examples = ds["examples"].sel(split="test")
    return above_chance(best, ds["largest_class"], examples, accuracy.size // best.size)
