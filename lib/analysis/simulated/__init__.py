"""A factorial dataset drawn from the published tables, so that all of the text's analysis runs at full size.

Nothing is trained. The published coefficients, standard errors and fit statistics of the twelve models are the input, and
one dataset of 42,000 attempts and 1,072,475 training rows is the output, with the variables of `lib.results.factorial`.

One dataset serves all twelve models, because the published tables are twelve views of one: the linear models with
factors fix the means, and the simple ones (accuracy on the metric alone and the reverse) are what those means and the
covariances imply over the attempts that entered. What the text does not print is derived:

``entered``
    which attempts completed: the standard errors of Model 6 tell how many of each architecture did, and
    Models 1, 4, 7 and 10 tell the moments that they must have together.
``covariances``
    how accuracy and metric vary together within and between attempts, so that every published slope comes out.
``draw``
    the dataset.

What it is not: accuracies here are normal, as the published models assume, and so some lie below 0 or above 1.
Cutting them off would bias every coefficient, so they stay. Test measurements before the last epoch, losses and the
norms of single adjoints are made up to fill the schema; the text publishes no model of them.
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
