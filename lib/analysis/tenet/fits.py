"""Fit the twelve models to their observations (`lib.analysis.linear`)."""

from collections.abc import Iterable, Mapping

import numpy as np
import xarray as xr

from lib.analysis import linear
from lib.analysis.design import Design, NothingToFit, design
from lib.analysis.linear import Fit
from lib.analysis.reml import ConvergenceError
from lib.analysis.tenet.models import ACCURACY, METRIC, MODELS, Model
from lib.analysis.tenet.rows import TRUE, Rows, rows
from lib.analysis.unequal import Unequal, with_own_variances


def columns(model: Model, observations: Rows) -> Design:
    """Return the columns of `model` over `observations`, without what they cannot estimate.

    Raises
    ------
    NothingToFit
        The response is the same in every row, each attempt has a single row where a random intercept is asked for, or
        there are no more rows than coefficients.
    ValueError
        The observations are of the other kind.
    """
    if observations.kind != model.rows:
        raise ValueError(
            f"{model.name} is fitted to {model.rows} rows, got {observations.kind} rows"
        )
    response, count = observations.column(model.response), len(observations)
    if np.ptp(response) == 0:
        raise NothingToFit(
            f"{model.name}: the {model.response} is {response[0]:g} in all {count:,} rows; a constant has no variance to explain"
        )
    if model.random and count == len(observations.attempts):
        raise NothingToFit(
            f"{model.name}: each of the {count:,} attempts has a single {model.rows} row, so an intercept per attempt "
            "cannot be told from the residual; train for two epochs or more"
        )
    made = design(
        model.terms,
        observations.attempts,
        response,
        attempt=observations.attempt,
        measured={name: observations.column(name) for name in (ACCURACY, METRIC, "epoch")},
    )
    if count <= len(made.names):
        raise NothingToFit(
            f"{model.name} has {len(made.names)} coefficients and {count} rows; train more attempts"
        )
    return made


def fit(model: Model, observations: Rows, *, engine: str = "profiled") -> Fit:
    """Estimate `model` from `observations`; `engine` as in `lib.analysis.linear.fit`.

    Raises
    ------
    NothingToFit
        The rows do not allow the model at all.
    lib.analysis.reml.ConvergenceError
        There is no estimate that can be trusted.
    """
    made = columns(model, observations)
    try:
        return linear.fit(made, random=model.random, engine=engine)
    except ConvergenceError as error:
        raise ConvergenceError(f"{model.name} ({model.response}): {error}") from None


def refit(
    fits: Mapping[int, Fit], observations: Mapping[str, Rows]
) -> tuple[dict[int, Unequal], dict[int, str]]:
    """Return the models with variances of its own for each architecture, and why there is none, both by number."""
    found, refused = {}, {}
    for number, made in fits.items():
        names = observations[MODELS[number].rows].attempts["architecture"].astype(str)
        try:
            found[number] = with_own_variances(made, names.to_numpy())
        except ConvergenceError as error:
            refused[number] = f"{MODELS[number].name}: {error}"
    return found, refused


def fit_models(
    ds: xr.Dataset, numbers: Iterable[int], *, view: str = TRUE, centre: float = 1.0
) -> tuple[dict[str, Rows], dict[int, Fit]]:
    """Fit several of the twelve models to the results of the factorial experiment.

    Returns
    -------
    tuple
        The observations by kind, and the fits by number; `view` and `centre` as in `lib.analysis.tenet.rows.rows`.
    """
    observations: dict[str, Rows] = {}
    fits = {}
    for number in numbers:
        kind = MODELS[number].rows
        if kind not in observations:
            observations[kind] = rows(ds, kind, view=view, centre=centre)
        fits[number] = fit(MODELS[number], observations[kind])
    return observations, fits
