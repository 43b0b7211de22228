"""Claims about how much work a network needs, which is counted and not timed."""

import math
from collections.abc import Mapping

from study.claims.estimates import ByVerdict, Estimate, Exact, Scale

COUNTED = (
    "operations of the steps through time are counted, without the loss and the optimizer, and "
    "how long they take depends on the machine"
)
"""Words of the caveat that no time was measured."""
EXACT = "a count is exact, so its interval has no width"


def work_ratio(
    first: Mapping[str, float], second: Mapping[str, float], scale: Scale | None = None
) -> Estimate:
    """Estimate how many times as much work one network needs as another.

    Work is counted in several ways, such as operators and bytes. The smallest of the ratios counts,
    which favors the claim that extra work is small.

    Parameters
    ----------
    first, second
        The work of each network in one time step, by the way in which it is counted, as in
        `study.bench.counts.Counts`.
    scale
        Sizes of the networks.

    Returns
    -------
    Estimate
        A count is exact. So its interval has no width, and it has no p-value: no chance is
        involved, and corrections for many tests leave it out.
    """
    ratios = []
    for way, work in first.items():
        ratios.append(work / second[way])
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
