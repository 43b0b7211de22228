"""Small made-up results with everything that can go wrong in real ones.

Three architectures, one of them unknown to the papers, on twelve tasks. Among the attempts are one
that diverged after some epochs and one in the first, missing ones, an architecture that always
diverges on one task, norms of exactly zero on one side and on both, a task of constant accuracy and
one on which all gradients vanish.
"""

import numpy as np
import xarray as xr
from study.results.factorial import FACTORIAL, MEASUREMENTS, SPLITS
from study.results.schema import COMPLETED, DIVERGED, MISSING

LEVELS = {"architecture": ["rnn", "lstm", "brandnew"], "width": [4]}
LEVELS |= {"learning_rate": [0.001, 0.1], "training_length": [2, 3]}
LEVELS |= {"dataset": ["digits", "imdb"], "order": ["sequential", "permuted"]}
LEVELS |= {"noise": ["none", "post", "uniform"], "replicate": [0, 1, 2], "epoch": [1, 2, 3]}


def empty(levels: dict[str, list], **more) -> xr.Dataset:
    """Return a dataset of the design `levels` in which every attempt is missing."""
    return FACTORIAL.empty({**levels, "split": SPLITS}, **more)


def make_results(seed: int = 0, **levels: list) -> xr.Dataset:
    """Return valid made-up results; `levels` replace those of `LEVELS`."""
    rng = np.random.default_rng(seed)
    ds = empty({**LEVELS, **levels}, profile="smoke", settings={"made_up": True})
    ds["status"][:] = COMPLETED
    ds["status"][:] = xr.where(rng.random(ds["status"].shape) < 0.1, DIVERGED, ds["status"])
    ds["status"][:] = xr.where(rng.random(ds["status"].shape) < 0.1, MISSING, ds["status"])
    always = {"architecture": "lstm", "dataset": "digits", "order": "permuted", "noise": "post"}
    if all(value in ds[dim].values.tolist() for dim, value in always.items()):
        ds["status"].loc[always] = DIVERGED
    length = ds["training_length"].broadcast_like(ds["status"]).transpose(*ds["status"].dims)
    part = rng.integers(0, length.values)
    done = np.where(ds["status"] == COMPLETED, length, np.where(ds["status"] == DIVERGED, part, 0))
    ds["epochs_completed"][:] = done
    shape = ds["accuracy"].shape
    ds["loss"][:] = rng.random(shape)
    ds["accuracy"][:] = rng.integers(0, 11, shape) / 10
    for full in ("", "_full"):
        ds[f"adjoint_first{full}"][:] = rng.normal(-20, 25, shape)
        ds[f"adjoint_last{full}"][:] = rng.normal(-1, 1, shape)
    zero = rng.random(shape) < 0.1
    ds["adjoint_first"][:] = xr.where(zero, -np.inf, ds["adjoint_first"])
    ds["adjoint_last"][:] = xr.where(zero & (rng.random(shape) < 0.2), -np.inf, ds["adjoint_last"])
    first = {dim: ds[dim].values[0] for dim in ("dataset", "order", "noise")}
    last = {dim: ds[dim].values[-1] for dim in ("dataset", "order", "noise")}
    ds["accuracy"].loc[first] = 0.5
    ds["adjoint_first"].loc[last] = -np.inf
    ds["adjoint_last"].loc[last] = 0.0
    reached = ds["epoch"] <= ds["epochs_completed"]
    for name in MEASUREMENTS:
        ds[name] = ds[name].where(reached).transpose(*ds[name].dims).assign_attrs(ds[name].attrs)
    return FACTORIAL.validate(ds)
