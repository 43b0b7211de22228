"""A small factorial dataset, for checks of chapter 1 against R.

`tests/data/r/chapter1.csv` holds its attempts, one a row in the order of the design: ``status`` (0 completed, 1 diverged) and the
test accuracy of each epoch, in thousandths, so that some epochs tie. They were drawn; all attempts of the Lipschitz RNN on
permuted IMDB diverged, and those of the GRU on permuted digits at the learning rate 0.1, which leaves two rates, too few for its
parabola. R reads that file and Python builds the results dataset from it.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from synthetic_results import empty

from lib.results.factorial import FACTORIAL, MEASUREMENTS
from lib.results.schema import COMPLETED

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
