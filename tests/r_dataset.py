"""The small dataset that lme4 and this project are compared on.

Attempts of four architectures and two data sets, drawn from the published models, each with one to six of its epochs, so that groups
differ in size. ``unrelated`` is noise of equal mean in every attempt: its random intercept has a variance of zero.
"""

from pathlib import Path

import pandas as pd

from lib.analysis.design import with_covariates
from lib.analysis.tenet.models import REFERENCE
from lib.analysis.tenet.rows import Rows
from lib.results.factorial import ATTEMPT

FOLDER = Path(__file__).parent / "data" / "r"
_FACTORS = [name for name in ATTEMPT if name != "replicate"]


def read(kind: str) -> tuple[Rows, pd.DataFrame]:
    """Return the stored observations of `kind`, as `Rows` and as the table they come from."""
    table = pd.read_csv(FOLDER / f"{kind}.csv")
    attempts = with_covariates(table.drop_duplicates("attempt")[_FACTORS], REFERENCE)
    made = Rows(
        kind=kind,
        attempts=attempts,
        attempt=pd.factorize(table["attempt"])[0],
        measured={name: table[name].to_numpy(float) for name in ("epoch", "accuracy", "metric")},
        account=pd.DataFrame(),
    )
    return made, table
