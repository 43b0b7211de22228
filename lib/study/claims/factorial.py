"""Tables and models that the judges of the factorial experiment share. Each is computed once."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, cached_property

import numpy as np
import pandas as pd
import xarray as xr

from study.claims.estimates import Cause, Estimate, Scale, not_testable
from study.claims.judging import Judge, Judges
from study.results.data_used import STAND_INS, longest_sequence
from study.results.schema import COMPLETED, MISSING, settings_of
from study.stats import task_models
from study.stats.accuracy import at_best, can_cross_fit, grade
from study.stats.design import NothingToFit
from study.stats.observations import FLOAT32
from study.stats.reml import ConvergenceError
from study.stats.resample import resample
from study.stats.tenet import Fits
from study.stats.tenet_models import MODELS


class Evidence(Fits):
    """The tables and models of one set of results, each computed when it is first needed.

    Attributes
    ----------
    ds
        Results of the factorial experiment.
    drawn
        Function of a model's number and a view. It returns the model's bootstrap draws
        (`study.stats.resample.Draws`).
    reference
        Architecture that others are compared with.
    """

    def __init__(self, ds: xr.Dataset) -> None:
        super().__init__(ds)
        self.drawn = cache(lambda number, view: resample(self.fit(number, view)))
        self.reference = task_models.choose_reference(ds["architecture"].values.tolist())

    @property
    def scale(self) -> Scale:
        """Size of the experiment."""
        settings = settings_of(self.ds)
        replicates = (self.ds["status"] != MISSING).sum("replicate")
        return Scale(
            sequences=settings.get("train_size"),
            epochs=int(self.ds["training_length"].max()),
            width=int(self.ds["width"].max()),
            replicates=int(replicates.min()),
            test_size=settings.get("test_size"),
            time_steps=longest_sequence(self.ds),
        )

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Every attempt with its task accuracy."""
        return grade(self.ds)

    @cached_property
    def best(self) -> pd.DataFrame:
        """`frame`, in which attempts not at the best hyperparameters h* are marked as left out.

        h* is chosen on the other replicates if there are any.
        """
        return at_best(self.frame, cross_fit=can_cross_fit(self.frame))

    @cached_property
    def first_order(self) -> task_models.TaskFits:
        """Fits of (1.8) to `best`."""
        return task_models.fit_tasks(self.best, task_models.FIRST, self.reference)

    @cached_property
    def second_order(self) -> task_models.TaskFits:
        """Fits of (1.11) to `frame`.

        The logarithm of the learning rate is centered at the middle of the grid, so that the
        coefficients of architectures are differences there.
        """
        middle = float(np.exp(np.log(self.ds["learning_rate"]).mean()))
        return task_models.fit_tasks(self.frame, task_models.SECOND, self.reference, center=middle)

    def r2(self, number: int) -> np.ndarray:
        """Return the explained variance of a model, with bootstrap draws.

        Parameters
        ----------
        number
            Number of the model, 1 to 12.

        Returns
        -------
        numpy.ndarray
            The explained variance, then its draws, shape (1 + draws,).
        """
        return self.drawn(number, FLOAT32).r2

    def slope(self, number: int, view: str = FLOAT32) -> np.ndarray:
        """Return the coefficient of a model's predictor, with bootstrap draws.

        Parameters
        ----------
        number
            Number of the model.
        view
            View of the metric (`study.stats.tenet`).

        Returns
        -------
        numpy.ndarray
            The coefficient, then its draws, shape (1 + draws,). In units of the response per unit
            of the predictor.

        Raises
        ------
        NothingToFit
            The rows do not determine the coefficient.
        """
        names = self.fit(number, view).design.names
        if MODELS[number].predictor not in names:
            raise NothingToFit("these rows do not determine the coefficient")
        return self.drawn(number, view).coefficients[:, names.index(MODELS[number].predictor)]


def judge_of(quantity: Callable[[Evidence], Estimate]) -> Judge:
    """Return the judge of a quantity. It refuses data that are not the paper's.

    Parameters
    ----------
    quantity
        Function of the evidence.

    Returns
    -------
    callable
        Function of a dataset, or of `Evidence`.
    """

    def judge(results: xr.Dataset | Evidence) -> Estimate:
        evidence = results
        if not isinstance(evidence, Evidence):
            evidence = Evidence(results)
        stand_ins = sorted(set(STAND_INS) & set(evidence.ds["dataset"].values.tolist()))
        if stand_ins:
            reason = f"the data set {', '.join(stand_ins)} stands in for the paper's"
            return not_testable(reason, Cause.NO_DATA, evidence.scale)
        if not (evidence.ds["status"] == COMPLETED).any():
            return not_testable("no attempt completed", Cause.PREMISE, evidence.scale)
        try:
            return replace(quantity(evidence), scale=evidence.scale)
        except (NothingToFit, ConvergenceError) as refusal:
            return not_testable(str(refusal), Cause.TOO_SMALL, evidence.scale)

    return judge


def judges_of(quantities: Mapping[str, Callable[[Evidence], Estimate]]) -> Judges:
    """Return the judges of several quantities, as `judge_of` does.

    Parameters
    ----------
    quantities
        Functions of the evidence, by id of the claim.

    Returns
    -------
    Judges
    """
    return Judges({claim: judge_of(quantity) for claim, quantity in quantities.items()})


def of_dataset(quantity: Callable[[xr.Dataset], Estimate]) -> Callable[[Evidence], Estimate]:
    """Return a quantity as a function of the evidence, if it is one of the dataset alone.

    Parameters
    ----------
    quantity
        Function of the factorial's results.

    Returns
    -------
    callable
    """
    return lambda evidence: quantity(evidence.ds)
