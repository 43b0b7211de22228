"""Verdicts on more draws of data in which a claim is false than `make test` judges."""

import pytest
from claim_verdicts import COMPARED, judgments_of_false_data, verdict_of, verdicts_on_evidence
from evidence_for_judges import FALSE, IN_NOTEBOOKS
from scipy.stats import binom
from study.claims.verdict import AGREES

pytestmark = [pytest.mark.trials, pytest.mark.exhaustive]

DRAWS = 20
ERROR = 0.025
"""Probability that the interval of 95% lies above the truth, and so beyond the threshold."""


def test_false_claims_are_rarely_agreed_with(trials):
    draws = len(trials.some(DRAWS))
    most = binom.isf(1e-4, draws, ERROR)  # by chance more in one of ten thousand claims

    def agreements(name):
        judgments = judgments_of_false_data(name, draws)
        return [verdict_of(name, one) for one in judgments].count(AGREES)

    for name in (*FALSE, *IN_NOTEBOOKS):
        trials.accept(name, lambda name=name: agreements(name), lambda count: count <= most)
    for claim in COMPARED:
        trials.accept(
            claim.id,
            lambda claim=claim: verdicts_on_evidence(claim, draws, true=False).count(AGREES),
            lambda count: count <= most,
        )
