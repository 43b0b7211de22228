r"""One test that a coefficient is the same at every task, by the wild bootstrap.

.. math::

    H_0 : \beta^{(1)} = \dots = \beta^{(T)}, \qquad
    Q = \sum_t \frac{(\hat\beta^{(t)} - \bar\beta)^2}{s_t^2}, \quad
    \bar\beta = \frac{\sum_t \hat\beta^{(t)} / s_t^2}{\sum_t 1 / s_t^2}

with robust (HC3) standard errors :math:`s_t`. Its reference distribution is made of data in which the null hypothesis holds: at each
task the model is fitted with the coefficient held at :math:`\bar\beta`, every residual keeps its size and gets a random sign
(Rademacher's weights), and Q is computed anew. That needs no variance that attempts share, where 435 pairwise tests at cell-wise variances
have a joint size of 24 to 48 % instead of 5.

Davidson, Flachaire: *The wild bootstrap, tamed at last*, J. Econometrics 146, 2008.
"""

import numpy as np
import pandas as pd

from lib.analysis.accuracy import LEVEL
from lib.analysis.comparisons import TERM
from lib.analysis.task_models import TaskFits, describe

DRAWS = 399


def equal_over_tasks(fits: TaskFits, *, draws: int = DRAWS) -> pd.DataFrame:
    """Test each coefficient of a model, fitted to every task, for equality at all tasks, with so many `draws` of random signs.

    Columns: ``term``, ``architecture``, ``tasks`` (with an estimate and a robust error), ``statistic``, ``p_value`` (at least one over the draws plus one),
    ``p_bonferroni`` (over the coefficients that were tested) and ``rejected``. Empty numbers where fewer than two tasks tell the coefficient.
    """
    rng = np.random.default_rng(0)
    parts = {task: _Part(made) for task, made in fits.designs.items()}
    lines = []
    for key, rows in fits.coefficients.groupby(TERM, sort=False):
        known = rows[rows["robust_se"] > 0]
        tasks = known[["dataset", "order", "noise"]].itertuples(index=False, name=None)
        line = {**dict(zip(TERM, key, strict=True)), "tasks": len(known)}
        if len(known) > 1:
            estimate, error = known["estimate"].to_numpy(), known["robust_se"].to_numpy()
            weight = error**-2
            common = np.average(estimate, weights=weight)
            drawn = [parts[task].draw(key, common, draws, rng) for task in tasks]
            null = _statistic(*(np.stack(columns) for columns in zip(*drawn, strict=True)))
            found = _statistic(estimate[:, None], error[:, None]).item()
            line |= {"statistic": found, "p_value": (1 + (null >= found).sum()) / (draws + 1)}
        lines.append(line)
    table = pd.DataFrame(lines).reindex(columns=[*TERM, "tasks", "statistic", "p_value"])
    corrected = (table["p_value"] * table["p_value"].count()).clip(upper=1)
    return table.assign(p_bonferroni=corrected, rejected=corrected < LEVEL)


def _statistic(estimate: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return Q of estimates and errors of shape (tasks, draws)."""
    weight = error**-2.0
    mean = (weight * estimate).sum(axis=0) / weight.sum(axis=0)
    return (weight * (estimate - mean) ** 2).sum(axis=0)


class _Part:
    """The columns of one task, and what least squares makes of them."""

    def __init__(self, made) -> None:
        self.matrix, self.response = made.matrix(), made.response
        self.inverse = np.linalg.pinv(self.matrix)
        self.left = 1 - np.einsum("np,pn->n", self.matrix, self.inverse)
        self.places = {describe(name): place for place, name in enumerate(made.names)}

    def draw(self, key: tuple, common: float, draws: int, rng) -> tuple[np.ndarray, np.ndarray]:
        """Return estimates and robust errors of a coefficient, each of shape (draws,), were it `common`."""
        place = self.places[key]
        column = common * self.matrix[:, place]
        others = np.delete(self.matrix, place, axis=1)
        fitted = column + others @ np.linalg.lstsq(others, self.response - column, rcond=None)[0]
        free = self.left > 1e-9
        # The residuals of a fit are smaller than the errors; HC3's factor makes up for it.
        residual = np.where(free, (self.response - fitted) / np.where(free, self.left, 1.0), 0.0)
        drawn = fitted[:, None] + residual[:, None] * rng.choice(
            [-1.0, 1.0], (len(residual), draws)
        )
        coefficients = self.inverse @ drawn
        about = (drawn - self.matrix @ coefficients)[free] / self.left[free, None]
        return coefficients[place], np.sqrt(self.inverse[place, free] ** 2 @ about**2)
