"""More pages of the report in a browser than `make test` visits."""

import pytest
from test_browser import FAULTS, faults_by_page, visit_largest

pytestmark = [pytest.mark.trials, pytest.mark.exhaustive, pytest.mark.browser]


def test_no_page_has_a_fault(each_site, browser, trials):
    visits = visit_largest(each_site, browser, most=len(trials.some(40)))
    for fault in FAULTS:
        trials.accept(fault, lambda fault=fault: faults_by_page(fault, visits), lambda bad: not bad)
