"""Claims that UnICORNN's states need not be stored, because they can be computed backward in time.

The inverse (7) of the recurrence is exact on paper. In floating point every step rounds, and the
errors may grow. Notebook 51 measures them at the settings that the paper prints.
"""

from dataclasses import replace

import pandas as pd

from study.claims.estimates import ByVerdict, Compared, Estimate, Scale
from study.claims.extremes import largest
from study.claims.intervals import geometric_mean

UNTRAINED = "the weights are random, as before training, and the inputs are noise"
"""Words of the caveat about the layers that are measured."""


def largest_error(errors: pd.DataFrame, scale: Scale | None = None) -> Estimate:
    """Estimate the largest relative error over settings and kinds of input.

    Errors range over orders of magnitude, so each setting counts with the geometric mean over
    seeds.

    Parameters
    ----------
    errors
        Columns ``setting``, ``drive`` (the kind of input), ``seed`` and ``error``: a relative error
        above zero. Every setting needs at least two seeds.
    scale
        Size of the experiment.

    Returns
    -------
    Estimate
        A ratio, with a caveat about the weights.
    """
    caveat = ByVerdict(to_agree=(UNTRAINED,), to_differ=(UNTRAINED,))
    estimates = []
    for (setting, drive), rows in errors.groupby(["setting", "drive"], sort=False):
        estimate = geometric_mean(rows["error"], scale)
        about = Compared(networks=setting, task=f"{drive} noise")
        estimates.append(replace(estimate, about=about, caveats=caveat))
    return largest(estimates)
