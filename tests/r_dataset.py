"""Make the small dataset that lme4 and this project are compared on: `python tests/r_dataset.py`.

Attempts of four architectures and two data sets from the simulated design, each with one to six of its epochs, so that groups
differ in size. ``unrelated`` is noise of equal mean in every attempt: its random intercept has a variance of zero.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from lib.analysis.design import with_covariates
from lib.analysis.simulated.draw import simulate
from lib.analysis.tenet.models import REFERENCE, TERMINAL, TRAINING
from lib.analysis.tenet.rows import Rows, rows

FOLDER = Path(__file__).parent / "data" / "r"
_FACTORS = [
    "architecture",
    "width",
    "learning_rate",
    "training_length",
    "dataset",
    "order",
    "noise",
]


def make() -> None:
    """Write ``training.csv`` and ``terminal.csv``."""
    ds = simulate(1, replicates=1).sel(
        architecture=["antisymmetric", "rnn", "lstm", "gru"], dataset=["cifar10", "imdb"]
    )
    rng = np.random.default_rng(0)
    table = rows(ds, TRAINING).frame()
    wanted = rng.integers(1, 7, table["attempt"].max() + 1)
    place = pd.Series(rng.random(len(table))).groupby(table["attempt"]).rank()
    table = table[place <= wanted[table["attempt"]]].reset_index(drop=True)
    # Equal sums in every attempt leave nothing for an intercept of its own to explain.
    noise = pd.Series(rng.normal(size=len(table)))
    table["unrelated"] = noise - noise.groupby(table["attempt"]).transform("mean")
    columns = [*_FACTORS, "attempt", "epoch", "accuracy", "metric"]
    _write(table[[*columns, "unrelated"]], "training.csv")
    _write(rows(ds, TERMINAL).frame()[columns], "terminal.csv")


def read(kind: str) -> tuple[Rows, pd.DataFrame]:
    """Return the stored observations of `kind`, as `Rows` and as the table they come from."""
    table = pd.read_csv(FOLDER / f"{kind}.csv")
    attempts = with_covariates(table.drop_duplicates("attempt")[_FACTORS], REFERENCE)
    made = Rows(
        kind=kind,
        attempts=attempts,
        attempt=pd.factorize(table["attempt"])[0],
        epoch=table["epoch"].to_numpy(float),
        accuracy=table["accuracy"].to_numpy(),
        metric=table["metric"].to_numpy(),
        account=pd.DataFrame(),
    )
    return made, table


def _write(table: pd.DataFrame, name: str) -> None:
    table.to_csv(FOLDER / name, index=False, float_format="%.9g", lineterminator="\n")


if __name__ == "__main__":
    make()
