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
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from lib.published import load_published
from lib.stats.regimes import published_border
from lib.stats.tenet.fits import Fit
from lib.stats.tenet.models import ACCURACY, METRIC, MODELS

NEGLIGIBLE, SMALL, MEDIUM = 0.02, 0.13, 0.26
TEXT_RANGE = 1e2
"""Range of all adjoint metrics by the text, "on the order of 10^2" (Section 3.5.1)."""


class Numbers(Protocol):
    """Where the number of a claim comes from."""

    def r2(self, model: int) -> float:
        """Explained variance: marginal where a random intercept is, plain elsewhere."""

    def slope(self, model: int) -> float:
        """Coefficient of the metric or of the accuracy."""

    @property
    def range(self) -> float:
        """Largest less smallest adjoint metric."""


@dataclass(frozen=True)
class Claim:
    """A conclusion of the text.

    Attributes
    ----------
    models
        Models that its number needs.
    text
        What the text says, in its own words where they are short.
    quantity
        What decides it.
    value
        Its number, from either source.
    holds
        Whether a number bears the claim out.
    condition
        The same in words.
    """

    models: tuple[int, ...]
    text: str
    quantity: str
    value: Callable[[Numbers], float]
    holds: Callable[[float], bool]
    condition: str


CLAIMS = {
    1: (
        Claim(
            (1,),
            "the adjoint metric alone is a very weak predictor of task accuracy",
            "marginal R² of Model 1",
            lambda n: n.r2(1),
            lambda v: v < NEGLIGIBLE,
            f"below {NEGLIGIBLE}",
        ),
        Claim(
            (1, 2, 3),
            "the factors along with the metric give the highest explanatory power",
            "marginal R² of Model 2 less the larger of Models 1 and 3",
            lambda n: n.r2(2) - max(n.r2(1), n.r2(3)),
            lambda v: v > 0,
            "above 0",
        ),
        Claim(
            (2, 3),
            "the omission of the adjoint metric has a near negligible impact",
            "marginal R² of Model 2 less Model 3",
            lambda n: n.r2(2) - n.r2(3),
            lambda v: abs(v) < NEGLIGIBLE,
            f"below {NEGLIGIBLE}",
        ),
        Claim(
            (2,),
            "training accuracy will vary by at most 1% when all other covariates are fixed",
            "coefficient of the metric in Model 2 times the range of the metric",
            lambda n: abs(n.slope(2)) * n.range,
            lambda v: v <= 0.01,
            "at most 0.01",
        ),
    ),
    4: (
        Claim(
            (1, 4),
            "the adjoint metric is a stronger predictor at evaluation than during training",
            "R² of Model 4 less marginal R² of Model 1",
            lambda n: n.r2(4) - n.r2(1),
            lambda v: v > 0,
            "above 0",
        ),
        Claim(
            (4,),
            "a mild relationship between VEG and evaluation accuracy",
            "R² of Model 4",
            lambda n: n.r2(4),
            lambda v: SMALL <= v < MEDIUM,
            f"between {SMALL} and {MEDIUM}",
        ),
        Claim(
            (5, 6),
            "with the factors included the explanatory power of VEG becomes insignificant",
            "R² of Model 5 less Model 6",
            lambda n: n.r2(5) - n.r2(6),
            lambda v: abs(v) < NEGLIGIBLE,
            f"below {NEGLIGIBLE}",
        ),
        Claim(
            (5,),
            "a larger adjoint metric goes with a larger evaluation accuracy, all else equal",
            "coefficient of the metric in Model 5",
            lambda n: n.slope(5),
            lambda v: v > 0,
            "above 0",
        ),
    ),
    7: (
        Claim(
            (7,),
            "training accuracy alone offers negligible explanatory power for VEG",
            "marginal R² of Model 7",
            lambda n: n.r2(7),
            lambda v: v < NEGLIGIBLE,
            f"below {NEGLIGIBLE}",
        ),
        Claim(
            (8, 9),
            "so it does beside the factors",
            "marginal R² of Model 8 less Model 9",
            lambda n: n.r2(8) - n.r2(9),
            lambda v: abs(v) < NEGLIGIBLE,
            f"below {NEGLIGIBLE}",
        ),
        Claim(
            (7, 8),
            "accuracy, bound to [0, 1], moves the adjoint metric little: no attempt leaves the stable regime by it",
            "larger coefficient of accuracy in Models 7 and 8, in orders of magnitude",
            lambda n: max(abs(n.slope(7)), abs(n.slope(8))),
            lambda v: v < published_border(),
            "below the border of the regimes (3.7)",
        ),
    ),
    10: (
        Claim(
            (7, 10),
            "evaluation accuracy is a more informative predictor of VEG than training accuracy is",
            "R² of Model 10 less marginal R² of Model 7",
            lambda n: n.r2(10) - n.r2(7),
            lambda v: v > 0,
            "above 0",
        ),
        Claim(
            (11, 12),
            "beside the factors the benefit of evaluation accuracy is marginal, less than 1.5%",
            "R² of Model 11 less Model 12",
            lambda n: n.r2(11) - n.r2(12),
            lambda v: abs(v) < 0.015,
            "below 0.015",
        ),
        Claim(
            (10, 11),
            "the coefficient of evaluation accuracy drops substantially beside the factors",
            "coefficient of accuracy in Model 11 over Model 10",
            lambda n: n.slope(11) / n.slope(10),
            lambda v: abs(v) < 0.5,
            "below one half",
        ),
    ),
}
"""The claims of each family, by its first model."""


def models_needed(first: int) -> list[int]:
    """Return the models whose fits the claims of a family need."""
    return sorted({number for claim in CLAIMS[first] for number in claim.models})


def judge(first: int, fits: Mapping[int, Fit], span: float) -> pd.DataFrame:
    """Ask the claims of a family of the published tables and of ours.

    Parameters
    ----------
    first
        First model of the family.
    fits
        Our fits by number, at least `models_needed`.
    span
        Range of our adjoint metric.

    Returns
    -------
    pandas.DataFrame
        ``claim``, ``quantity``, ``condition``, ``published`` and ``ours`` (numbers), ``holds_published``,
        ``holds_ours`` and ``agree``.
    """
    theirs, ours = _Published(), _Ours(fits, span)
    lines = []
    for claim in CLAIMS[first]:
        a, b = float(claim.value(theirs)), float(claim.value(ours))
        line = (claim.text, claim.quantity, claim.condition, a, b, claim.holds(a), claim.holds(b))
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


class _Published:
    range = TEXT_RANGE

    def r2(self, model: int) -> float:
        table = load_published(MODELS[model].summary).set_index("model").loc[model]
        return float(table["r2_marginal" if MODELS[model].random else "r2"])

    def slope(self, model: int) -> float:
        table = load_published(MODELS[model].table).set_index("term")["estimate"]
        return float(table[MODELS[model].predictor])


class _Ours:
    def __init__(self, fits: Mapping[int, Fit], span: float) -> None:
        self._fits = fits
        self.range = span

    def r2(self, model: int) -> float:
        fit = self._fits[model]
        return fit.summary["r2_marginal" if fit.model.random else "r2"]

    def slope(self, model: int) -> float:
        return self._fits[model].estimate(ACCURACY if MODELS[model].response == METRIC else METRIC)


def span(metric: np.ndarray) -> float:
    """Return the range of the adjoint metric."""
    return float(np.ptp(metric))
