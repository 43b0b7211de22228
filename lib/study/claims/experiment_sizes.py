"""Sizes of experiments, which reports print next to their estimates."""

import pandas as pd
import xarray as xr

from study.claims.claim import NetworkRef
from study.claims.estimates import Scale, gather
from study.claims.networks import Networks
from study.claims.search import rate_at_edge, rates_tried
from study.results.data_used import data_of, longest_sequence
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


def scale_of_networks(networks: Networks, *names: NetworkRef) -> Scale:
    """Return the size of the experiment behind some networks.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    names
        The networks.

    Returns
    -------
    Scale
        Empty if none was trained.
    """
    rows = pd.concat([networks.runs(name) for name in names])
    rows = rows.drop_duplicates(["run", "replicate"])
    if rows.empty:
        return Scale()
    return Scale(
        sequences=int(rows["sequences"].max()) or None,
        width=int(rows["width"].max()),
        replicates=int(rows["run"].value_counts().min()),
        test_size=int(rows["test_sequences"].max()),
        time_steps=int(rows["time_steps"].max()),
        data=data_of(rows["task_settings"]),
        steps=min(networks.steps_trained(name) for name in names if not networks.runs(name).empty),
        at_edge=gather(*(_edge_if_learned(networks, name) for name in names)),
        at_chance=gather(*(_rates_at_chance(networks, name) for name in names)),
    )


def _is_at_chance(networks: Networks, name: NetworkRef) -> bool:
    """Return whether a network was trained and does no better than chance."""
    return not networks.runs(name).empty and not networks.learned(name)


def _edge_if_learned(networks: Networks, name: NetworkRef) -> str:
    """Describe a best learning rate at the edge of the grid; empty for a network at chance.

    Which rate is best among networks at chance is a matter of luck.
    """
    if _is_at_chance(networks, name):
        return ""
    return rate_at_edge(networks, name)


def _rates_at_chance(networks: Networks, name: NetworkRef) -> str:
    """Count the runs at chance of a network that is, and name the learning rates that were tried.

    Empty if the network learned. One at chance may have single runs that learned, because the
    median over runs decides (`Networks.learned`).
    """
    if not _is_at_chance(networks, name):
        return ""
    rates = rates_tried(networks, name)
    tried = f"learning rate {rates[0]:g}"
    if len(rates) > 1:
        tried = f"the best of {len(rates)} learning rates from {rates[0]:g} to {rates[-1]:g}"
    return f"{networks.at_chance_in_words(name, networks.runs(name))} (at {tried})"
