"""The result of our experiment on the backward pass in words: for the front page and README.md."""

import pandas as pd

EFFECTS = "own-intervention-effects"
"""Table of notebook 31: changes of test accuracy against ordinary backpropagation."""
FIGURES = ("own-intervention-restored", "own-intervention-dose")
"""Its figures: restored gradients, and dose-response curves."""
_PREDICTED_AT_END = 0.03
"""Largest predicted change of accuracy with the information at the end of the sequence."""


def describe_intervention(effects: pd.DataFrame) -> str:
    """Return the result of the experiment as a paragraph.

    Parameters
    ----------
    effects : DataFrame
        The table `EFFECTS`, with columns ``change against plain``; ``estimate``, ``low``, ``high``
        as shares of test accuracy; and ``n``, the number of runs per cell.

    Returns
    -------
    str
        It says that vanishing gradients are a cause only if a constant norm helps with an early
        input, more than with a late one, and neither control does the same.
    """
    rows = effects.set_index("change against plain")
    signs = rows.loc["random signs, rows at the beginning"]
    norms = rows.loc["norms of dose -10, rows at the beginning"]
    sentences = [
        "We changed only how gradients flow backward through time; the forward pass stayed as it "
        "is. The digit that a network has to recognize came early or late in the sequence.",
        *_restored(rows),
        *_conclusion(effects),
        *_decayed(rows),
        f"Two controls with an early digit: constant norms with random signs "
        f"{_effect(signs, plural=True)}; ordinary gradients, scaled down to the norm of the "
        f"decayed ones, {_effect(norms, plural=True)}.",
    ]
    return " ".join(sentences)


def summarize_intervention(effects: pd.DataFrame) -> str:
    """Return the result of the experiment in a few sentences.

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
    seeds = int(rows["n"].min())
    restored_early = rows.loc["renormalised, rows at the beginning"]
    restored_late = rows.loc["renormalised, rows at the end"]
    decayed_early = rows.loc["dose -10, rows at the beginning"]
    decayed_late = rows.loc["dose -10, rows at the end"]
    sentences = [
        "We changed only backward passes of networks that see a digit early or late "
        f"({seeds} seeds). In LSTMs, GRUs and RNNs, a constant gradient norm "
        f"{_early_and_late(restored_early, restored_late)}.",
        *_conclusion(effects),
        "Forcing ten orders of decay on other cells "
        f"{_early_and_late(decayed_early, decayed_late)}{_unpredicted(decayed_late)}.",
    ]
    return " ".join(sentences)


def _restored(rows: pd.DataFrame) -> list[str]:
    """Return what a constant norm changes in cells whose gradients vanish."""
    early = rows.loc["renormalised, rows at the beginning"]
    late = rows.loc["renormalised, rows at the end"]
    return [
        f"In LSTMs, GRUs and basic RNNs, a constant gradient norm {_effect(early)} if the digit "
        f"comes early, and {_effect(late, short=True)} if it comes late."
    ]


def _decayed(rows: pd.DataFrame) -> list[str]:
    """Return what decay changes in cells whose gradients do not vanish."""
    early = rows.loc["dose -10, rows at the beginning"]
    late = rows.loc["dose -10, rows at the end"]
    return [
        "In three cells without vanishing gradients, decay by ten orders of magnitude "
        f"{_early_and_late(early, late)}{_unpredicted(late)}.",
        *_unexplained(rows),
    ]


def _unexplained(rows: pd.DataFrame) -> list[str]:
    """Say so if decay may cost as much with a late digit as with an early one."""
    difference = rows.loc["dose -10, beginning less end"]
    if difference["low"] <= 0 <= difference["high"]:
        return ["So it is open how much of this harm comes from distance."]
    return []


def _unpredicted(late: pd.Series) -> str:
    """Say that decay costs more than was predicted if the digit comes late."""
    if late["high"] < -_PREDICTED_AT_END:
        return ", where we had predicted no harm"
    return ""


def shows_cause(effects: pd.DataFrame) -> bool:
    """Return whether the experiment shows that vanishing gradients are a cause.

    Parameters
    ----------
    effects : DataFrame
        As for `describe_intervention`.

    Returns
    -------
    bool
        Whether a constant norm helps with an early input, more than with a late one, and neither
        control changes anything.
    """
    rows = effects.set_index("change against plain")
    for control in ("random signs", "norms of dose -10"):
        row = rows.loc[f"{control}, rows at the beginning"]
        if not row["low"] <= 0 <= row["high"]:
            return False
    early = rows.loc["renormalised, rows at the beginning"]
    difference = rows.loc["renormalised, beginning less end"]
    return bool(early["low"] > 0 and difference["low"] > 0)


def _conclusion(effects: pd.DataFrame) -> list[str]:
    """Return what follows from the changes of accuracy; empty if the experiment leaves it open."""
    if shows_cause(effects):
        return ["So here vanishing gradients are a cause of the failure to learn."]
    return []


def _early_and_late(early: pd.Series, late: pd.Series) -> str:
    """Return the changes of accuracy with an early and a late digit as a verb phrase."""
    verb, of_early = _describe(early)
    other, of_late = _describe(late)
    if other == verb:
        return f"{verb} test accuracy {of_early} for early digits and {of_late} for late ones"
    return (
        f"{verb} test accuracy {of_early} for early digits and {other} it {of_late} for late ones"
    )


def _effect(row: pd.Series, plural: bool = False, short: bool = False) -> str:
    """Return a change of accuracy as a verb phrase.

    `plural`: the subject is plural. `short`: the sentence has named test accuracy already.
    """
    verb, numbers = _describe(row)
    if plural:
        verb = verb.removesuffix("s")
    changed = "test accuracy"
    if short:
        changed = "it"
    return f"{verb} {changed} {numbers}"


def _describe(row: pd.Series) -> tuple[str, str]:
    """Return the verb for a change of accuracy, and the points with their interval."""
    value = 100 * row["estimate"]
    low = 100 * row["low"]
    high = 100 * row["high"]
    if high < 0:
        verb = "lowers"
        numbers = f"by {-value:.0f} points ({-high:.0f} to {-low:.0f})"
    elif low > 0:
        verb = "raises"
        numbers = f"by {value:.0f} points ({low:.0f} to {high:.0f})"
    else:
        verb = "changes"
        change = f"{value:+.0f}"
        if round(value) == 0:
            change = "0"  # without a sign
        numbers = f"by {change} points ({low:+.0f} to {high:+.0f})"
    return verb, numbers.replace("-", "−")
