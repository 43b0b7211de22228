"""The attempts of experiment 2.3, and the dataset that comes of them."""

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
import xarray as xr

from lib import kernels
from lib.experiments.padding.methods import CELLS
from lib.experiments.padding.results import ATTEMPT, MEASURED, SCHEMA, SPLITS, SWEEP
from lib.experiments.padding.training import RECIPE, Job, run_job
from lib.run.params import Profile
from lib.run.params.padding import PaddingSection
from lib.tasks import load_prepared
from lib.tasks.padded_rows import image_side
from lib.training.jobs import Experiment
from lib.training.jobs.shards import Arrays

_COST = {"adjoint": 1, "coadjoint": 2, "constrained": 1, "lstm": 3, "reservoir": 0.1, "linear": 2}
"""Time of one step, about, relative to backpropagation: for the order of the jobs alone."""


def attempts(section: PaddingSection, prepared: Path) -> tuple[dict[tuple, Job], dict[tuple, Job]]:
    """Return the jobs of Table 2.2 and of the sweep, by their levels of `ATTEMPT` and `SWEEP`.

    A sweep's attempt at kappa = 0 is plain backpropagation: where the table has the same attempt, both
    are one job.

    Raises
    ------
    ValueError
        A data set is not prepared.
    """
    make = partial(_job, section, _hashes(section, prepared))
    table = {
        levels: make(*levels, "orthogonal", section.kappa)
        for grid in section.grids
        for levels in itertools.product(
            grid.datasets, grid.paddings, grid.methods, grid.widths, range(grid.replicates)
        )
    }
    sweep = {}
    for levels in _sweep_levels(section):
        padding, initialisation, kappa, replicate = levels
        method = "coadjoint" if kappa > 0 else "adjoint"
        base = (section.sweep.dataset, padding, method, section.sweep.width, replicate)
        sweep[levels] = make(*base, initialisation, kappa)
    return table, sweep


def _sweep_levels(section: PaddingSection) -> Iterator[tuple]:
    sweep = section.sweep
    return itertools.product(
        sweep.paddings, sweep.initialisations, sweep.kappas, range(sweep.replicates)
    )


def _job(
    section: PaddingSection,
    hashes: dict[str, str],
    dataset: str,
    padding: int,
    method: str,
    width: int,
    replicate: int,
    initialisation: str,
    kappa: float,
) -> Job:
    cell = CELLS[method]
    runs = (cell, f"{cell}/adjoints") if method == "coadjoint" else (cell,)
    shared = section.model_dump(
        include={"epochs", "batch_size", "train_size", "test_size", "probe_size", "adjoint_size"}
    )
    return Job(
        dataset=dataset,
        padding=padding,
        method=method,
        width=width,
        initialisation=initialisation,
        kappa=float(kappa) if method == "coadjoint" else 0.0,
        replicate=replicate,
        orthogonality=section.orthogonality if method == "constrained" else 0.0,
        input_scale=1.0 if method == "lstm" else section.input_scale,
        learning_rate=section.learning_rates[method],
        **shared,
        prepared=hashes[dataset],
        engines=tuple(kernels.choose(name, "cpu", torch.float32) for name in runs),
    )


def _hashes(section: PaddingSection, prepared: Path) -> dict[str, str]:
    names = {section.sweep.dataset}.union(*(grid.datasets for grid in section.grids))
    hashes = {}
    for name in sorted(names):
        path = prepared / f"{name}.nc"
        if not path.exists():
            raise ValueError(f"data set {name!r} is not prepared: no {path}; run notebook 00 first")
        hashes[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return hashes


def plan(profile: Profile, prepared: Path) -> list[Job]:
    """Return each job of a profile once, those with the most work first."""
    table, sweep = attempts(profile.padding, prepared)
    return sorted(dict.fromkeys((*table.values(), *sweep.values())), key=lambda job: -_work(job))


def _work(job: Job) -> float:
    return _COST[job.method] * (1 + job.padding) * job.width * job.epochs


def join(
    profile_name: str, profile: Profile, found: Mapping[Job, Arrays], prepared: Path
) -> xr.Dataset:
    """Return the results of all jobs as one validated dataset of `SCHEMA`."""
    section = profile.padding
    table, sweep = attempts(section, prepared)
    levels = {dim: list(dict.fromkeys(key[i] for key in table)) for i, dim in enumerate(ATTEMPT)}
    levels |= {dim: list(dict.fromkeys(key[i] for key in sweep)) for i, dim in enumerate(SWEEP)}
    for dim in ("padding", "width", "replicate"):
        levels[dim].sort()
    levels |= {"split": list(SPLITS), "epoch": list(range(1, section.epochs + 1))}
    settings = section.model_dump(mode="json", exclude={"grids"}) | {"recipe": RECIPE}
    engines = {job.method: list(job.engines) for job in (*table.values(), *sweep.values())}
    ds = SCHEMA.empty(
        levels, profile=profile_name, settings=settings | {"engines": dict(sorted(engines.items()))}
    )
    for dims, prefix, jobs in ((ATTEMPT, "", table), (SWEEP, "sweep_", sweep)):
        place = {dim: {level: i for i, level in enumerate(levels[dim])} for dim in dims}
        for key, job in jobs.items():
            at = tuple(place[dim][level] for dim, level in zip(dims, key, strict=True))
            for name in ("status", *MEASURED):
                ds[prefix + name].values[at] = found[job][name]
    _describe_data(ds, section, prepared)
    return SCHEMA.validate(ds)


def _describe_data(ds: xr.Dataset, section: PaddingSection, prepared: Path) -> None:
    """Fill in what follows from the data sets: sizes, sequence lengths, shares of classes."""
    for i, name in enumerate(ds["dataset"].values.tolist()):
        data = load_prepared(prepared / f"{name}.nc", section.train_size, section.test_size)
        ds["examples"].values[i] = [len(part.targets) for part in (data.train, data.test)]
        ds["time_steps"].values[i] = (1 + ds["padding"].values) * image_side(data)
        shares = np.bincount(data.test.targets, minlength=data.outputs) / len(data.test.targets)
        ds["largest_class"].values[i] = shares.max()
        ds["first_class"].values[i] = shares[0]


PADDING = Experiment(name="padding", recipe=RECIPE, plan=plan, run=run_job, join=join, work=_work)
