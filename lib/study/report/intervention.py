"""What our experiment on the backward pass found, in words: for the front page and README.md."""

import pandas as pd

EFFECTS = "own-intervention-effects"
"""Table of notebook 31: changes of test accuracy against ordinary backpropagation."""
FIGURE = "own-intervention-dose"
"""Its dose-response curves."""


def describe_intervention(effects: pd.DataFrame) -> str:
    """Return the result of the experiment as a paragraph.

    Parameters
    ----------
    effects : DataFrame
        The table `EFFECTS`, with columns ``change against plain``, ``estimate``, ``low``, ``high``,
        as shares of test accuracy.

    Returns
    -------
    str
        It says that the decay of gradients is a cause only if both intervals that show it leave
        out zero.
    """
    rows = effects.set_index("change against plain")
    dose = rows.loc["dose -10, rows at the beginning"]
    restored = rows.loc["renormalised, rows at the beginning"]
    signs = rows.loc["random signs, rows at the beginning"]
    norms = rows.loc["norms of dose -10, rows at the beginning"]
    end = rows.loc["dose -10, rows at the end"]
    sentences = [
        "We changed the backward pass alone; the forward pass stays as it is.",
        "Adjoint states that lose ten more orders of magnitude over a sequence change the test "
        f"accuracy of cells that keep their gradients by {_points(dose)}, if the information is at "
        f"the beginning of the sequence, and by {_points(end)}, if it is at the end.",
        "Giving the vanishing adjoints of LSTM, GRU and basic RNN their norm back changes accuracy "
        f"by {_points(restored)} at the beginning.",
        f"Random signs of the same norm change it by {_points(signs)}, and the norms of the "
        f"gradients alone by {_points(norms)}.",
    ]
    if dose["high"] < 0 < restored["low"]:
        sentences.append("So the decay of gradients is a cause of the failure, not just a symptom.")
    return " ".join(sentences)


def _points(row: pd.Series) -> str:
    """Return a change of accuracy in percentage points, with its interval."""
    value, low, high = (f"{100 * row[name]:+.0f}" for name in ("estimate", "low", "high"))
    return f"{value} points ({low} to {high})".replace("-", "−")
