"""What the twelve models (section 3.5, Tables 3.5 to 3.8) say of the text's claims, and the evidence that all judges of the factorial experiment share.

The metric is taken as single precision would have stored it, which is what the text's numbers are made of; intervals come from
resampling attempts (`lib.analysis.resample`).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property

import numpy as np
import pandas as pd
import xarray as xr

from lib.analysis import task_models
from lib.analysis.accuracy import at_best, can_cross, grade
from lib.analysis.design import CENTRE, NothingToFit
from lib.analysis.resample import interval, resample
from lib.analysis.tenet.fits import Fits
from lib.analysis.tenet.models import MODELS, TRAINING
from lib.analysis.tenet.rows import SINGLE
from lib.results.claims import Finding, Judges, Scale, unable
from lib.results.learned import STAND_INS, longest
from lib.results.schema import settings_of


class Evidence(Fits):
    """The tables and models of one set of results, each made when a claim asks for it, and once."""

    def __init__(self, ds: xr.Dataset) -> None:
        super().__init__(ds)
        self.drawn = cache(lambda number: resample(self.fit(number, SINGLE)))
        self.reference = task_models.choose_reference(ds["architecture"].values.tolist())

    @property
    def scale(self) -> Scale:
        """How large the experiment was."""
        settings = settings_of(self.ds)
        return Scale(
            sequences=settings.get("train_size"),
            epochs=int(self.ds["training_length"].max()),
            width=int(self.ds["width"].max()),
            replicates=self.ds.sizes["replicate"],
            test_size=settings.get("test_size"),
            time_steps=longest(self.ds),
        )

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Every attempt with its task accuracy."""
        return grade(self.ds)

    @cached_property
    def best(self) -> pd.DataFrame:
        """The same, those that are not at h* marked as left out; h* is chosen on other replicates, where there are any."""
        return at_best(self.frame, crossed=can_cross(self.frame))

    @cached_property
    def first(self) -> task_models.TaskFits:
        """Fits of (1.8) to `best`."""
        return task_models.fit_tasks(self.best, task_models.FIRST, self.reference)

    @cached_property
    def second(self) -> task_models.TaskFits:
        """Fits of (1.11), with differences of architectures where networks are trained."""
        return task_models.fit_tasks(self.frame, task_models.SECOND, self.reference, centre=CENTRE)

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
        return float(np.ptp(self.rows(TRAINING, SINGLE).column("metric")))


def judge_of(quantity: Callable[[Evidence], Finding]) -> Callable[[xr.Dataset | Evidence], Finding]:
    """Return the judge of a quantity, on the text's data alone."""

    def judge(evidence: xr.Dataset | Evidence) -> Finding:
        e = evidence if isinstance(evidence, Evidence) else Evidence(evidence)
        instead = ", ".join(sorted({*STAND_INS} & {*e.ds["dataset"].values.tolist()}))
        if instead:
            return unable(f"the data set {instead} stands in for the text's", e.scale)
        try:
            return replace(quantity(e), scale=e.scale)
        except NothingToFit as refusal:
            return unable(str(refusal), e.scale)

    return judge


QUANTITIES: dict[int, dict[str, Callable[[Evidence], np.ndarray]]] = {
    1: {
        "diss-3.5-training-alone": lambda e: e.r2(1),
        "diss-3.5-training-omission": lambda e: e.r2(2) - e.r2(3),
        "diss-3.5-training-range": lambda e: np.abs(e.slope(2)) * e.range(),
    },
    2: {
        "diss-3.5-terminal-stronger": lambda e: e.r2(4) - e.r2(1),
        "diss-3.5-terminal-mild": lambda e: e.r2(4),
        "diss-3.5-terminal-factors": lambda e: e.r2(5) - e.r2(6),
        "diss-3.5-terminal-sign": lambda e: e.slope(5),
    },
    3: {
        "diss-3.5-reverse-training-alone": lambda e: e.r2(7),
        "diss-3.5-reverse-training-beside": lambda e: e.r2(8) - e.r2(9),
        "diss-3.5-reverse-training-size": lambda e: np.maximum(
            np.abs(e.slope(7)), np.abs(e.slope(8))
        ),
    },
    4: {
        "diss-3.5-reverse-terminal-stronger": lambda e: e.r2(10) - e.r2(7),
        "diss-3.5-reverse-terminal-beside": lambda e: e.r2(11) - e.r2(12),
        "diss-3.5-reverse-terminal-drop": lambda e: e.slope(11) / e.slope(10),
    },
}
"""What decides the claims on each family of models: a number and draws of it."""


def _of_draws(quantity: Callable[[Evidence], np.ndarray]) -> Callable[[Evidence], Finding]:
    return lambda e: Finding(*interval(quantity(e)))


JUDGES = {
    family: Judges({claim: judge_of(_of_draws(one)) for claim, one in quantities.items()})
    for family, quantities in QUANTITIES.items()
}
"""The judges of each family of models."""
