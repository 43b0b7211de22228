"""Train a block of a study, and join all blocks to one dataset."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
import xarray as xr

from lib.cells import make_cell
from lib.experiments.factorial.plan import Block, engines, plan_blocks, training_settings
from lib.experiments.factorial.training import RECIPE, Record, train_attempt
from lib.results import factorial as results
from lib.run.params import Profile, StudySection
from lib.tasks import Task, load_prepared
from lib.tasks.variations import time_steps
from lib.training.jobs import Experiment
from lib.training.jobs.shards import Arrays


def run_block(block: Block, prepared: Path) -> dict[str, np.ndarray]:
    """Train a block's attempts one after the other; runs in a worker."""
    settings, path = block.settings, prepared / f"{block.attempts[0].dataset}.nc"
    data = _load(path, block.prepared, settings.train_size, settings.test_size)
    records = [train_attempt(attempt, data, settings) for attempt in block.attempts]
    return {
        "status": np.array([record.status for record in records]),
        "epochs_completed": np.array([record.epochs_completed for record in records]),
        **{f"measurements_{i}": record.measurements for i, record in enumerate(records)},
    }


def _records(arrays: Arrays) -> list[Record]:
    """Return what `run_block` returned, or its shard, as records."""
    ends = zip(arrays["status"].tolist(), arrays["epochs_completed"].tolist(), strict=True)
    return [Record(*end, arrays[f"measurements_{i}"]) for i, end in enumerate(ends)]


@lru_cache(maxsize=1)
def _load(path: Path, prepared_hash: str, train_size: int, test_size: int) -> Task:
    """Read a data set once for the blocks that follow each other; the hash tells a changed file."""
    return load_prepared(path, train_size, test_size)


def join(
    profile_name: str, profile: Profile, found: Mapping[Block, Arrays], prepared: Path
) -> xr.Dataset:
    """Return the results of all blocks as one validated dataset, see `lib.results.factorial`."""
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
    for block, arrays in found.items():
        for attempt, record in zip(block.attempts, _records(arrays), strict=True):
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
        ds["classes"].values[i] = data.outputs
        ds["examples"].values[i] = [
            min(study.probe_size or len(part.targets), len(part.targets))
            for part in (data.train, data.test)
        ]
        for j, noise in enumerate(study.noises):
            ds["time_steps"].values[i, j] = time_steps(data, noise)
        features = study.embedding_width if data.kind == "tokens" else data.features
        for a, architecture in enumerate(study.architectures):
            for w, width in enumerate(study.widths):
                cell = make_cell(architecture, features, width)
                ds["parameters"].values[a, w, i] = sum(p.numel() for p in cell.parameters())


STUDY = Experiment(
    name="study",
    recipe=RECIPE,
    plan=plan_blocks,
    run=run_block,
    join=join,
    identity=Block.identity,
    work=lambda block: block.work,
)
