"""Reservations: reasons why a verdict on networks is undecided although its interval decides.

In every function, `networks` are the networks on the claim's task; the names are some of them.
"""

import pandas as pd

from study.claims.claim import NetworkName
from study.claims.networks import Networks
from study.claims.short_runs import in_words
from study.claims.tuning import few_rates_at_chance

SEEDS = 5
"""Minimum runs per side of a comparison.

With 3 runs against 3, no permutation test gets below .10. Welch's interval holds for any number of
normal values, but with 2 runs against 10 it excludes zero in 11 % of the cases if there is no
difference, and in 40 % if runs either learn or don't, half and half (4,000 draws each). With 5
against 10 these are 5 and 6 %.
"""
SMALL_ERROR = 0.1
"""Share of the error at chance below which an error is small."""


def too_few_seeds(*sides: pd.DataFrame) -> str:
    """Return the reservation that a side of a comparison has fewer than `SEEDS` runs.

    Parameters
    ----------
    sides
        The runs of each network, one row each.

    Returns
    -------
    str
        The reservation; empty if there is none.
    """
    fewest = min(len(side) for side in sides)
    if fewest >= SEEDS:
        return ""
    runs = "run"
    if fewest != 1:
        runs = "runs"
    return f"one side has {fewest} {runs}, and {SEEDS} are needed"


def chance_reservation(networks: Networks, name: NetworkName) -> str:
    """Return the reservation that a network is at chance and only one learning rate was tried.

    One rate decides nothing, neither against the network nor for its rival. If several were tried,
    but too few, only verdicts against the network are barred (`study.claims.tuning`).

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    str
        The reservation; empty if there is none.
    """
    if len(few_rates_at_chance(networks, name)) != 1:
        return ""
    return f"{name} is at chance, and only one learning rate was tried"


def rate_reservation(name: NetworkName, optimism: float | None, *, logs: bool = False) -> str:
    """Return the reservation that a learning rate was chosen on the test part.

    It is not needed if the score can be cross-fitted.

    Parameters
    ----------
    name
        A network.
    optimism
        How much its score owes to that choice (`study.claims.cross_fitting.optimism_of_rate`).
    logs
        Whether logarithms of errors are compared, which are not cross-fitted.

    Returns
    -------
    str
        The reservation; empty if there is none.
    """
    if optimism == 0 or (optimism is not None and not logs):
        return ""
    return f"the learning rate of {name} was chosen on the test part"


def shorter_than_paper(networks: Networks, *names: NetworkName) -> str:
    """Explain that a network was trained for fewer steps than in the paper.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    names
        Some of them.

    Returns
    -------
    str
        The reservation; empty if there is none.
    """
    steps = min(networks.steps_trained(name) for name in names)
    if steps < networks.paper_steps:
        return in_words(steps, networks.paper_steps)
    return ""


def catching_up(networks: Networks, behind: NetworkName, ahead: NetworkName) -> str:
    """Return the reservation that a network would draw level if trained for twice as long.

    It is extrapolated from the last third of the training, unless the network was trained
    for as long as in the paper.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    behind, ahead
        Two of them: the one with the worse score, and the other.

    Returns
    -------
    str
        The reservation; empty if there is none.
    """
    rows = networks.runs(behind)
    others = networks.runs(ahead)
    gap = networks.direction * (others["score"].mean() - rows["score"].mean())
    earlier = others["then"].mean() - rows["then"].mean()
    earlier = networks.direction * networks.unit * earlier
    if networks.steps_trained(behind) >= networks.paper_steps or 3 * (earlier - gap) < gap:
        return ""
    return f"{behind} was still closing the gap to {ahead} when training stopped"


def still_falling(networks: Networks, name: NetworkName) -> str:
    """Return the reservation that an error would become small if trained for twice as long.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    str
        The reservation; empty if there is none.
    """
    rows = networks.runs(name)
    share = (rows["score"] / rows["guess"]).mean()
    fall = (networks.unit * (rows["then"] - rows["test"]) / rows["guess"]).mean()
    if share - 3 * fall < SMALL_ERROR < share:
        return f"the error of {name} was still falling when training stopped"
    return ""
