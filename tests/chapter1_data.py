"""A small factorial dataset with known randomness, for checks of chapter 1 against R.

`tests/data/r/chapter1.csv` holds its attempts, one a row in the order of the design; R reads that file and Python
builds the results dataset from it. `python tests/chapter1_data.py` writes the file anew.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from synthetic_results import empty

from lib.results.factorial import ATTEMPT, FACTORIAL, MEASUREMENTS
from lib.results.schema import COMPLETED, DIVERGED

FOLDER = Path(__file__).parent / "data" / "r"
LEVELS = {
    "architecture": ["rnn", "gru", "antisymmetric", "lipschitz"],
    "width": [8, 16],
    "learning_rate": [0.001, 0.01, 0.1],
    "training_length": [3, 5],
    "dataset": ["digits", "imdb"],
    "order": ["sequential", "permuted"],
    "noise": ["none"],
    "replicate": [0, 1, 2, 3],
    "epoch": [1, 2, 3, 4, 5],
}
CLASSES = {"digits": 10, "imdb": 2}
ACCURACIES = [f"accuracy_{epoch}" for epoch in LEVELS["epoch"]]
ABSENT = {"architecture": "lipschitz", "dataset": "imdb", "order": "permuted"}
"""Attempts that all diverge: an architecture without a maximising configuration."""
TWO_RATES = {"architecture": "gru", "dataset": "digits", "order": "permuted", "learning_rate": 0.1}
"""Attempts that all diverge: an architecture with two learning rates left, too few for its parabola."""


def make() -> pd.DataFrame:
    """Draw the attempts: the factors, ``status`` (0 completed, 1 diverged) and the test accuracy of each epoch."""
    rng = np.random.default_rng(20231)
    index = pd.MultiIndex.from_product([LEVELS[name] for name in ATTEMPT], names=ATTEMPT)
    frame = index.to_frame(index=False)
    task = frame.groupby(["dataset", "order"], sort=False).ngroup()
    own = frame.groupby(["architecture", "dataset", "order"], sort=False).ngroup()
    place = rng.normal(0.62, 0.12, own.max() + 1)[own]
    best = rng.normal(-2, 0.5, own.max() + 1)[own]
    spread = rng.uniform(0.01, 0.06, own.max() + 1)[own]
    rate = np.log10(frame["learning_rate"])
    last = place - 0.08 * (rate - best) ** 2 + 0.004 * frame["width"] + rng.normal(0, spread)
    last += 0.02 * task
    diverged = rng.random(len(frame)) < np.where(frame["learning_rate"] == 0.1, 0.25, 0.03)
    for levels in (ABSENT, TWO_RATES):
        diverged |= np.logical_and.reduce([frame[name] == level for name, level in levels.items()])
    frame["status"] = np.where(diverged, DIVERGED, COMPLETED)
    for column, epoch in zip(ACCURACIES, LEVELS["epoch"], strict=True):
        reached = (frame["status"] == COMPLETED) & (epoch <= frame["training_length"])
        # Thousandths, so that some epochs tie and the file is the data, not a rounding of them.
        noisy = np.round(np.clip(last - 0.1 / epoch + rng.normal(0, 0.03, len(frame)), 0, 1), 3)
        frame[column] = noisy.where(reached)
    return frame


def read() -> pd.DataFrame:
    """Return the stored attempts."""
    return pd.read_csv(FOLDER / "chapter1.csv")


def dataset(frame: pd.DataFrame) -> xr.Dataset:
    """Return the results dataset of the attempts in `frame`."""
    ds = empty(LEVELS, profile="smoke", settings={"made_up": True})
    shape = ds["status"].shape
    ds["status"][:] = frame["status"].to_numpy("int8").reshape(shape)
    ds["classes"][:] = [CLASSES[name] for name in LEVELS["dataset"]]
    ds["largest_class"][:] = [1 / CLASSES[name] for name in LEVELS["dataset"]]
    done = frame["training_length"].where(frame["status"] == COMPLETED, 0)
    ds["epochs_completed"][:] = done.to_numpy("int32").reshape(shape)
    accuracy = frame[ACCURACIES].to_numpy().reshape(*shape, 1, len(ACCURACIES))
    for name in MEASUREMENTS:
        ds[name][:] = np.broadcast_to(accuracy, ds[name].shape)
    return FACTORIAL.validate(ds)


if __name__ == "__main__":
    make().to_csv(FOLDER / "chapter1.csv", index=False, lineterminator="\n")
