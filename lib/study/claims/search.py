"""The grid search for a network's best setting: what was tried, and if the best is at an edge."""

import numpy as np

from study.claims.claim import NetworkRef
from study.claims.networks import Networks


def rates_tried(networks: Networks, name: NetworkRef) -> list[float]:
    """Return the learning rates at which a network was trained.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        The network.

    Returns
    -------
    list of float
        The smallest first.
    """
    row = networks.runs(name).iloc[0]
    return sorted(networks.learning_rates[row["label"], row["task"]])


def rate_at_edge(networks: Networks, name: NetworkRef) -> str:
    """Describe a best learning rate that is the smallest or the largest of the grid.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        The network.

    Returns
    -------
    str
        Network, task and learning rate; empty if the best rate lies between others, or if only one
        was tried.
    """
    rows = networks.runs(name)
    if rows.empty:
        return ""
    row = rows.iloc[0]
    rates = rates_tried(networks, name)
    if len(rates) > 1 and row["learning_rate"] in (rates[0], rates[-1]):
        return f"{name} on {row['task']} ({row['learning_rate']:g})"
    return ""


def settings_tried(networks: Networks, name: NetworkRef) -> int:
    """Count the settings among which validation chose the network's.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        The network.

    Returns
    -------
    int
        Number of combinations of learning rate and swept factors on the network's task.
    """
    levels = networks.levels(name)
    rows = networks.candidates
    same = rows["label"].isin(levels["label"].unique())
    same &= rows["task"].isin(levels["task"].unique())
    return rows.loc[same, "run"].nunique()


def gain_of_last_rate(networks: Networks, name: NetworkRef, *, logs: bool) -> float:
    """Return how much better a network is at its best learning rate than at the neighboring one.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        A network whose best learning rate is at the edge of the grid.
    logs
        Whether the logarithms of errors are compared.

    Returns
    -------
    float
        In the unit of the score, or of the logarithm of the error; at least 0.
    """
    best = networks.runs(name).iloc[0]
    same = networks.at_all_rates(name)
    rates = rates_tried(networks, name)
    neighbor = rates[-2]
    if best["learning_rate"] == rates[0]:
        neighbor = rates[1]
    means = []
    for rate in (best["learning_rate"], neighbor):
        at_rate = same[same["learning_rate"] == rate]
        scores = networks.unit * at_rate["test"].fillna(at_rate["guess_metric"])
        if logs:
            # A run that diverged counts as guessing. Otherwise it alone would decide the mean.
            guess = networks.unit * at_rate["guess_metric"]
            scores = np.log(np.minimum(scores, guess))
        means.append(scores.mean())
    at_best, at_neighbor = means
    return max(0.0, networks.direction * (at_best - at_neighbor))
