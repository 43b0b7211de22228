"""Words of the figure of slopes, which notebook 30 and README.md both show.

The keys are the names of slopes in the notebook's tables.
"""

from study.stats.tenet import GROUP_VARIANCES

PAPER = "the paper"
ROUNDED = "single precision, robust"
"""Our slope that is comparable with the paper's, which has gradients in single precision."""
WITHIN_TASKS = "single precision, a level per task"
EXACT = "as they are, robust"
"""Our slope from gradients of any size."""
SLOPE_LABELS = {
    PAPER: "dissertation",
    ROUNDED: "ours",
    WITHIN_TASKS: "ours, within tasks",
    EXACT: "ours, gradients of any size",
    "as they are, one variance": "the same, equal variances",
    f"as they are, {GROUP_VARIANCES}": "the same, a variance per architecture",
}
"""Labels of the slopes, from top to bottom."""


def slope_unit(accuracy: str) -> str:
    """Return the unit of the slope of the adjoint metric, as the label of an axis: two lines.

    Parameters
    ----------
    accuracy
        What the slope predicts, such as ``test accuracy``.

    Returns
    -------
    str
    """
    return f"points of {accuracy} lost\nper factor of 10 of gradient decay"
