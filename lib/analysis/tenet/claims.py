"""What the text concludes from its tables, as questions that any tables can be asked.

A claim is a sentence of Section 3.5, a number that decides it, and a condition. The same number is computed from the published tables
and from ours, so that a smaller experiment that disagrees says so by itself, and so does a sentence of the text that
its own tables do not bear out.

The text's words for an explained variance (*very weak*, *negligible*, *mild*) are taken by Cohen's borders for it: below
0.02, 0.13 and 0.26 it is negligible, small and medium.

References
----------
Cohen: *Statistical Power Analysis for the Behavioral Sciences*, 2nd edition, 1988, Section 9.2.1.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.analysis.linear import Fit
from lib.analysis.regimes import published_border
from lib.analysis.tenet.models import MODELS
from lib.results.published import load_published

NEGLIGIBLE, SMALL, MEDIUM = 0.02, 0.13, 0.26
TEXT_RANGE = 1e2
"""Range of all adjoint metrics by the text, "on the order of 10^2" (Section 3.5.1)."""


class Numbers:
    """Where the number of a claim comes from: our fits, or without any the published tables.

    Parameters
    ----------
    fits
        Our fits by number.
    span
        Range of the adjoint metric, in orders of magnitude.
    """

    def __init__(self, fits: Mapping[int, Fit] | None = None, span: float = TEXT_RANGE) -> None:
        self._fits, self.range = fits, span

    def r2(self, model: int) -> float:
        """Return the explained variance: marginal where a random intercept is, plain elsewhere."""
        column = "r2_marginal" if MODELS[model].random else "r2"
        if self._fits is not None:
            return self._fits[model].summary[column]
        return float(load_published(MODELS[model].summary).set_index("model")[column][model])

    def slope(self, model: int) -> float:
        """Return the coefficient of the metric or of the accuracy."""
        if self._fits is not None:
            return self._fits[model].estimate(MODELS[model].predictor)
        table = load_published(MODELS[model].table).set_index("term")["estimate"]
        return float(table[MODELS[model].predictor])


class Quantity(NamedTuple):
    """What decides a claim: the models that its number needs, what it is, and the number from either source."""

    models: tuple[int, ...]
    text: str
    value: Callable[[Numbers], float]


class Condition(NamedTuple):
    """What a number must fulfil to bear a claim out, in words and as a function."""

    text: str
    holds: Callable[[float], bool]


class Claim(NamedTuple):
    """A conclusion of the text, in its own words where they are short."""

    text: str
    quantity: Quantity
    condition: Condition


def explained(model: int) -> Quantity:
    """Return the share of the variance that a model explains."""
    return Quantity((model,), f"{_share(model)} of Model {model}", lambda n: n.r2(model))


def gained(more: int, less: int) -> Quantity:
    """Return how much more of the variance one model explains than another."""
    same = _share(more) == _share(less)
    other = f"Model {less}" if same else f"{_share(less)} of Model {less}"
    text = f"{_share(more)} of Model {more} less {other}"
    return Quantity((more, less), text, lambda n: n.r2(more) - n.r2(less))


def _share(model: int) -> str:
    return "marginal R²" if MODELS[model].random else "R²"


def below(bound: float, words: str = "") -> Condition:
    """Return the condition that a number, in either sign, lies below a bound."""
    return Condition(f"below {words or bound}", lambda v: abs(v) < bound)


POSITIVE = Condition("above 0", lambda v: v > 0)

CLAIMS = {
    1: (
        Claim(
            "the adjoint metric alone is a very weak predictor of task accuracy",
            explained(1),
            below(NEGLIGIBLE),
        ),
        Claim(
            "the factors along with the metric give the highest explanatory power",
            Quantity(
                (1, 2, 3),
                "marginal R² of Model 2 less the larger of Models 1 and 3",
                lambda n: n.r2(2) - max(n.r2(1), n.r2(3)),
            ),
            POSITIVE,
        ),
        Claim(
            "the omission of the adjoint metric has a near negligible impact",
            gained(2, 3),
            below(NEGLIGIBLE),
        ),
        Claim(
            "training accuracy will vary by at most 1% when all other covariates are fixed",
            Quantity(
                (2,),
                "coefficient of the metric in Model 2 times the range of the metric",
                lambda n: abs(n.slope(2)) * n.range,
            ),
            Condition("at most 0.01", lambda v: v <= 0.01),
        ),
    ),
    4: (
        Claim(
            "the adjoint metric is a stronger predictor at evaluation than during training",
            gained(4, 1),
            POSITIVE,
        ),
        Claim(
            "a mild relationship between VEG and evaluation accuracy",
            explained(4),
            Condition(f"between {SMALL} and {MEDIUM}", lambda v: SMALL <= v < MEDIUM),
        ),
        Claim(
            "with the factors included the explanatory power of VEG becomes insignificant",
            gained(5, 6),
            below(NEGLIGIBLE),
        ),
        Claim(
            "a larger adjoint metric goes with a larger evaluation accuracy, all else equal",
            Quantity((5,), "coefficient of the metric in Model 5", lambda n: n.slope(5)),
            POSITIVE,
        ),
    ),
    7: (
        Claim(
            "training accuracy alone offers negligible explanatory power for VEG",
            explained(7),
            below(NEGLIGIBLE),
        ),
        Claim("so it does beside the factors", gained(8, 9), below(NEGLIGIBLE)),
        Claim(
            "accuracy, bound to [0, 1], moves the adjoint metric little: no attempt leaves the stable regime by it",
            Quantity(
                (7, 8),
                "larger coefficient of accuracy in Models 7 and 8, in orders of magnitude",
                lambda n: max(abs(n.slope(7)), abs(n.slope(8))),
            ),
            Condition("below the border of the regimes (3.7)", lambda v: v < published_border()),
        ),
    ),
    10: (
        Claim(
            "evaluation accuracy is a more informative predictor of VEG than training accuracy is",
            gained(10, 7),
            POSITIVE,
        ),
        Claim(
            "beside the factors the benefit of evaluation accuracy is marginal, less than 1.5%",
            gained(11, 12),
            below(0.015),
        ),
        Claim(
            "the coefficient of evaluation accuracy drops substantially beside the factors",
            Quantity(
                (10, 11),
                "coefficient of accuracy in Model 11 over Model 10",
                lambda n: n.slope(11) / n.slope(10),
            ),
            below(0.5, "one half"),
        ),
    ),
}
"""The claims of each family, by its first model."""


def models_needed(first: int) -> list[int]:
    """Return the models whose fits the claims of a family need."""
    return sorted({number for claim in CLAIMS[first] for number in claim.quantity.models})


def judge(first: int, fits: Mapping[int, Fit], metric: np.ndarray) -> pd.DataFrame:
    """Ask the claims of a family of the published tables and of ours.

    Parameters
    ----------
    first
        First model of the family.
    fits
        Our fits by number, at least `models_needed`.
    metric
        Our adjoint metric, for its range.

    Returns
    -------
    pandas.DataFrame
        ``claim``, ``quantity``, ``condition``, ``published`` and ``ours`` (numbers), ``holds_published``,
        ``holds_ours`` and ``agree``.
    """
    theirs, ours = Numbers(), Numbers(fits, float(np.ptp(metric)))
    lines = []
    for claim in CLAIMS[first]:
        quantity, condition = claim.quantity, claim.condition
        a, b = float(quantity.value(theirs)), float(quantity.value(ours))
        line = (claim.text, quantity.text, condition.text, a, b)
        line += condition.holds(a), condition.holds(b)
        lines.append((*line, line[-1] == line[-2]))
    columns = ["claim", "quantity", "condition", "published", "ours"]
    return pd.DataFrame(lines, columns=[*columns, "holds_published", "holds_ours", "agree"])


def sentences(judged: pd.DataFrame) -> list[str]:
    """Return one sentence per line of a table made by `judge`."""
    out = []
    for row in judged.itertuples():
        ours = f"{row.ours:.3g} here, {row.published:.3g} in the text"
        if np.isnan(row.ours):
            verdict = "**cannot be decided here**"
        elif row.holds_published and row.holds_ours:
            verdict = "holds in both"
        elif row.holds_published:
            verdict = "holds in the text and **not here**"
        elif row.holds_ours:
            verdict = "holds here, though **not by the text's own tables**"
        else:
            verdict = "holds **in neither**: the text's own tables do not bear it out"
        out.append(f'"{row.claim}" {verdict} ({row.quantity}: {ours}; {row.condition} is asked).')
    return out
