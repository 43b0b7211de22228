"""The result of our experiment on the backward pass in words: for the front page and README.md."""

import pandas as pd

from study.results.names import label

EXPERIMENT = "31_adjoint_interventions"
"""The notebook of the experiment."""
EFFECTS = "own-intervention-effects"
"""Its table of changes of test accuracy against ordinary backpropagation."""
FIGURES = ("own-intervention-restored", "own-intervention-dose")
"""Its figures: restored gradients, and dose-response curves."""
_SIGNS = "random signs, rows at the beginning"
_NORMS = "norms of dose -10, rows at the beginning"
"""Rows of the two controls."""
_PREDICTED_AT_END = 0.03
"""Largest predicted change of accuracy with the information at the end of the sequence."""


def describe_intervention(effects: pd.DataFrame) -> list[str]:
    """Return the result of the experiment in paragraphs.

    Parameters
    ----------
    effects : DataFrame
        The table `EFFECTS`, with columns ``change against plain``; ``estimate``, ``low``, ``high``
        as shares of test accuracy; and ``n``, the number of runs per cell.

    Returns
    -------
    list of str
        They say that vanishing gradients are a cause only if `shows_cause` does.
    """
    rows = effects.set_index("change against plain")
    signs = rows.loc[_SIGNS]
    norms = rows.loc[_NORMS]
    task = [
        "The networks have to recognize a digit whose rows come at the beginning or at the end of "
        "a sequence of noise, or are spread over it (“everywhere”). We left the forward pass "
        "unchanged and changed only how gradients flow backward through time "
        f"({int(rows['n'].min())} seeds for each network)."
    ]
    restored = [
        "Gradients restored: In LSTMs, GRUs and basic RNNs, gradients vanish. On average over the "
        "three, rescaling them to a constant norm at every time step "
        f"{_early_and_late(*_restored(rows))}.",
        *_gain_by_cell(rows),
        *_conclusion(effects),
    ]
    decayed = [
        "Decay added: In Lipschitz RNNs, antisymmetric RNNs and UnICORNNs, gradients do not "
        "vanish. Letting them decay by ten orders of magnitude "
        f"{_early_and_late(*_decayed(rows))}{_unpredicted(rows)}.",
        *_unclear_difference(rows),
        *_unexplained(rows),
    ]
    controls = [
        "Controls, with an early digit: A constant norm with random signs "
        f"{_describe(signs)}. Scaling ordinary gradients down to the norm of the decayed ones "
        f"{_describe(norms)}.",
        "The figures also show LRU and minGRU, added after we wrote down our predictions; the "
        "numbers above exclude them.",
    ]
    return [" ".join(paragraph) for paragraph in (task, restored, decayed, controls)]


def summarize_intervention(effects: pd.DataFrame) -> str:
    """Return the result of the experiment as a paragraph for README.md.

    Parameters
    ----------
    effects : DataFrame
        As for `describe_intervention`.

    Returns
    -------
    str
        With the same conclusions as `describe_intervention`.
    """
    rows = effects.set_index("change against plain")
    seeds = int(rows["n"].min())
    sentences = [
        "In our own experiment, networks classify a digit that comes early or late in noise, and "
        f"we change only the backward pass ({seeds} seeds). On average over LSTMs, GRUs and basic "
        "RNNs, whose gradients vanish, holding the gradient norm constant "
        f"{_early_and_late(*_restored(rows))}"
        f"{_signs_do_not_help(rows)}.",
        *_conclusion(effects),
        "On average over Lipschitz RNNs, antisymmetric RNNs and UnICORNNs, whose gradients last, "
        f"shrinking them by ten orders of magnitude {_early_and_late(*_decayed(rows))}"
        f"{_unpredicted(rows)}.",
        *_unexplained(rows),
    ]
    return " ".join(sentences)


def _restored(rows: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return what a constant norm changes with an early and with a late digit."""
    name = "renormalized, rows at the {}"
    return rows.loc[name.format("beginning")], rows.loc[name.format("end")]


def _gain_by_cell(rows: pd.DataFrame) -> list[str]:
    """Return what a constant norm changes with an early digit, for each kind of network alone."""
    prefix = "renormalized, rows at the beginning, "
    changes = []
    for name, row in rows.iterrows():
        if name.startswith(prefix):
            network = label(name.removeprefix(prefix))
            change = 100 * row[["estimate", "low", "high"]]
            changes.append("{} {:+.0f} ({:+.0f} to {:+.0f})".format(network, *change))
    if not changes:
        return []
    listed = "; ".join(changes).replace("-", "−")
    return [f"For early digits, by kind of network, in points: {listed}."]


def _decayed(rows: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return what decay changes with an early and with a late digit."""
    name = "dose -10, rows at the {}"
    return rows.loc[name.format("beginning")], rows.loc[name.format("end")]


def _unclear_difference(rows: pd.DataFrame) -> list[str]:
    """Return how much more decay costs with an early digit, if that may be nothing."""
    difference = rows.loc["dose -10, beginning less end"]
    if _verb(difference):
        return []
    more = -100 * difference[["estimate", "high", "low"]]
    words = f"{more['estimate']:.0f} points more; {more['high']:.0f} to {more['low']:.0f}"
    return [f"It is not clear whether early digits lose more ({words}).".replace("-", "−")]


def _unexplained(rows: pd.DataFrame) -> list[str]:
    """Say so if decay may cost as much with a late digit as with an early one."""
    if _verb(rows.loc["dose -10, beginning less end"]):
        return []
    return ["So decay may also do harm over short distances."]


def _unpredicted(rows: pd.DataFrame) -> str:
    """Say that decay costs more than was predicted if the digit comes late."""
    _, late = _decayed(rows)
    if late["high"] < -_PREDICTED_AT_END:
        return f", where we had predicted less than {100 * _PREDICTED_AT_END:.0f}"
    return ""


def _signs_do_not_help(rows: pd.DataFrame) -> str:
    """Say so if a constant norm with random signs makes no clear difference."""
    if _verb(rows.loc[_SIGNS]):
        return ""
    return "; with random signs (a control), it does not help early digits"


def shows_cause(effects: pd.DataFrame) -> bool:
    """Return whether the experiment shows that vanishing gradients are a cause.

    Parameters
    ----------
    effects : DataFrame
        As for `describe_intervention`.

    Returns
    -------
    bool
        Whether a constant norm helps with an early input, and more than with a late one, and
        neither control has an effect. A control with a wide interval, as of few seeds, is not
        enough: the interval must also be below that of the constant norm.
    """
    rows = effects.set_index("change against plain")
    early, _ = _restored(rows)
    difference = rows.loc["renormalized, beginning less end"]
    for control in (_SIGNS, _NORMS):
        row = rows.loc[control]
        if not row["low"] <= 0 <= row["high"] < early["low"]:
            return False
    return bool(early["low"] > 0 and difference["low"] > 0)


def _conclusion(effects: pd.DataFrame) -> list[str]:
    """Return what follows from the changes of accuracy; empty if the experiment leaves it open."""
    if shows_cause(effects):
        return ["So here vanishing gradients are a cause of the failure to learn."]
    return []


def _early_and_late(early: pd.Series, late: pd.Series) -> str:
    """Return the changes of accuracy with an early and a late digit as a verb phrase."""
    of_late = _describe(late)
    if _verb(late) and _verb(late) == _verb(early):
        of_late = _points(late)  # the verb is not repeated
    return f"{_describe(early)} for early digits and {of_late} for late ones"


def _describe(row: pd.Series) -> str:
    """Return a change of accuracy with its interval as a verb phrase."""
    if _verb(row):
        return f"{_verb(row)} test accuracy {_points(row)}"
    return f"makes no clear difference {_points(row)}"


def _verb(row: pd.Series) -> str:
    """Return what a change does to test accuracy; empty if its interval contains zero."""
    if row["high"] < 0:
        return "lowers"
    if row["low"] > 0:
        return "raises"
    return ""


def _points(row: pd.Series) -> str:
    """Return a change of accuracy in points with its interval; without a sign after a verb."""
    value = 100 * row["estimate"]
    low = 100 * row["low"]
    high = 100 * row["high"]
    if _verb(row) == "lowers":
        words = f"by {-value:.0f} points ({-high:.0f} to {-low:.0f})"
    elif _verb(row) == "raises":
        words = f"by {value:.0f} points ({low:.0f} to {high:.0f})"
    else:
        change = f"{value:+.0f}"
        if round(value) == 0:
            change = "0"  # without a sign
        words = f"({change} points; {low:+.0f} to {high:+.0f})"
    return words.replace("-", "−")
