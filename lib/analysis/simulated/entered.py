r"""Which attempts completed, as far as the published tables tell.

Of the 42,000 planned attempts 29,566 have a terminal iterate (footnote 6). The training rows are 1,072,475, and
if they are exactly those of the completed attempts, k of which trained for 50 epochs, then

.. math:: 25 \cdot 29{,}566 + 25 k = 1{,}072{,}475

has the whole solution k = 13,333. That is the simulator's construction: completed attempts contribute all their epochs,
the others none. It is the simplest that gives both numbers, not a proof.

Who completed follows from the standard errors of Model 6. Interactions with the architecture make its design
nearly separate by architecture, so that with :math:`\sigma` the residual deviation

.. math:: \frac{\mathrm{SE}^2(a \times \text{post}) - \mathrm{SE}^2(\text{post})}{\sigma^2}
    = \frac{1}{n_{a,\text{none}}} + \frac{1}{n_{a,\text{post}}}

counts attempts, and the standard error of :math:`a \times \text{LR}^2` tells how they spread over the learning rates. Summed
over architectures these counts miss 29,566 by about one percent. They also show what no table of the text says: of UnICORNN's
attempts with noise about 290 of 2,000 entered each kind, which is one data set's worth, and Table A7 counts some of them on
Reuters alone. The others count here as never run.

Last, the probabilities are tilted, by a logistic term in the two fitted means, their squares and product, so that
means, variances and the covariance over all completed attempts are those that Models 1, 4, 7 and 10 imply.
"""

from functools import cache

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from scipy.special import expit

from lib.analysis.simulated import published
from lib.analysis.simulated.published import REPLICATE
from lib.results.published import load_published

_QUADRATIC = "log_rate_squared"
_NOISES = ("post", "uniform")


class CalibrationError(RuntimeError):
    """The published tables could not be met; the message says which number misses."""


@cache
def possible() -> np.ndarray:
    """Return which treatments ran at all, shape (4200,).

    UnICORNN did with noise only on data sets where Table A7 counts any of its attempts with that noise.
    """
    table = published.treatments()
    noisy = (table["architecture"] == "unicornn") & (table["noise"] != "none")
    counted = load_published("diss-tab-A7").query("architecture == 'unicornn' and noise != 'none'")
    ran = counted.groupby("dataset")["count"].sum()
    return ~(noisy & ~table["dataset"].astype(str).isin(ran.index[ran > 0])).to_numpy()


def by_errors() -> dict[str, float]:
    """Return how many attempts of each architecture the standard errors of Model 6 tell to have completed."""
    table, replicates = published.treatments(), len(published.levels()[REPLICATE])
    shares = np.where(possible(), expit(_by_architecture(replicates)), 0.0)
    shares[(table["architecture"] == _reference()).to_numpy()] = 1.0
    return (replicates * pd.Series(shares).groupby(table["architecture"]).sum()).to_dict()


@cache
def expected() -> np.ndarray:
    """Return how many of the replicates of each treatment complete, as real numbers, shape (4200,).

    Raises
    ------
    CalibrationError
        The moments that the published tables imply are not met to one part in a million.
    """
    table = published.treatments()
    replicates = len(published.levels()[REPLICATE])
    whole = (table["architecture"] == _reference()).to_numpy()
    free = possible() & ~whole
    logit = _by_architecture(replicates)
    features, target = _moments()
    scale = np.sqrt((features**2).mean(axis=0))

    def completed(tilt: np.ndarray) -> np.ndarray:
        shares = np.where(whole, 1.0, 0.0)
        shares[free] = expit(logit[free] + features[free] / scale @ tilt)
        return replicates * shares

    found = least_squares(
        lambda tilt: features.T @ completed(tilt) / target - 1, np.zeros(features.shape[1])
    )
    worst = float(np.abs(found.fun).max())
    if worst > 1e-6:
        raise CalibrationError(
            f"a moment of the completed attempts misses what the published tables imply by {worst:.1e} of itself; "
            "expected at most 1e-6"
        )
    return completed(found.x)


@cache
def completed() -> np.ndarray:
    """Return how many of the replicates of each treatment complete, as whole numbers, shape (4200,).

    Running totals are rounded, so that the totals of all attempts and of the long ones are exact.
    """
    return np.diff(np.round(np.cumsum(expected())), prepend=0.0).astype(int)


def _reference() -> str:
    """Return the one architecture that never failed (Table 1.7) and is the published reference level."""
    rates = load_published("diss-tab-1.7").set_index("architecture")["error_rate"]
    reference = published.treatments()["architecture"].cat.categories[0]
    if rates[reference] != 0:
        raise CalibrationError(f"{reference} has failures in Table 1.7; expected none")
    return reference


def _by_architecture(replicates: int) -> np.ndarray:
    """Return the log odds of completing, by architecture and learning rate, from the errors of Model 6."""
    table = published.treatments()
    logit = np.zeros(len(table))
    for name in table["architecture"].cat.categories[1:]:
        chosen = ((table["architecture"] == name) & possible()).to_numpy()
        rate = table["log_rate"].to_numpy()[chosen]
        noise = table["noise"].astype(str).to_numpy()[chosen]

        wanted_noise = sum(_share(name, f"noise[{kind}]") for kind in _NOISES)
        wanted_rate = _share(name, _QUADRATIC)
        others = np.column_stack(
            [np.ones(len(rate)), rate, *((noise == kind).astype(float) for kind in _NOISES)]
        )

        def miss(
            odds: np.ndarray,
            rate: np.ndarray = rate,
            noise: np.ndarray = noise,
            others: np.ndarray = others,
            wanted: tuple[float, float] = (wanted_noise, wanted_rate),
        ) -> np.ndarray:
            n = replicates * expit(odds[0] + odds[1] * (rate - rate.mean()))
            inverse = {kind: 1 / n[noise == kind].sum() for kind in ("none", *_NOISES)}
            got_noise = sum(inverse["none"] + inverse[kind] for kind in _NOISES)
            root = np.sqrt(n)[:, None]
            square = (rate**2)[:, None]
            left = square - others @ np.linalg.lstsq(others * root, square * root, rcond=None)[0]
            return np.log(np.divide([got_noise, 1 / (n @ left[:, 0] ** 2)], wanted))

        odds = least_squares(miss, [1.0, -0.1], bounds=([-10, -5], [12, 5])).x
        logit[chosen] = odds[0] + odds[1] * (rate - rate.mean())
    return logit


def _share(architecture: str, term: str) -> float:
    """Return the part of a variance in Model 6 that an architecture's own attempts make, in units of sigma^2."""
    error, deviation = published.errors(6), float(published.summary(6)["rmse"])
    return (error[f"architecture[{architecture}]:{term}"] ** 2 - error[term] ** 2) / deviation**2


def _moments() -> tuple[np.ndarray, np.ndarray]:
    """Return features of the treatments and what their sums over completed attempts must be."""
    names, matrix = published.columns()
    length = published.treatments()["training_length"].to_numpy()
    accuracy = matrix @ published.vector(6, names)
    metric = matrix @ published.vector(12, names)
    # During training an attempt's mean epoch is in the middle.
    middle = matrix.copy()
    middle[:, names.index("epoch")] = (length + 1) / 2
    features = np.column_stack(
        [
            np.ones(len(matrix)),
            length == length.max(),
            accuracy,
            metric,
            accuracy**2,
            metric**2,
            accuracy * metric,
            middle @ published.vector(3, names),
            middle @ published.vector(9, names),
        ]
    ).astype(float)
    attempts, rows = published.number("terminal_attempts"), published.number("training_rows")
    short = length.min()
    long_attempts = (rows - short * attempts) / (length.max() - short)
    if long_attempts != int(long_attempts):
        raise CalibrationError(
            f"{rows:,} rows are not the epochs of {attempts:,} whole attempts; the construction does not hold"
        )
    whole, left = published.terminal(), published.terminal_residuals()
    per_attempt = [
        1.0,
        long_attempts / attempts,
        whole.accuracy,
        whole.metric,
        whole.var_accuracy - left.var_accuracy + whole.accuracy**2,
        whole.var_metric - left.var_metric + whole.metric**2,
        whole.covariance - left.covariance + whole.accuracy * whole.metric,
        *published.training_means(),
    ]
    return features, attempts * np.array(per_attempt)
