"""Sizes of the experiments of chapter 2 and section 3.6, for their estimates."""

import xarray as xr

from study.claims.estimates import Scale
from study.results.data_used import longest_sequence
from study.results.schema import settings_of


def scale_of_settings(ds: xr.Dataset, replicates: int) -> Scale:
    """Return the size of an experiment whose dataset stores its settings.

    Parameters
    ----------
    ds
        Results of `linear_gaps` or `latching`.
    replicates
        Number of runs that enter.

    Returns
    -------
    Scale
    """
    settings = settings_of(ds)
    steps = settings.get("steps", settings.get("training_steps"))
    return Scale(
        sequences=steps * settings["batch_size"],
        width=settings["width"],
        replicates=replicates,
        test_size=settings["test_size"],
        time_steps=longest_sequence(ds),
    )


def scale_of_rows(ds: xr.Dataset) -> Scale:
    """Return the size of an experiment in which every run is a row with its settings.

    Parameters
    ----------
    ds
        Results of `coadjoint_gaps` or `padding`.

    Returns
    -------
    Scale
    """
    return Scale(
        width=int(ds["width"][0]),
        replicates=ds.sizes["replicate"],
        test_size=int(ds["test_sequences"][0]),
        time_steps=longest_sequence(ds),
    )
