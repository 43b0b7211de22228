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
WHOLE_SEQUENCES = (
    "errors are relative to the norm over the whole sequence, and may be larger at single time "
    "steps"
)
"""Words of the caveat about small errors."""


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
        A ratio, with caveats about the weights and the norms, and a note on the settings and inputs
        that do not decide.
    """
    caveat = ByVerdict(to_agree=(UNTRAINED, WHOLE_SEQUENCES), to_differ=(UNTRAINED,))
    estimates = []
    for (setting, drive), rows in errors.groupby(["setting", "drive"], sort=False):
        estimate = geometric_mean(rows["error"], scale)
        about = Compared(networks=setting, task=f"{drive} noise")
        estimates.append(replace(estimate, about=about, caveats=caveat))
    decisive = largest(estimates)
    others = sorted(estimate.value for estimate in estimates)[:-1]
    if decisive.cause or not others:
        return decisive
    note = f"in the other {len(others)} settings and inputs the error is at most {others[-1]:.2g}"
    return replace(decisive, notes=(*decisive.notes, note))
