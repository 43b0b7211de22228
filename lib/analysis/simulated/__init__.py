"""A factorial dataset drawn from the published tables, so that the text's analysis runs at full size on data of which the truth is known.

Nothing is trained. ``law`` says what is drawn: the means of Models 3, 6, 9 and 12 of chapter 3 with normal deviations, and who completed; it makes one dataset of
42,000 attempts and 1,072,475 training rows, with the variables of `lib.results.factorial`.

What it is not: accuracies here are normal, as the published models assume, and so some lie below 0 or above 1.
Cutting them off would bias every coefficient, so they stay.
"""

PROFILE = "simulated"
"""Profile of these results, in place of that of a training."""


def caution(profile: str) -> str:
    """Return what a reader of simulated results must know before any conclusion; nothing for results of training."""
    if profile != PROFILE:
        return ""
    return (
        "**No network was trained for these numbers.** They are drawn from the published models of chapter 3, so that they agree with "
        "the text by construction. What follows shows the analysis at full size, and is evidence of nothing else. "
    )
