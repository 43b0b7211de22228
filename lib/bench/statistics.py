"""Time our fit of a random intercept beside R's lme4 on the same rows."""

import json
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from lib.analysis.tenet.fits import fit
from lib.analysis.tenet.models import INTERCEPT, Model
from lib.analysis.tenet.rows import Rows
from lib.bench.race import Ledger, race, wall

_SCRIPT = Path(__file__).with_name("lme4.R")
BASELINE = "lme4"
DIFFERENCE = "largest relative difference of the estimates"


class BaselineError(RuntimeError):
    """R is installed and failed; the message has what it said."""


def lme4_version() -> str:
    """Return the versions of R and lme4 in words; empty where either is not installed."""
    if shutil.which("Rscript") is None:
        return ""
    code = (
        'cat(sprintf("R %s.%s, lme4 %s", R.version$major, R.version$minor, packageVersion("lme4")))'
    )
    done = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def bench(model: Model, rows: Rows, ledger: Ledger, *, rounds: int) -> list[dict]:
    """Time `model`, one with a random intercept, on `rows` by processor time, so that a busy machine does not count.

    Returns
    -------
    list of dict
        Rows of `race` for our engine and, where it is installed, for lme4, which is run once; and the largest relative
        difference between their estimates.
    """
    ours = fit(model, rows)
    size = f"{model.name}, {len(ours.coefficients)} coefficients, {len(rows):,} rows, {len(rows.attempts):,} attempts"
    entrants = {ours.engine: wall(lambda: fit(model, rows), time.process_time)}
    if not lme4_version():
        return race(entrants, ledger, size=size, rounds=rounds, warm_up=0)
    theirs = _lme4(model, rows)
    entrants[BASELINE] = lambda: 1e3 * theirs["seconds"]
    found = race(entrants, ledger, size=size, rounds=rounds, baselines=[BASELINE], warm_up=0)
    estimates = ours.coefficients["term"].map(_name_in_r).map(theirs["estimates"]).astype(float)
    gap = float((ours.coefficients["estimate"] / estimates - 1).abs().max())
    return [*found, ledger.add(ours.engine, DIFFERENCE, size=size, value=gap, baseline=BASELINE)]


def _lme4(model: Model, rows: Rows) -> dict:
    """Return the time and the estimates of lme4."""
    needed = dict.fromkeys(part for term in model.terms for part in term.split(":"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        levels = {}
        for column in (model.response, *needed):
            values = rows.column(column) if column in ("accuracy", "metric", "epoch") else None
            if values is None:
                values = rows.attempts[column]
                if isinstance(values.dtype, pd.CategoricalDtype):
                    values = values.cat.remove_unused_categories()
                    levels[column] = list(values.cat.categories)
                    values = values.cat.codes + 1
                values = values.to_numpy()[rows.attempt]
            np.asarray(values, float).tofile(folder / f"{column}.bin")
        rows.attempt.astype(float).tofile(folder / "attempt.bin")
        lines = [f"{column},{','.join(map(str, found))}" for column, found in levels.items()]
        (folder / "levels.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [
            "Rscript",
            str(_SCRIPT),
            name,
            f"{model.formula} + (1 | attempt)",
            str(len(rows)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BaselineError(f"R failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def _name_in_r(term: str) -> str:
    return "(Intercept)" if term == INTERCEPT else re.sub(r"[][]", "", term)
