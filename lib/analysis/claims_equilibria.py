"""What random networks and a trained one say of the incremental RNN's claims about its equilibrium."""

from collections.abc import Mapping

import numpy as np

from lib.results.claims import Finding, Judges, mean, share, unable

judges = Judges("irnn_theory")
Evidence = Mapping[str, np.ndarray]
"""``roughness`` and ``distance`` to the equilibrium (networks, 3) of the RNN, FastRNN and iRNN; ``negative`` (sequences,), shares of eigenvalues of
a network trained on HAR-2, none where other data stand in for it."""


def _made_up(rng: np.random.Generator) -> Evidence:
    """Draw paths of which none is the smoothest by nature, and eigenvalues of which a tenth are not negative."""
    rough, distance = rng.exponential(size=(2, 200, 3))
    return {"roughness": rough, "distance": distance, "negative": rng.normal(0.9, 0.02, 8)}


@judges.judge("irnn-3.2-smooth", false=_made_up)
def smoothest(evidence: Evidence) -> Finding:
    return _least(evidence["roughness"])


@judges.judge("irnn-3.2-surface", false=_made_up)
def on_the_surface(evidence: Evidence) -> Finding:
    return _least(evidence["distance"])


def _least(values: np.ndarray) -> Finding:
    """Return the share of networks, (networks, 3), in which iRNN's value is the smallest."""
    return share(int((values.argmin(axis=1) == 2).sum()), len(values))


@judges.judge("irnn-a.6.6-negative", false=_made_up)
def all_negative(evidence: Evidence) -> Finding:
    if not len(evidence["negative"]):
        return unable("other data stand in for HAR-2")
    return mean(evidence["negative"])
