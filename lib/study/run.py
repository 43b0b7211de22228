"""Run what is missing of a study and join everything to one dataset."""

from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import xarray as xr

from lib import results
from lib.cells import make_cell
from lib.jobs import run_jobs
from lib.params import Profile, StudySection
from lib.study.plan import Block, engines, plan_blocks, training_settings
from lib.tasks import TaskData, load_prepared, time_steps
from lib.train import RECIPE, Record, train_attempt


def run_study(
    profile_name: str, profile: Profile, prepared: str | Path, cache: str | Path
) -> xr.Dataset:
    """Train every attempt of the design that has no shard yet; return all as one validated dataset.

    Parameters
    ----------
    profile_name, profile
        The design and its settings.
    prepared
        Folder with one ``<dataset>.nc`` each.
    cache
        Folder for the shards; created if needed.

    Returns
    -------
    xarray.Dataset
        Schema of `lib.results`.

    Notes
    -----
    What was trained before is found in its shards, see `lib.jobs.run_jobs`.
    """
    prepared, settings = Path(prepared), profile.study
    blocks = plan_blocks(profile, prepared)
    found = run_jobs(
        "study",
        blocks,
        partial(run_block, settings=settings),
        recipe=RECIPE,
        cache=cache,
        identity=lambda block: block.identity(settings),
        work=lambda block: block.work,
        describe=str,
        scheduler=settings.scheduler,
        workers=settings.workers,
    )
    records = dict(zip(blocks, map(_records, found), strict=True))
    return _join(profile_name, profile, prepared, records)


def run_block(block: Block, settings: StudySection) -> dict[str, np.ndarray]:
    """Train a block's attempts one after the other; runs in a worker."""
    data = _load(block.prepared, block.prepared_hash, settings.train_size, settings.test_size)
    records = [train_attempt(attempt, data, settings) for attempt in block.attempts]
    return {
        "status": np.array([record.status for record in records]),
        "epochs_completed": np.array([record.epochs_completed for record in records]),
        **{f"measurements_{i}": record.measurements for i, record in enumerate(records)},
    }


def _records(found: dict[str, np.ndarray]) -> list[Record]:
    """Return what `run_block` returned, or its shard, as records."""
    ends = zip(found["status"].tolist(), found["epochs_completed"].tolist(), strict=True)
    return [Record(*end, found[f"measurements_{i}"]) for i, end in enumerate(ends)]


@lru_cache(maxsize=1)
def _load(path: Path, prepared_hash: str, train_size: int, test_size: int) -> TaskData:
    """Read a data set once for the blocks that follow each other; the hash tells a changed file."""
    return load_prepared(path, train_size, test_size)


def _join(
    profile_name: str, profile: Profile, prepared: Path, records: dict[Block, list[Record]]
) -> xr.Dataset:
    study = profile.study
    levels = {
        "architecture": list(study.architectures),
        "width": list(study.widths),
        "learning_rate": list(study.learning_rates),
        "training_length": list(study.training_lengths),
        "dataset": list(profile.data.datasets),
        "order": list(study.orders),
        "noise": list(study.noises),
        "replicate": list(range(study.replicates)),
        "epoch": list(range(1, max(study.training_lengths) + 1)),
    }
    settings = training_settings(study) | {
        "recipe": RECIPE,
        "engines": engines(study.architectures, study),
    }
    ds = results.empty(levels, profile=profile_name, settings=settings)
    position = {
        name: {level: i for i, level in enumerate(levels[name])} for name in results.ATTEMPT
    }
    for block, found in records.items():
        for attempt, record in zip(block.attempts, found, strict=True):
            at = tuple(position[name][getattr(attempt, name)] for name in results.ATTEMPT)
            ds["status"].values[at] = record.status
            ds["epochs_completed"].values[at] = record.epochs_completed
            for name, values in zip(results.MEASUREMENTS, record.measurements, strict=True):
                ds[name].values[at][:, : attempt.training_length] = values
    _describe_data(ds, study, prepared)
    return results.validate(ds)


def _describe_data(ds: xr.Dataset, study: StudySection, prepared: Path) -> None:
    """Fill in what follows from the data sets: labels, sizes, sequence lengths, parameter counts."""
    for i, name in enumerate(ds["dataset"].values.tolist()):
        data = load_prepared(prepared / f"{name}.nc", study.train_size, study.test_size)
        ds["classes"].values[i] = data.classes
        ds["examples"].values[i] = [
            min(study.probe_size or len(part.labels), len(part.labels))
            for part in (data.train, data.test)
        ]
        for j, noise in enumerate(study.noises):
            ds["time_steps"].values[i, j] = time_steps(data, noise)
        features = study.embedding_width if data.kind == "tokens" else data.features
        for a, architecture in enumerate(study.architectures):
            for w, width in enumerate(study.widths):
                cell = make_cell(architecture, features, width)
                ds["parameters"].values[a, w, i] = sum(p.numel() for p in cell.parameters())
