r"""How accuracy and metric vary together during training, found from the published slopes.

.. math::

    y_{ij} = x_i^\top \beta_y + b_y j + u_i + e_{ij}, \qquad m_{ij} = x_i^\top \beta_m + b_m j + v_i + f_{ij}

with :math:`(u, v)` and :math:`(e, f)` bivariate normal. Model 3 gives :math:`\beta_y` and :math:`b_y`, Model 9
:math:`\beta_m`. The slopes of Models 1, 2, 7 and 8 are mixtures of the regressions within and between attempts, and
depend on the two covariance matrices and on :math:`b_m`, which the text does not print (its Models 8 and 9 have no
epochs). These seven numbers are chosen so that the four slopes and the epochs' of Model 2 come out, and RMSE and
explained variances come as near as one common covariance allows: real attempts are not that uniform.

A candidate is judged without drawing anything: the criterion of a mixed model needs sums of products only
(`lib.analysis.reml`), and their expectations have a closed form.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import least_squares

from lib.analysis.design import INTERCEPT
from lib.analysis.reml import Moments, RandomIntercept, fit_random_intercept
from lib.analysis.simulated import entered, published
from lib.analysis.simulated.entered import CalibrationError
from lib.analysis.tenet.models import ACCURACY, METRIC, MODELS

_TRAINING = (1, 2, 3, 7, 8, 9)
_MIXED = ((1, METRIC), (2, METRIC), (2, "epoch"), (7, ACCURACY), (8, ACCURACY))
_SLOPE_TOLERANCE, _FIT_TOLERANCE = 0.1, 0.03
"""What counts as one unit of miss: a tenth of a standard error of a slope, three percent of a statistic."""


@dataclass(frozen=True)
class Process:
    """The law that training measurements are drawn from.

    Attributes
    ----------
    accuracy, metric
        Coefficients of the columns of `published.columns`, the epoch's among them, shape (42,).
    between, within
        Covariance of (accuracy, metric) between attempts and between the epochs of one, shape (2, 2).
    """

    accuracy: np.ndarray
    metric: np.ndarray
    between: np.ndarray
    within: np.ndarray


@cache
def training_process() -> Process:
    """Return the law whose expected fits have the published slopes.

    Raises
    ------
    CalibrationError
        A slope misses by more than half of its published standard error.
    """
    found = least_squares(_misses, _start(), x_scale="jac", diff_step=1e-4)
    process = _process(found.x)
    # Model 9 sees no epochs; its other coefficients absorb their slope. One linear correction undoes that.
    names, _ = published.columns()
    for _ in range(2):
        fits = expected_fits(process, (9,))
        shift = np.array(
            [published.estimates(9).get(name, np.nan) - fits[9].get(name, np.nan) for name in names]
        )
        process = Process(
            process.accuracy,
            process.metric + np.nan_to_num(shift),
            process.between,
            process.within,
        )
    fits = expected_fits(process, _TRAINING)
    for model, term in _MIXED:
        miss = (fits[model][term] - published.estimates(model)[term]) / published.errors(model)[
            term
        ]
        if abs(miss) > 0.5:
            raise CalibrationError(
                f"the {term} of {MODELS[model].name} misses its published estimate by {miss:.2f} standard errors; "
                "expected at most 0.5"
            )
    return process


def expected_fits(process: Process, models: tuple[int, ...]) -> dict[int, dict[str, float]]:
    """Return estimates and statistics that `models` have on the expected sums of products of `process`.

    Returns
    -------
    dict
        For each model its coefficients by term, and ``rmse``, ``r2_marginal`` and ``r2_conditional``.
    """
    names, everything = _expected_moments(process)
    out = {}
    for number in models:
        model = MODELS[number]
        terms = [INTERCEPT, model.predictor] if model.predictor else [INTERCEPT]
        if len(model.terms) > 1:
            skipped = {ACCURACY, METRIC, INTERCEPT} | ({"epoch"} - set(model.terms))
            terms += [name for name in names if name not in skipped]
        chosen = np.array([names.index(name) for name in [*terms, model.response]])
        part = Moments(
            everything.within[np.ix_(chosen, chosen)],
            everything.between[:, chosen[:, None], chosen],
            everything.sizes,
            everything.groups,
        )
        fitted = fit_random_intercept(part)
        values = dict(zip(terms, fitted.coefficients.tolist(), strict=True))
        out[number] = values | _statistics(part, fitted)
    return out


def _statistics(part: Moments, fitted: RandomIntercept) -> dict[str, float]:
    ratio = fitted.group_variance / fitted.residual_variance
    residual = np.append(-fitted.coefficients, 1.0)
    about = np.einsum("k,skl,l->s", residual, part.between, residual)
    squares = residual @ part.within @ residual
    squares += (part.sizes / (1 + part.sizes * ratio) ** 2) @ about
    total = part.total(0.0)
    mean = total[0, :-1] @ fitted.coefficients / part.rows  # the first column is the intercept
    explained = fitted.coefficients @ total[:-1, :-1] @ fitted.coefficients / part.rows - mean**2
    whole = explained + fitted.group_variance + fitted.residual_variance
    return {
        "rmse": float(np.sqrt(squares / part.rows)),
        "r2_marginal": float(explained / whole),
        "r2_conditional": float((explained + fitted.group_variance) / whole),
    }


def _expected_moments(process: Process) -> tuple[list[str], Moments]:
    """Return the expected sums of products of all columns, the accuracy and the metric."""
    names, matrix = published.columns()
    n = entered.completed().astype(float)
    length = published.treatments()["training_length"].to_numpy()
    epoch = names.index("epoch")
    k = len(names) + 2
    slopes = np.zeros(k)
    slopes[epoch], slopes[-2:] = 1.0, [process.accuracy[epoch], process.metric[epoch]]
    within = np.zeros((k, k))
    between, groups = [], []
    sizes = np.unique(length)
    for size in sizes:
        chosen = length == size
        columns = matrix[chosen].copy()
        columns[:, epoch] = (size + 1) / 2
        means = np.column_stack([columns, columns @ process.accuracy, columns @ process.metric])
        count = n[chosen].sum()
        sums = means.T @ (means * n[chosen, None])
        sums[-2:, -2:] += count * (process.between + process.within / size)
        between.append(sums)
        groups.append(count)
        within += count * size * (size**2 - 1) / 12 * np.outer(slopes, slopes)
        within[-2:, -2:] += count * (size - 1) * process.within
    return [*names, ACCURACY, METRIC], Moments(
        within, np.stack(between), sizes.astype(float), np.array(groups)
    )


def _process(numbers: np.ndarray) -> Process:
    """Return the law that seven numbers stand for: log deviations and correlations, and the metric's epoch slope."""
    names, _ = published.columns()
    accuracy, metric = published.vector(3, names), published.vector(9, names)
    metric[names.index("epoch")] = numbers[6]
    rows, attempts = published.number("training_rows"), published.number("terminal_attempts")
    metric[names.index(INTERCEPT)] -= numbers[6] * (rows / attempts + 1) / 2
    return Process(accuracy, metric, _covariance(*numbers[:3]), _covariance(*numbers[3:6]))


def _covariance(log_accuracy: float, log_metric: float, correlation: float) -> np.ndarray:
    deviations = np.exp([log_accuracy, log_metric])
    shape = np.array([[1.0, np.tanh(correlation)], [np.tanh(correlation), 1.0]])
    return np.outer(deviations, deviations) * shape


def _start() -> np.ndarray:
    """Return the deviations that Models 3 and 9 state, and no correlation."""
    numbers = []
    for which in ("between", "within"):
        for model in (3, 9):
            table = published.summary(model)
            whole = table["rmse"] ** 2 / (1 - table["r2_conditional"])
            random = whole * (table["r2_conditional"] - table["r2_marginal"])
            numbers.append(np.log(random if which == "between" else table["rmse"] ** 2) / 2)
        numbers.append(0.1)
    return np.array([*numbers, 0.01])


def _misses(numbers: np.ndarray) -> np.ndarray:
    fits = expected_fits(_process(numbers), _TRAINING)
    out = [
        (fits[model][term] - published.estimates(model)[term])
        / published.errors(model)[term]
        / _SLOPE_TOLERANCE
        for model, term in _MIXED
    ]
    for model in _TRAINING:
        table = published.summary(model)
        out.append((fits[model]["rmse"] / table["rmse"] - 1) / _FIT_TOLERANCE)
        out += [
            (fits[model][name] - table[name]) / _FIT_TOLERANCE
            for name in ("r2_conditional", "r2_marginal")
        ]
    return np.array(out)
