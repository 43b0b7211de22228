"""The result of our experiment on the backward pass in words: for the front page and README.md."""

import pandas as pd

EFFECTS = "own-intervention-effects"
"""Table of notebook 31: changes of test accuracy against ordinary backpropagation."""
FIGURE = "own-intervention-dose"
"""Its dose-response curves."""
_PREDICTED_AT_END = 0.03
"""Largest predicted change of accuracy with the information at the end of the sequence."""


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
        It says that vanishing gradients are a cause only if both intervals that show it leave
        out zero, and those of both controls hold it.
    """
    rows = effects.set_index("change against plain")
    dose = rows.loc["dose -10, rows at the beginning"]
    restored = rows.loc["renormalised, rows at the beginning"]
    signs = rows.loc["random signs, rows at the beginning"]
    norms = rows.loc["norms of dose -10, rows at the beginning"]
    end = rows.loc["dose -10, rows at the end"]
    sentences = [
        "We changed only how gradients flow backward through time; the forward pass stayed as it "
        "is. The information that a network needs was at the beginning of the sequence.",
        "In cells whose gradients do not vanish, we let them decay by ten orders of magnitude over "
        f"the sequence. This {_effect(dose)}. If the information was at the end, it "
        f"{_effect(end)}{_unpredicted(end)}.",
        "In LSTM, GRU and basic RNN, whose gradients vanish, we kept their norm constant. This "
        f"{_effect(restored)}.",
        f"Two controls: constant norms with random signs {_effect(signs, plural=True)}; ordinary "
        "gradients, scaled down to the norm of the decayed ones, "
        f"{_effect(norms, plural=True)}.",
    ]
    return " ".join([*sentences, *_conclusion(rows)])


def summarize_intervention(effects: pd.DataFrame) -> str:
    """Return the result of the experiment in two or three sentences.

    Parameters
    ----------
    effects : DataFrame
        As for `describe_intervention`.

    Returns
    -------
    str
        With the same conclusion as `describe_intervention`.
    """
    rows = effects.set_index("change against plain")
    dose = rows.loc["dose -10, rows at the beginning"]
    restored = rows.loc["renormalised, rows at the beginning"]
    end = rows.loc["dose -10, rows at the end"]
    sentences = [
        "We changed only the backward pass of small networks that need an early input. "
        f"Forced decay by ten orders of magnitude {_effect(dose)} in three cells without "
        f"vanishing gradients. With the input at the end it {_effect(end)}{_unpredicted(end)}.",
        f"A constant gradient norm {_effect(restored)} in LSTM, GRU and basic RNN.",
    ]
    return " ".join([*sentences, *_conclusion(rows)])


def _unpredicted(end: pd.Series) -> str:
    """Say that decay costs more than was predicted if the information is at the end."""
    if end["high"] < -_PREDICTED_AT_END:
        return ", against our prediction"
    return ""


def _conclusion(rows: pd.DataFrame) -> list[str]:
    """Return what follows from the changes of accuracy; empty if the experiment leaves it open."""
    dose = rows.loc["dose -10, rows at the beginning"]
    restored = rows.loc["renormalised, rows at the beginning"]
    for control in ("random signs", "norms of dose -10"):
        row = rows.loc[f"{control}, rows at the beginning"]
        if not row["low"] <= 0 <= row["high"]:
            return []
    if dose["high"] < 0 < restored["low"]:
        return [
            "So here vanishing gradients are a cause of the failure to learn, not just a symptom."
        ]
    return []


def _effect(row: pd.Series, plural: bool = False) -> str:
    """Return a change of accuracy in percentage points, with its interval, as a verb phrase."""
    value, low, high = (100 * row[name] for name in ("estimate", "low", "high"))
    if high < 0:
        verb = "lowers"
        numbers = f"by {-value:.0f} points ({-high:.0f} to {-low:.0f})"
    elif low > 0:
        verb = "raises"
        numbers = f"by {value:.0f} points ({low:.0f} to {high:.0f})"
    else:
        verb = "changes"
        numbers = f"by {value:+.0f} points ({low:+.0f} to {high:+.0f})"
    if plural:
        verb = verb.removesuffix("s")
    return f"{verb} test accuracy {numbers}".replace("-", "−")
