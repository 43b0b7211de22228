"""Claims that our results cannot judge, because they lack a measurement or its single rounds.

All of them are about time. They are listed as not testable, so that a reader who looks for a
paper's headline finds it, with the reason.
"""

from collections.abc import Iterable

import pandas as pd

from study.claims.estimates import Cause, not_testable
from study.claims.judging import judged_row

_NO_ROUNDS = not_testable(
    "times are stored as medians over rounds on one GPU, without the single rounds that an "
    "interval needs",
    Cause.NO_DATA,
)
_NO_TRAINING_TIMES = not_testable("our results hold no training time of a run", Cause.NO_DATA)
_NO_PREDICTION_TIMES = not_testable("our results hold no time of a prediction", Cause.NO_DATA)
UNMEASURED = {
    "unicornn-4-speed-lstm": _NO_ROUNDS,
    "unicornn-4-speed-alike": _NO_ROUNDS,
    "unicornn-4-speed-loops": _NO_ROUNDS,
    "irnn-4.3.2-speedup": _NO_TRAINING_TIMES,
    "irnn-4.3.2-strongest": _NO_TRAINING_TIMES,
    "irnn-4.3.4-training-time": _NO_TRAINING_TIMES,
    "irnn-4.3.4-test-time": _NO_PREDICTION_TIMES,
}
"""Why each claim is not testable, by its id."""


def list_unmeasured(claim_ids: Iterable[str]) -> pd.DataFrame:
    """Return rows that say why claims are not testable.

    Parameters
    ----------
    claim_ids
        Keys of `UNMEASURED`.

    Returns
    -------
    pandas.DataFrame
        One `study.claims.judging.judged_row` per claim.
    """
    return pd.DataFrame([judged_row(claim_id, UNMEASURED[claim_id]) for claim_id in claim_ids])
