"""What the twelve models (section 3.5, Tables 3.5 to 3.8) say of the text's claims.

The metric is taken as single precision would have stored it, which is what the text's numbers are made of. Intervals come from
resampling attempts (`lib.analysis.resample`), and lie on the other side of the estimate than the draws do (the basic bootstrap), because an
explained variance is biased upwards and its draws are twice.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import xarray as xr

from lib.analysis.design import NothingToFit
from lib.analysis.linear import CONFIDENCE
from lib.analysis.resample import Drawn, resample
from lib.analysis.tenet.fits import fit
from lib.analysis.tenet.models import FAMILIES, MODELS
from lib.analysis.tenet.rows import SINGLE, Rows, rows
from lib.results.claims import Finding, Judges, Scale, unable
from lib.results.factorial import ATTEMPT, COMPLETED, empty
from lib.results.learned import STAND_INS
from lib.results.schema import settings_of

JUDGES = {number: Judges(f"tenet, family {number}") for number in FAMILIES}
"""The judges of each family of models."""


def scale_of(ds: xr.Dataset) -> Scale:
    """Return how large a factorial experiment was."""
    settings = settings_of(ds)
    return Scale(
        sequences=settings.get("train_size"),
        epochs=int(ds["training_length"].max()),
        width=int(ds["width"].max()),
        replicates=ds.sizes["replicate"],
        test_size=settings.get("test_size"),
    )


def made_instead(ds: xr.Dataset) -> str:
    """Return what stands in for the text's data in a factorial experiment; empty where nothing does."""
    found = sorted({*STAND_INS} & {*ds["dataset"].values.tolist()})
    return f"the data set {', '.join(found)} stands in for the text's" if found else ""


class Evidence:
    """The numbers of the twelve models on one set of results, computed when they are asked for."""

    def __init__(self, ds: xr.Dataset) -> None:
        self.ds = ds
        self._rows: dict[str, Rows] = {}
        self._drawn: dict[int, Drawn] = {}
        self._names: dict[int, tuple[str, ...]] = {}

    @property
    def scale(self) -> Scale:
        """How large the experiment was."""
        return scale_of(self.ds)

    def rows(self, kind: str) -> Rows:
        """Return the observations of a kind."""
        if kind not in self._rows:
            self._rows[kind] = rows(self.ds, kind, view=SINGLE)
        return self._rows[kind]

    def r2(self, number: int) -> np.ndarray:
        """Return the explained variance of a model, and draws of it."""
        return self._numbers(number).r2

    def slope(self, number: int) -> np.ndarray:
        """Return the coefficient of the metric or of the accuracy, and draws of it."""
        drawn, names = self._numbers(number), self._names[number]
        if MODELS[number].predictor not in names:
            raise NothingToFit("these rows do not tell the coefficient")
        return drawn.coefficients[:, names.index(MODELS[number].predictor)]

    def _numbers(self, number: int) -> Drawn:
        if number not in self._drawn:
            found = fit(MODELS[number], self.rows(MODELS[number].rows))
            self._drawn[number], self._names[number] = resample(found), found.design.names
        return self._drawn[number]


@cache
def _drawn(decisive: bool, seed: int) -> Evidence:
    """Draw results in which the metric decides about accuracy, or is nothing to it once networks are trained."""
    levels = {
        "architecture": ["antisymmetric", "gru", "rnn"],
        "width": [8],
        "learning_rate": [0.001, 0.01, 0.1],
        "training_length": [4],
        "dataset": ["cifar10", "mnist"],
        "order": ["sequential", "permuted"],
        "noise": ["none", "post"],
        "replicate": [0, 1, 2],
        "epoch": [1, 2, 3, 4],
    }
    ds = empty(levels, profile="drawn")
    ds["status"][:], ds["epochs_completed"][:], ds["examples"][:] = COMPLETED, 4, 100
    rng = np.random.default_rng(seed)
    shape = ds["accuracy"].shape
    attempt = shape[: len(ATTEMPT)]
    common = rng.standard_normal((*attempt, 1, 1)) + rng.standard_normal(shape)
    noise = 0.1 if decisive else rng.uniform(1, 3)
    other = noise * (rng.standard_normal((*attempt, 1, 1)) + rng.standard_normal(shape))
    accuracy = 0.5 + 0.1 * common
    metric = 10 * (common + other)
    if not decisive:  # on test data, the last of two splits, hardly anything is left, and that is against the text
        metric[..., 1, :] = 10 * other[..., 1, :] - 2 * common[..., 1, :]
    ds["accuracy"][:], ds["adjoint_first"][:] = accuracy, metric
    ds["adjoint_last"][:] = 0.0
    return Evidence(ds)


def _judge(
    quantity: Callable[[Evidence], np.ndarray],
) -> Callable[[xr.Dataset | Evidence], Finding]:
    def judge(evidence: xr.Dataset | Evidence) -> Finding:
        evidence = evidence if isinstance(evidence, Evidence) else Evidence(evidence)
        if instead := made_instead(evidence.ds):
            return unable(instead, evidence.scale)
        try:
            estimate, *draws = quantity(evidence)
        except NothingToFit as refusal:
            return unable(str(refusal), evidence.scale)
        tail = (1 - CONFIDENCE) / 2
        low, high = 2 * estimate - np.quantile(draws, [1 - tail, tail])
        return Finding(float(estimate), float(low), float(high), evidence.scale)

    return judge


def _range(evidence: Evidence) -> float:
    return float(np.ptp(evidence.rows("training").metric))


QUANTITIES = {
    1: {
        "training-alone": (True, lambda e: e.r2(1)),
        "training-omission": (True, lambda e: e.r2(2) - e.r2(3)),
        "training-range": (True, lambda e: np.abs(e.slope(2)) * _range(e)),
    },
    2: {
        "terminal-stronger": (False, lambda e: e.r2(4) - e.r2(1)),
        "terminal-mild": (False, lambda e: e.r2(4)),
        "terminal-factors": (True, lambda e: e.r2(5) - e.r2(6)),
        "terminal-sign": (False, lambda e: e.slope(5)),
    },
    3: {
        "reverse-training-alone": (True, lambda e: e.r2(7)),
        "reverse-training-beside": (True, lambda e: e.r2(8) - e.r2(9)),
        "reverse-training-size": (
            True,
            lambda e: np.maximum(np.abs(e.slope(7)), np.abs(e.slope(8))),
        ),
    },
    4: {
        "reverse-terminal-stronger": (False, lambda e: e.r2(10) - e.r2(7)),
        "reverse-terminal-beside": (True, lambda e: e.r2(11) - e.r2(12)),
        "reverse-terminal-drop": (True, lambda e: e.slope(11) / e.slope(10)),
    },
}
"""What decides each claim, and whether it is false where the metric decides about accuracy, else where it does not."""
for _family, _quantities in QUANTITIES.items():
    for _name, (_decisive, _quantity) in _quantities.items():
        JUDGES[_family].add(
            f"diss-3.5-{_name}",
            _judge(_quantity),
            false=lambda rng, decisive=_decisive: _drawn(decisive, int(rng.integers(2**31))),
        )
