"""Join the results of designs: factorial experiment, latching, experiment 2.2, interventions."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from study.config.factorial import Factorial
from study.config.latching import Latching
from study.config.linear_gaps import LinearGaps
from study.results.factorial import FACTORIAL, SPLITS
from study.results.interventions import INTERVENTIONS
from study.results.joined import join_results
from study.results.latching import LATCHING
from study.results.linear_gaps import LINEAR_GAPS
from study.training.intervention_design import TREATMENTS, Interventions
from study.training.job import Arrays, Attributes, Job


def factorial_to_dataset(
    designs: Sequence[Factorial],
    jobs: Sequence[Job],
    results: Sequence[Arrays],
    attributes: Attributes,
) -> xr.Dataset:
    """Join the attempts of the factorial experiment.

    Parameters
    ----------
    designs : sequence of Factorial
        One design.
    jobs : sequence of Job
        Its attempts.
    results : sequence of mapping
        Variables of each attempt.
    attributes : mapping
        Profile and settings.

    Returns
    -------
    xarray.Dataset
        In the schema `study.results.factorial.FACTORIAL`.
    """
    (design,) = designs
    epochs = range(1, max(design.training_length) + 1)
    inner = {"split": list(SPLITS), "epoch": list(epochs)}
    return join_results(FACTORIAL, [job.levels for job in jobs], results, inner, **attributes)


def linear_gaps_to_dataset(
    designs: Sequence[LinearGaps],
    jobs: Sequence[Job],
    results: Sequence[Arrays],
    attributes: Attributes,
) -> xr.Dataset:
    """Join the networks of experiment 2.2.

    Parameters
    ----------
    designs : sequence of LinearGaps
        One design.
    jobs : sequence of Job
        Its jobs.
    results : sequence of mapping
        Variables of each job.
    attributes : mapping
        Profile and settings.

    Returns
    -------
    xarray.Dataset
        In the schema `study.results.linear_gaps.LINEAR_GAPS`.
    """
    (design,) = designs
    times = range(1, design.time_steps + 1)
    inner = {"replicate": list(range(design.networks)), "time": list(times)}
    return join_results(LINEAR_GAPS, [job.levels for job in jobs], results, inner, **attributes)


def latching_to_dataset(
    designs: Sequence[Latching],
    jobs: Sequence[Job],
    results: Sequence[Arrays],
    attributes: Attributes,
) -> xr.Dataset:
    """Join the networks of the latching experiment.

    Parameters
    ----------
    designs : sequence of Latching
        One design.
    jobs : sequence of Job
        Its jobs.
    results : sequence of mapping
        Variables of each job.
    attributes : mapping
        Profile and settings.

    Returns
    -------
    xarray.Dataset
        In the schema `study.results.latching.LATCHING`. Every network has medians over sequences.
        One network, the example, has the values of all sequences. The example is the network whose
        largest error over horizons is smallest.
    """
    (design,) = designs
    inner = {
        "horizon": list(design.horizons),
        "sequence": list(range(design.probe_size)),
        "time": list(range(1, max(design.horizons) + 1)),
    }
    levels = [{"training": job.replicate} for job in jobs]
    ds = join_results(LATCHING, levels, results, inner, **attributes)
    adjoints = [arrays["adjoints"] for arrays in results]
    ds["adjoint_median"].values[:] = [np.median(values, axis=1) for values in adjoints]
    worst_error = ds["error"].max("horizon").fillna(np.inf)
    example = int(ds["training"].values[np.argmin(worst_error.values)])
    ds["example"] = ds["example"].copy(data=example)
    ds["state_norm"].values[:] = results[example]["states"]
    ds["adjoint"].values[:] = results[example]["adjoints"]
    return ds


def interventions_to_dataset(
    designs: Sequence[Interventions],
    jobs: Sequence[Job],
    results: Sequence[Arrays],
    attributes: Attributes,
) -> xr.Dataset:
    """Join the interventions on adjoint states.

    Parameters
    ----------
    designs : sequence of Interventions
        One design.
    jobs : sequence of Job
        Its jobs.
    results : sequence of mapping
        Variables of each job.
    attributes : mapping
        Profile and settings.

    Returns
    -------
    xarray.Dataset
        In the schema `study.results.interventions.INTERVENTIONS`.
    """
    (design,) = designs
    inner = {
        "treatment": list(TREATMENTS),
        "replicate": list(range(design.networks)),
        "stage": ["untrained", "trained"],
    }
    return join_results(INTERVENTIONS, [job.levels for job in jobs], results, inner, **attributes)
