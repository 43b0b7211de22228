"""From a profile's factors to blocks of attempts."""

import hashlib
import itertools
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from lib import kernels
from lib.cells import cell_class
from lib.experiments.factorial.training import Attempt, pick_device
from lib.run.params import Profile, StudySection
from lib.tasks import load_prepared
from lib.tasks.variations import time_steps

FACTORS = {
    "architectures",
    "widths",
    "learning_rates",
    "training_lengths",
    "orders",
    "noises",
    "replicates",
}
"""Settings that span the grid."""
COMPANY = {"attempts_per_block"}
"""Settings that decide in which company attempts run, not what comes out."""


@dataclass(frozen=True)
class Block:
    """Attempts that run one after the other in one worker and share a shard.

    Attributes
    ----------
    attempts
        They share their data set.
    settings
        How they are trained.
    prepared
        SHA-256 of the prepared data set.
    work
        Time steps times epochs of all attempts: about proportional to the time the block takes.
    """

    attempts: tuple[Attempt, ...]
    settings: StudySection
    prepared: str
    work: int

    def identity(self) -> dict:
        """Return all that the block's results depend on, as JSON values: it names the shard."""
        return {
            "attempts": [asdict(attempt) for attempt in self.attempts],
            "settings": training_settings(self.settings),
            "engines": engines({attempt.architecture for attempt in self.attempts}, self.settings),
            "prepared": self.prepared,
        }

    def __str__(self) -> str:
        first = self.attempts[0]
        return f"{first.architecture} {first.width} on {first.dataset} {first.order} {first.noise}"


def engines(architectures: Iterable[str], settings: StudySection) -> dict[str, str]:
    """Return the engine that trains each architecture here: its last digits are the results'."""
    device = pick_device(settings.device).type
    return {name: kernels.choose(name, device, torch.float32) for name in sorted(architectures)}


def training_settings(settings: StudySection) -> dict:
    """Return the settings that an attempt's results depend on beside its own levels."""
    return settings.model_dump(mode="json", exclude=FACTORS | COMPANY)


def plan_blocks(profile: Profile, prepared: Path) -> list[Block]:
    """Return the design's attempts as blocks, those with the most work first.

    Parameters
    ----------
    profile
        The data sets and the factors.
    prepared
        Folder of the prepared data sets, one ``<dataset>.nc`` each.

    Raises
    ------
    ValueError
        An architecture is unknown, or a data set is not prepared.
    """
    study = profile.study
    for name in study.architectures:
        cell_class(name)
    hashes, steps = {}, {}
    for name in profile.data.datasets:
        path = prepared / f"{name}.nc"
        if not path.exists():
            raise ValueError(f"data set {name!r} is not prepared: no {path}; run notebook 00 first")
        hashes[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        data = load_prepared(path, study.train_size, study.test_size)
        steps.update({(name, noise): time_steps(data, noise) for noise in study.noises})
    blocks = []
    for architecture, width, dataset, order, noise in itertools.product(
        study.architectures, study.widths, profile.data.datasets, study.orders, study.noises
    ):
        attempts = [
            Attempt(architecture, width, rate, length, dataset, order, noise, replicate)
            for rate, length, replicate in itertools.product(
                study.learning_rates, study.training_lengths, range(study.replicates)
            )
        ]
        for start in range(0, len(attempts), study.attempts_per_block):
            part = tuple(attempts[start : start + study.attempts_per_block])
            work = steps[dataset, noise] * sum(attempt.training_length for attempt in part)
            blocks.append(Block(part, study, hashes[dataset], work))
    # Long blocks first: the last ones to finish are then short, and no core waits for the other.
    return sorted(blocks, key=lambda block: -block.work)
