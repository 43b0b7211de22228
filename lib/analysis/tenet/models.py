r"""The twelve models of Section 3.5, once, as data.

Two questions, each asked of two kinds of observation with three sets of predictors:

========== ============ ============== ================= =================== ===========
models     response     rows           1st of the three  2nd                 3rd
========== ============ ============== ================= =================== ===========
1, 2, 3    accuracy     every epoch    metric            metric and factors  factors
4, 5, 6    accuracy     terminal       metric            metric and factors  factors
7, 8, 9    metric       every epoch    accuracy          accuracy, factors   factors
10, 11, 12 metric       terminal       accuracy          accuracy, factors   factors
========== ============ ============== ================= =================== ===========

The equations of the text leave out a covariate that its tables have: *epochs*, the epoch an observation was made
after, in all models with factors but 8 and 9. The tables are followed, because they print its estimates.
The learning rate enters as its natural logarithm: the published condition numbers lie near those of the
design with natural logarithms, and the quadratic of Model 3 has its top at 7e-4 with them, and at 6e-8, far outside the
design, with decimal ones.
"""

from dataclasses import dataclass
from typing import NamedTuple

from lib.analysis.design import INTERCEPT
from lib.results.published import load_published

TRAINING, TERMINAL = "training", "terminal"
ACCURACY, METRIC = "accuracy", "metric"

FACTORS = (
    "architecture",
    "log_rate",
    "log_rate_squared",
    "width",
    "dataset",
    "noise",
    "order",
    "epoch",
    "architecture:log_rate",
    "architecture:log_rate_squared",
    "architecture:noise",
)
"""Covariates describing the experimental factors, in the order of the published tables."""
REFERENCE = {
    "architecture": "antisymmetric",
    "dataset": "cifar10",
    "noise": "none",
    "order": "sequential",
}
"""The level of each factor that the published tables leave out, so that its effect is in the intercept."""

_SYMBOL = {
    (ACCURACY, TRAINING): r"\text{accuracy}_{ij}",
    (ACCURACY, TERMINAL): r"\text{eval. accuracy}_i",
    (METRIC, TRAINING): r"\left[\log_{10}\frac{\|\lambda_1\|_2}{\|\lambda_T\|_2}\right]_{ij}",
    (METRIC, TERMINAL): r"\left[\log_{10}\frac{\|\lambda_1\|_2}{\|\lambda_T\|_2}\right]_i",
}
_LATEX = {
    "architecture": r"\beta_a",
    "log_rate": r"\beta_2\,\text{LR}",
    "log_rate_squared": r"\beta_3\,\text{LR}^2",
    "width": r"\beta_4\,\text{dim}",
    "dataset": r"\beta_b",
    "noise": r"\beta_d",
    "order": r"\beta_c",
    "epoch": r"\beta_5\,\text{epochs}",
    "architecture:log_rate": r"\tau_a\,\text{LR}",
    "architecture:log_rate_squared": r"\tau'_a\,\text{LR}^2",
    "architecture:noise": r"\tau_{ad}",
}


@dataclass(frozen=True)
class Model:
    """One of the twelve models.

    Attributes
    ----------
    number
        1 to 12, as in the text.
    response
        ``accuracy`` or ``metric``, the adjoint metric (3.6).
    rows
        ``training``: every epoch, measured on the training data. ``terminal``: the last epoch of attempts that
        completed, measured on the test data.
    terms
        Terms of the formula beside the intercept, in the order of the published table.
    """

    number: int
    response: str
    rows: str
    terms: tuple[str, ...]

    @property
    def name(self) -> str:
        """As the text writes it."""
        return f"MODEL {self.number}"

    @property
    def formula(self) -> str:
        """The fixed effects as statsmodels and R read them."""
        return f"{self.response} ~ {' + '.join(self.terms)}"

    @property
    def predictor(self) -> str | None:
        """The measurement among the terms: the adjoint metric or the accuracy; None where there is none."""
        return next((term for term in self.terms if term in (ACCURACY, METRIC)), None)

    @property
    def random(self) -> bool:
        """Whether each training attempt has an intercept of its own."""
        return self.rows == TRAINING

    @property
    def summary(self) -> str:
        """Artefact of its family's summary, Table 3.5 to 3.8."""
        return f"diss-tab-3.{5 + (self.number - 1) // 3}"

    @property
    def table(self) -> str:
        """Artefact of its coefficients, Table A8 to A19."""
        return f"diss-tab-A{7 + self.number}"

    @property
    def reason(self) -> str:
        """Why the model has a random effect, or none."""
        if self.random:
            return (
                "The epochs of one attempt resemble each other more than those of two: they share weights, data and "
                "luck. Taken as independent they would count as far more evidence than they are, so every training "
                "attempt gets an intercept of its own, drawn from a normal distribution."
            )
        return "Each attempt contributes one observation, so there is nothing for a random intercept to tie together."

    def latex(self) -> str:
        """Return the model as a formula for display, with the published intercept and slope where it has one."""
        published = load_published(self.table).set_index("term")["estimate"]
        right = [f"{published[INTERCEPT]:.4g}"]
        if self.predictor:
            right.append(
                rf"{_scientific(published[self.predictor])}\,{_SYMBOL[self.predictor, self.rows]}"
            )
        right += [_LATEX[term] for term in self.terms if term in _LATEX]
        if self.random:
            right.append(r"\text{training attempt}_i")
        right.append(r"\epsilon_{ij}" if self.random else r"\epsilon_i")
        lines = [" + ".join(right[at : at + 6]) for at in range(0, len(right), 6)]
        body = r" \\ & \quad + ".join(lines).replace("+ -", "- ")
        return (
            rf"\begin{{aligned}} {_SYMBOL[self.response, self.rows]} = {{}} & {body} "
            rf"\end{{aligned}} \tag{{{self.name}}}"
        )


def _scientific(value: float) -> str:
    if abs(value) >= 0.1:
        return f"{value:.2f}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return rf"{mantissa} \times 10^{{{int(exponent)}}}"


def _models() -> dict[int, Model]:
    found = {}
    for first, response, rows in (
        (1, ACCURACY, TRAINING),
        (4, ACCURACY, TERMINAL),
        (7, METRIC, TRAINING),
        (10, METRIC, TERMINAL),
    ):
        other = METRIC if response == ACCURACY else ACCURACY
        # The published tables of Models 8 and 9 have no epochs; all others with factors do.
        factors = tuple(term for term in FACTORS if term != "epoch" or first != 7)
        for place, terms in enumerate([(other,), (other, *factors), factors]):
            found[first + place] = Model(first + place, response, rows, terms)
    return found


MODELS = _models()
"""The models by their number."""


class Family(NamedTuple):
    """The three models of a summary table.

    Attributes
    ----------
    models
        With the one predictor alone, with the factors too, and with the factors alone.
    question, why
        What they ask, and what there is to know of it.
    unit, predictor
        Unit of the response, and the predictor in words.
    """

    models: tuple[Model, Model, Model]
    question: str
    why: str
    unit: str
    predictor: str


def _family(number: int, question: str, why: str) -> Family:
    models = tuple(MODELS[3 * number - 2 + place] for place in range(3))
    accuracy = models[0].response == ACCURACY
    words = ("accuracy", "adjoint metric") if accuracy else ("orders of magnitude", "accuracy")
    return Family(models, question, why, *words)


FAMILIES = {
    1: _family(
        1,
        "Does the adjoint metric predict how well a network trains?",
        "If the tenet were true, the metric of an epoch should say much about the training accuracy after that epoch. Every epoch of "
        "every attempt is a row, measured on the training data.",
    ),
    2: _family(
        2,
        "Does the adjoint metric predict how well a trained network generalises?",
        "A network may learn its training data and still fail on new sequences. So the question is asked again at the *terminal iterate*: each attempt "
        "that completed gives one row, its last epoch, measured on the test data.",
    ),
    3: _family(
        3,
        "Does training accuracy tell how far gradients vanish?",
        "The tenet has a contrapositive: *if an RNN learns long-term dependencies well, then vanishing and exploding gradients are mitigated.* Read as a "
        "regression it turns predictor and response around. The published tables of Models 8 and 9 lack the number of epochs, for no stated reason; "
        "the tables are followed. What is left out here is the extreme of the response.",
    ),
    4: _family(
        4,
        "Does test accuracy tell how far gradients vanish?",
        "The contrapositive at the terminal iterate: if a network that generalises well must have mitigated vanishing gradients, then test accuracy should "
        "predict the metric of the trained network. Models 4 and 10 are two regressions of one pair of variables on each other, so their R² are equal.",
    ),
}
"""The four families, in the order of Tables 3.5 to 3.8."""
