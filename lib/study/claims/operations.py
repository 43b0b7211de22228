"""Claims about how much work a network needs, which is counted and not timed."""

import math
from dataclasses import astuple

from study.bench.counts import Counts
from study.claims.estimates import ByVerdict, Estimate, Exact, Scale

COUNTED = "operations are counted, and how long they take depends on the machine"
"""Words of the caveat that no time was measured."""
EXACT = "a count is exact, so its interval has no width"


def work_ratio(first: Counts, second: Counts, scale: Scale | None = None) -> Estimate:
    """Estimate how many times as much work one network needs as another.

    Work is counted in several ways: operators, matrix products, their floating-point operations,
    and bytes. The smallest of the four ratios counts, which favors the claim that extra work is
    small.

    Parameters
    ----------
    first, second
        The work of each network in one time step.
    scale
        Sizes of the networks.

    Returns
    -------
    Estimate
        A count is exact. So its interval has no width, and it has no p-value: no chance is
        involved, and corrections for many tests leave it out.
    """
    ratios = []
    for ours, theirs in zip(astuple(first), astuple(second), strict=True):
        ratios.append(ours / theirs)
    smallest = min(ratios)
    caveat = ByVerdict(to_agree=(COUNTED,), to_differ=(COUNTED,))
    exact = Exact(lambda _: (smallest, smallest), lambda _: math.nan)
    return Estimate(
        smallest,
        smallest,
        smallest,
        scale or Scale(),
        notes=(EXACT,),
        caveats=caveat,
        exact=exact,
    )
