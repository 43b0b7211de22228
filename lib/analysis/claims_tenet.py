"""What the twelve models (section 3.5, Tables 3.5 to 3.8) say of the text's claims.

The metric is taken as single precision would have stored it, which is what the text's numbers are made of; intervals come from
resampling attempts (`lib.analysis.resample`).
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import xarray as xr

from lib.analysis.design import NothingToFit
from lib.analysis.resample import interval, resample
from lib.analysis.tenet.fits import Fits
from lib.analysis.tenet.models import FAMILIES, MODELS
from lib.analysis.tenet.rows import SINGLE
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


class Evidence(Fits):
    """The twelve models on one set of results, with draws of their numbers where a claim asks for them."""

    def __init__(self, ds: xr.Dataset) -> None:
        super().__init__(ds)
        self.drawn = cache(lambda number: resample(self.fit(number, SINGLE)))

    def r2(self, number: int) -> np.ndarray:
        """Return the explained variance of a model, and draws of it."""
        return self.drawn(number).r2

    def slope(self, number: int) -> np.ndarray:
        """Return the coefficient of the metric or of the accuracy, and draws of it."""
        names = self.fit(number, SINGLE).design.names
        if MODELS[number].predictor not in names:
            raise NothingToFit("these rows do not tell the coefficient")
        return self.drawn(number).coefficients[:, names.index(MODELS[number].predictor)]

    def range(self) -> float:
        """Return the range of the metric during training."""
        return float(np.ptp(self.rows("training", SINGLE).column("metric")))


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
        scale = scale_of(evidence.ds)
        if instead := made_instead(evidence.ds):
            return unable(instead, scale)
        try:
            return Finding(*interval(quantity(evidence)), scale)
        except NothingToFit as refusal:
            return unable(str(refusal), scale)

    return judge


QUANTITIES = {
    1: {
        "training-alone": (True, lambda e: e.r2(1)),
        "training-omission": (True, lambda e: e.r2(2) - e.r2(3)),
        "training-range": (True, lambda e: np.abs(e.slope(2)) * e.range()),
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
