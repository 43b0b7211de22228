r"""The twelve linear models of chapter 3, Section 3.5.

The chapter's tenet is: if gradients vanish, learning is poor. Two questions, each put to two kinds
of observation with three sets of predictors, give twelve models:

========== ============ ============== ================= =================== ===========
models     response     rows           1st of the three  2nd                 3rd
========== ============ ============== ================= =================== ===========
1, 2, 3    accuracy     every epoch    metric            metric and factors  factors
4, 5, 6    accuracy     terminal       metric            metric and factors  factors
7, 8, 9    metric       every epoch    accuracy          accuracy, factors   factors
10, 11, 12 metric       terminal       accuracy          accuracy, factors   factors
========== ============ ============== ================= =================== ===========

With :math:`x` the predictors of a model, the models of every epoch are

.. math::

    y_{ij} = x_{ij}^\top \beta + u_i + \epsilon_{ij}, \qquad
    u_i \sim N(0, \tau^2), \quad \epsilon_{ij} \sim N(0, \sigma^2)

for epoch j of attempt i. The random intercept :math:`u_i` stands for what the epochs of one attempt
share beyond the factors: initial weights and the order of the data. Without it the epochs would
count as independent, and all standard errors would be too small. The models of terminal iterates
have one row per attempt, hence no random effect:

.. math::

    y_i = x_i^\top \beta + \epsilon_i, \qquad \epsilon_i \sim N(0, \sigma^2)

The equations of the paper leave out a covariate that its tables have: *epochs*, the epoch of an
observation, in all models with factors but 8 and 9. The tables are followed here, because they
print its estimates. The learning rate enters as its natural logarithm: the published condition
numbers lie near those of the design with natural logarithms, and the maximum of the quadratic of
Model 3 is at 7e-4 with them. With decimal logarithms it is at 6e-8, far outside of the design.
"""

from dataclasses import dataclass

from study.stats.observations import ACCURACY, METRIC, TERMINAL, TRAINING

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
"""Terms of the experimental factors, in the order of the published tables."""
TASK_INTERACTIONS = ("dataset:order", "dataset:noise", "order:noise", "dataset:order:noise")
"""Interactions that the paper's models leave out; with them each task has its own level."""


@dataclass(frozen=True)
class Model:
    """One of the twelve models."""

    number: int
    """From 1 to 12, as in the paper."""
    response: str
    """`ACCURACY` or `METRIC`, the adjoint metric (3.6)."""
    rows: str
    """Kind of observation, `TRAINING` or `TERMINAL`."""
    terms: tuple[str, ...]
    """Terms besides the intercept, in the order of the published table."""

    @property
    def name(self) -> str:
        """Name in the paper."""
        return f"MODEL {self.number}"

    @property
    def formula(self) -> str:
        """The fixed effects as statsmodels and R read them."""
        return f"{self.response} ~ {' + '.join(self.terms)}"

    @property
    def predictor(self) -> str | None:
        """The measurement among the terms, `ACCURACY` or `METRIC`; None if there is none."""
        for term in self.terms:
            if term in (ACCURACY, METRIC):
                return term
        return None

    @property
    def random(self) -> bool:
        """Whether each attempt has a random intercept."""
        return self.rows == TRAINING

    @property
    def summary(self) -> str:
        """Artifact of its family's summary, Table 3.5 to 3.8."""
        return f"diss-tab-3.{5 + (self.number - 1) // 3}"

    @property
    def table(self) -> str:
        """Artifact of its coefficients, Table A8 to A19."""
        return f"diss-tab-A{7 + self.number}"


def _models() -> dict[int, Model]:
    """Return the twelve models by number."""
    models: dict[int, Model] = {}
    for response, predictor in ((ACCURACY, METRIC), (METRIC, ACCURACY)):
        for kind in (TRAINING, TERMINAL):
            factors = FACTORS
            # The published tables of Models 8 and 9 have no epochs.
            if response == METRIC and kind == TRAINING:
                factors = tuple(term for term in FACTORS if term != "epoch")
            for terms in ((predictor,), (predictor, *factors), factors):
                number = len(models) + 1
                models[number] = Model(number, response, kind, terms)
    return models


MODELS = _models()
"""The models by number."""
FAMILIES = {1: (1, 2, 3), 2: (4, 5, 6), 3: (7, 8, 9), 4: (10, 11, 12)}
"""The three models of each summary table, 3.5 to 3.8: with the predictor alone, with predictor and
factors, and with the factors alone.
"""
