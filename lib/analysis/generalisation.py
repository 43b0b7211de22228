"""Which behaviours generalise across tasks: Table 1.4, derived from the tests, and every behaviour in one table.

A behaviour generalises if it is the same at all tasks of a family (Definition 1.2). It is tested in parts: for each
coefficient of a model, or for each architecture. What a part says is whether any of its tests rejects equality.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lib.analysis.accuracy import CELL, CONFIGURATION, cells, entered
from lib.analysis.comparisons import REJECTED, compare_tasks, count_rejections
from lib.analysis.task_models import TaskFits

NO, PARTLY, NOT_REJECTED, UNDECIDED, UNTESTED = (
    "no",
    "partly",
    "not rejected",
    "undecided",
    "untested",
)
"""Equality is rejected in every part; in some parts; in none; the three standard errors disagree (`lib.analysis.comparisons.REJECTED`); or a part that
could not be tested might have changed the answer. The text writes a cross for the first and both of its signs for the second.
Equality that is not rejected is not shown: few attempts reject nothing."""
EFFECTS = ("architecture", "hyperparameters", "architecture x hyperparameters")
"""Groups of coefficients of (1.11), as Table 1.4 has them."""
CROSSED = "h* chosen on other replicates"
"""Parametrisation of the first-order lines whose attempts had no part in the choice of h*."""
_ROW = ["behaviour", "level", "tasks", "effect"]


def verdict(parts: pd.DataFrame) -> str:
    """Return what the tests of a behaviour's `parts` say.

    Parameters
    ----------
    parts
        One row per coefficient or architecture, with ``tests`` (made) and the counts ``rejected``, ``robust_rejected`` and ``weighted_rejected``.
    """
    answers = {_answer(parts["tests"], parts[name]) for name in REJECTED}
    return answers.pop() if len(answers) == 1 else UNDECIDED


def _answer(tests: pd.Series, rejected: pd.Series) -> str:
    differs = rejected[tests > 0] > 0
    if differs.any() and not differs.all():
        return PARTLY
    if differs.empty or len(differs) < len(tests):
        return UNTESTED
    return NO if differs.all() else NOT_REJECTED


def summarise(
    first: TaskFits,
    variances: pd.DataFrame,
    times: pd.DataFrame,
    second: Mapping[str, TaskFits],
    errors: pd.DataFrame,
    crossed: tuple[TaskFits, pd.DataFrame, pd.DataFrame] | None = None,
) -> pd.DataFrame:
    r"""Return Table 1.4 for the results at hand.

    Parameters
    ----------
    first
        Fits of (1.8).
    variances
        Result of `lib.analysis.variance.compare_variances`; Levene's test, the one of the hypothesis (1.9), decides.
    times
        Result of `lib.analysis.comparisons.compare_times`.
    second
        Fits of (1.11), by the name of their parametrisation.
    errors
        Result of `lib.analysis.errors.compare_error_rates`.
    crossed
        The first three once more with h* chosen on other replicates, which adds the first-order lines once more.

    Returns
    -------
    pandas.DataFrame
        One row per line of the published table, and the second-order lines once more for all tasks, as Section 1.5.2 has
        them, and for each parametrisation: ``behaviour``, ``level``, ``tasks`` (family), ``effect``, ``method``, ``parametrisation``, ``parts``
        (coefficients or architectures), ``parts_rejected`` (with a rejection), ``tests``, ``untested``, ``rejected``,
        ``robust_rejected``, ``weighted_rejected``, ``detectable`` (median) and ``verdict``.
    """
    rows = _first_order(first, variances, times)
    if crossed:
        rows += _first_order(*crossed, CROSSED)
    about = {"behaviour": "average task accuracy", "level": "second order"}
    rows += [
        _pairwise_row({**about, "tasks": family, "effect": effect, "parametrisation": name}, fits)
        for name, fits in second.items()
        for family in ("T_o", "T_f")
        for effect in EFFECTS
    ]
    about = {"behaviour": "training error rate", "level": "second order", "tasks": "T_f"}
    rows.append(_one_test_row({**about, "effect": "architecture"}, errors, "Pearson's test"))
    table = pd.DataFrame(rows)
    return table[[*_ROW, *(name for name in table if name not in _ROW)]]


def _first_order(
    first: TaskFits, variances: pd.DataFrame, times: pd.DataFrame, how: str = ""
) -> list[dict]:
    about = {"level": "first order", "effect": "architecture", "parametrisation": how}
    levene = variances[variances["test"] == "levene"]
    return [
        _pairwise_row({"behaviour": "average task accuracy", **about, "tasks": "T_f"}, first),
        _one_test_row(
            {"behaviour": "variance of task accuracy", **about, "tasks": "T_o"},
            levene,
            "Levene's test",
        ),
        _one_test_row(
            {"behaviour": "convergence time", **about, "tasks": "T_f"}, times, "Kruskal-Wallis test"
        ),
    ]


def effect_of(coefficients: pd.DataFrame) -> pd.Series:
    """Return to which of `EFFECTS` each coefficient belongs; the intercept is the reference architecture's."""
    term = coefficients["term"]
    crossed = term.str.contains("×", regex=False)
    main = term.isin(["intercept", "architecture"])
    names = np.select([crossed, main], [EFFECTS[2], EFFECTS[0]], default=EFFECTS[1])
    return pd.Series(names, index=coefficients.index)


def _pairwise_row(about: dict, fits: TaskFits) -> dict:
    table = fits.coefficients
    table = table[effect_of(table) == about["effect"]]
    if about["tasks"] == "T_o":
        table = table[table["noise"] == "none"]
    return _row(
        about, f"model {fits.model.equation}", count_rejections(table, compare_tasks(table))
    )


def _one_test_row(about: dict, tests: pd.DataFrame, method: str) -> dict:
    """Return the row of a behaviour with one test for each architecture, which assumes no common variance."""
    # Rates that are all zero are equal without a test.
    equal = tests["cause"].isin(["no attempt diverged", "every attempt diverged"])
    made = tests["p_value"].notna()
    rejected = (tests["rejected"].fillna(False).astype(bool) & made).astype(int)
    counts = {"tests": (made | equal).astype(int), "untested": (~(made | equal)).astype(int)}
    return _row(about, method, pd.DataFrame({**counts, **dict.fromkeys(REJECTED, rejected)}))


def _row(about: dict, method: str, parts: pd.DataFrame) -> dict:
    counts = ("tests", "untested", *REJECTED)
    return {
        **about,
        "method": method,
        "parametrisation": about.get("parametrisation", ""),
        "parts": len(parts),
        "parts_rejected": int((parts["rejected"] > 0).sum()),
        **{name: int(parts[name].sum()) for name in counts},
        "detectable": parts["detectable"].median() if "detectable" in parts else np.nan,
        "verdict": verdict(parts),
    }


def collect(
    frame: pd.DataFrame,
    best: pd.DataFrame,
    first: TaskFits,
    times: pd.DataFrame,
    errors: pd.DataFrame,
) -> pd.DataFrame:
    """Return one row per task and architecture with what the other tables say of it.

    Parameters
    ----------
    frame
        All attempts, those that are not at h* marked as left out.
    best
        The best configurations (`lib.analysis.accuracy.best_configurations`).
    first
        Fits of (1.8).
    times
        Result of `lib.analysis.comparisons.summarise_times`.
    errors
        Error rates by task and architecture (`lib.analysis.errors.error_rates`).

    Returns
    -------
    pandas.DataFrame
        The task, ``architecture``, h* (``width``, ``learning_rate``, ``training_length``), ``attempts`` (completed at h*),
        ``accuracy`` (their mean test accuracy), ``task_accuracy`` (mean of (1.5)) and its ``spread`` (standard
        deviation), ``at_chance`` (whether none of them beats guessing), ``effect`` (against the reference architecture) with
        ``low`` and ``high``, ``convergence_time`` (median, epochs), ``error_rate`` and ``error_attempts`` (that rate's
        denominator). Empty where there is nothing to say.
    """
    keys = list(CELL)
    groups = entered(frame).groupby(keys, sort=False)
    effects = first.coefficients.query("term == 'architecture'")
    parts = (
        best[[*keys, *CONFIGURATION, "attempts"]],
        groups.agg(
            accuracy=("accuracy", "mean"),
            task_accuracy=("task_accuracy", "mean"),
            spread=("task_accuracy", "std"),
            at_chance=("at_chance", "all"),
        ).reset_index(),
        effects[[*keys, "estimate", "low", "high"]].rename(columns={"estimate": "effect"}),
        times[[*keys, "median"]].rename(columns={"median": "convergence_time"}),
        errors[[*keys, "error_rate", "entered"]].rename(columns={"entered": "error_attempts"}),
    )
    table = cells(frame)
    for part in parts:
        table = table.merge(part, on=keys, how="left")
    whole = ["width", "training_length", "attempts", "error_attempts"]
    return table.assign(**{name: table[name].astype("Int64") for name in whole})
