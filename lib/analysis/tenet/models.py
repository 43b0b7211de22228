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

TRAINING, TERMINAL = "training", "terminal"
ACCURACY, METRIC = "accuracy", "metric"
FACTORS = ("architecture", "log_rate", "log_rate_squared", "width", "dataset", "noise", "order")
FACTORS += ("epoch", "architecture:log_rate", "architecture:log_rate_squared", "architecture:noise")
"""Covariates describing the experimental factors, in the order of the published tables."""
REFERENCE = {"architecture": "antisymmetric", "dataset": "cifar10"}
REFERENCE |= {"noise": "none", "order": "sequential"}
"""The level of each factor that the published tables leave out, so that its effect is in the intercept."""


@dataclass(frozen=True)
class Model:
    """One of the twelve models.

    `response` is ``accuracy`` or ``metric``, the adjoint metric (3.6), `rows` ``training`` (every epoch, measured on the training data) or ``terminal`` (the last epoch
    of attempts that completed, measured on the test data); `terms` are those beside the intercept, in the order of the published table.
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
        """Whether each attempt has an intercept of its own: epochs of one attempt share weights, data and luck."""
        return self.rows == TRAINING

    @property
    def summary(self) -> str:
        """Artefact of its family's summary, Table 3.5 to 3.8."""
        return f"diss-tab-3.{5 + (self.number - 1) // 3}"

    @property
    def table(self) -> str:
        """Artefact of its coefficients, Table A8 to A19."""
        return f"diss-tab-A{7 + self.number}"


MODELS: dict[int, Model] = {}
"""The models by their number."""
for _response, _other in ((ACCURACY, METRIC), (METRIC, ACCURACY)):
    for _rows in (TRAINING, TERMINAL):
        # The published tables of Models 8 and 9 have no epochs; all others with factors do.
        _no_epochs = _response == METRIC and _rows == TRAINING
        _factors = tuple(term for term in FACTORS if not (_no_epochs and term == "epoch"))
        for _terms in ((_other,), (_other, *_factors), _factors):
            MODELS[len(MODELS) + 1] = Model(len(MODELS) + 1, _response, _rows, _terms)
FAMILIES = {family: (3 * family - 2, 3 * family - 1, 3 * family) for family in (1, 2, 3, 4)}
"""The three models of each summary table, 3.5 to 3.8: with the one predictor alone, with the factors too, and with the factors alone."""
