"""Measured times, which are data: they are kept by hand and never made again by the pipeline.

`data/reference/timings/` holds one CSV per machine, named after it, as `lib.bench.figure_1` writes them.
"""

import pandas as pd

from lib.paths import ROOT

TIMINGS = ROOT / "data" / "reference" / "timings"
COLUMNS = (
    "workload", "time_steps", "cell", "engine", "layers", "baseline", "median_ms", "ratio", "rounds", "machine",
)  # fmt: skip


def load_timings() -> pd.DataFrame:
    """Return the times of Figure 1's workload of every machine: `COLUMNS` and ``name``, the file's.

    ``ratio`` is the median over rounds of time / baseline's time. A LookupError says that no times are stored, a ValueError
    that a file lacks a column.
    """
    tables = []
    for path in sorted(TIMINGS.glob("*.csv")):
        table = pd.read_csv(path)
        if missing := [name for name in COLUMNS if name not in table]:
            raise ValueError(
                f"{path.name} has no column {missing[0]!r}; write it again with `make time-figure-1`"
            )
        tables.append(table.assign(name=path.stem))
    if not tables:
        raise LookupError(
            f"no times are stored in {TIMINGS.relative_to(ROOT)}; measure them with `make time-figure-1`"
        )
    return pd.concat(tables, ignore_index=True)
