"""Time our fit of a random intercept beside R's lme4 on the same rows."""

import json
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

from lib.analysis.tenet.fits import fit
from lib.analysis.tenet.models import INTERCEPT, Model
from lib.analysis.tenet.rows import Rows
from lib.bench import machine

_SCRIPT = Path(__file__).with_name("lme4.R")
_BASELINE = "lme4"


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


def bench(model: Model, rows: Rows, *, rounds: int) -> pd.DataFrame:
    """Time `model` on `rows`.

    Parameters
    ----------
    model
        One with a random intercept.
    rows
        Observations during training.
    rounds
        Rounds of our fit, of which the median counts; lme4 is run once.

    Returns
    -------
    pandas.DataFrame
        One line: ``workload``, ``engine``, ``seconds`` (of processor time, so that a busy machine does not count),
        ``baseline``, ``baseline_seconds`` (likewise), ``ratio`` (ours over lme4's; nan without it), ``difference`` (largest relative difference of the estimates) and ``machine``.
    """
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        ours = fit(model, rows)
        seconds.append(time.process_time() - start)
    line = {
        "workload": f"{model.name}, {len(ours.coefficients)} coefficients, {len(rows):,} rows, {len(rows.attempts):,} attempts",
        "engine": ours.engine,
        "seconds": median(seconds),
        "baseline": _BASELINE,
        "baseline_seconds": np.nan,
        "ratio": np.nan,
        "difference": np.nan,
        "machine": machine(),
    }
    if lme4_version():
        theirs = _lme4(model, rows)
        names = ours.coefficients["term"].map(_name_in_r)
        estimates = names.map(theirs["estimates"]).astype(float)
        gap = (ours.coefficients["estimate"] / estimates - 1).abs().max()
        line |= {
            "baseline_seconds": theirs["seconds"],
            "ratio": line["seconds"] / theirs["seconds"],
            "difference": float(gap),
        }
    return pd.DataFrame([line])


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
