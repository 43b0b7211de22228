"""Reasons why a claim about networks stays undecided although its interval decides it.

Each function returns the reason as text, which is empty if the reason does not apply. They become
`study.claims.estimates.Estimate.undecided_because`.
"""

import pandas as pd

from study.claims.claim import NetworkRef
from study.claims.networks import Networks
from study.claims.tuning import few_rates_at_chance

SEEDS = 5
"""Minimum number of runs of each network of a claim.

If a network learns in half of all runs, 3 runs have the same outcome with probability 1/4, and 5
runs with 1/16. With 3 runs against 3, no permutation test gets below .10. Welch's interval holds
for any number of normal values. But with 2 runs against 10 it excludes zero in 11% of the cases if
there is no difference, and in 40% if each run learns with probability 1/2 (4,000 draws each). With
5 against 10 these are 5 and 6%.

Five runs don't help against rare failures of one network alone. If one of its runs in five fails,
and runs of the other never do, Welch's interval of 5 against 5 misses the difference of the means
in 30% of the cases, nearly always in favor of the network that fails: five runs often have no
failure to show. With 10 against 10 it is 11% (20,000 draws each).
"""


def too_few_seeds(*sides: pd.DataFrame) -> str:
    """Explain that a network has fewer than `SEEDS` runs.

    Parameters
    ----------
    sides
        The runs of each network, one row each.

    Returns
    -------
    str
        The reason; empty if each side has enough runs.
    """
    fewest = min(len(side) for side in sides)
    if fewest >= SEEDS:
        return ""
    runs = "run"
    if fewest != 1:
        runs = "runs"
    return f"one network has {fewest} {runs}, and {SEEDS} are needed"


def one_rate_at_chance(networks: Networks, name: NetworkRef) -> str:
    """Explain that a network is at chance and was trained at only one learning rate.

    One rate decides nothing, neither against the network nor for the one it is compared with. If
    several rates were tried, but too few, only verdicts against the network are barred
    (`study.claims.tuning`).

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    str
        The reason; empty if the network learned or was trained at several rates.
    """
    if len(few_rates_at_chance(networks, name)) != 1:
        return ""
    return f"{name} is at chance, and only one learning rate was tried"


def rate_from_test_part(name: NetworkRef, optimism: float | None, *, logs: bool = False) -> str:
    """Explain that a learning rate was chosen on the test part, and could not be cross-fitted.

    Parameters
    ----------
    name
        A network.
    optimism
        How much its score owes to that choice (`study.claims.cross_fitting.optimism_of_rate`);
        None if that is unknown.
    logs
        Whether logarithms of errors are compared, which are not cross-fitted.

    Returns
    -------
    str
        The reason; empty if the choice did not matter or the score is cross-fitted.
    """
    if optimism == 0:
        return ""
    cross_fitted = optimism is not None and not logs
    if cross_fitted:
        return ""
    return f"the learning rate of {name} was chosen on the test part"


def catching_up(networks: Networks, behind: NetworkRef, ahead: NetworkRef) -> str:
    """Explain that a network would close its gap to another if trained for twice as long.

    The progress in the last third of the training is extrapolated. A network that was trained for
    as long as in the paper had its chance, so the reason does not apply to it.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    behind, ahead
        Two of them: the one with the worse score, and the other.

    Returns
    -------
    str
        The reason; empty if the gap would remain.
    """
    if networks.steps_trained(behind) >= networks.paper_steps:
        return ""
    runs_behind = networks.runs(behind)
    runs_ahead = networks.runs(ahead)

    def gap_in(column: str) -> float:
        return networks.direction * (runs_ahead[column].mean() - runs_behind[column].mean())

    gap = gap_in("score")
    if gap <= 0:  # a tie
        return ""
    closed = gap_in("score_at_two_thirds") - gap
    # Twice the training is three more thirds of it.
    if 3 * closed < gap:
        return ""
    return f"{behind} was still closing the gap to {ahead} when training stopped"
