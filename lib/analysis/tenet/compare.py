"""Our tables of the twelve models beside the published ones, in the published order and with the published names."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr
from statsmodels.stats.multitest import multipletests

from lib.analysis.design import CENTRE, INTERCEPT, NothingToFit
from lib.analysis.linear import CONFIDENCE, Fit, detectable
from lib.analysis.tenet.fits import fit_models
from lib.analysis.tenet.models import MODELS, REFERENCE
from lib.analysis.tenet.rows import RANKS, SINGLE, TRUE, Rows
from lib.analysis.unequal import Unequal
from lib.results.published import beside, load_published

STATISTICS = {
    "parameters": "# params",
    "condition_number": "condition number",
    "rmse": "RMSE",
    "r2_conditional": "conditional R²",
    "r2_marginal": "marginal R²",
    "r2": "R²",
    "r2_adjusted": "adjusted R²",
}
"""Columns of Tables 3.5 to 3.8 in their order, with the names the text gives them."""
ABOVE, BELOW, UNDECIDED, NEITHER = "above 0", "below 0", "undecided", "no difference shown"
"""What a coefficient is found to be: by every standard error, by some of them alone, or by none."""
ERRORS = {
    "one variance": ("ours", "standard_error", "p_holm"),
    "robust": ("ours", "robust_error", "robust_p"),
    "a variance per architecture": ("own", "own_error", "own_p"),
}
"""Columns of estimate, standard error and corrected p value in the table of coefficients, by what is assumed of variances."""
_WORDS = {
    "metric": "adjoint metric",
    "log_rate": "LR",
    "log_rate_squared": "LR^2",
    "width": "dim",
    "epoch": "epochs",
}


def summary(
    fits: Mapping[int, Fit],
    single: Mapping[int, Fit] | None = None,
    centred: Mapping[int, Fit] | None = None,
) -> pd.DataFrame:
    """Return the summary statistics of a family of models, Tables 3.5 to 3.8.

    Parameters
    ----------
    fits
        By number, in the published order.
    single, centred
        The same models as single precision would see them, and with the learning rate centred.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``statistic`` (with the text's name), ``ours``, ``published``, ``difference``, ``single``, ``centred``, ``rows``,
        ``attempts``; models and statistics in the published order.
    """
    lines = []
    for number, fit in fits.items():
        for name in [name for name in fit.summary if name in STATISTICS]:
            others = [
                made[number].summary[name] if made and number in made else np.nan
                for made in (single, centred)
            ]
            lines.append(
                (
                    number,
                    name,
                    fit.summary[name],
                    *others,
                    fit.summary["rows"],
                    fit.summary["attempts"],
                )
            )
    columns = ["model", "statistic", "value", "single", "centred", "rows", "attempts"]
    ours = pd.DataFrame(lines, columns=columns)
    theirs = load_published(MODELS[next(iter(fits))].summary).melt("model", var_name="statistic")
    table = beside(ours, theirs, on=["model", "statistic"], value="value")
    table["statistic"] = table["statistic"].map(STATISTICS)
    return table[["model", "statistic", "ours", "published", "difference", *columns[3:]]]


def coefficients(
    number: int,
    fit: Fit,
    rows: Rows,
    single: Mapping[int, Fit] | None = None,
    centred: Mapping[int, Fit] | None = None,
    own: Mapping[int, Unequal] | None = None,
) -> pd.DataFrame:
    """Return the coefficients of a model beside the published ones, Tables A8 to A19.

    Every published line is kept in its place, with nothing of ours where these rows cannot estimate it; lines that the text
    does not have follow.

    Returns
    -------
    pandas.DataFrame
        ``name`` (the text's), ``term`` (ours), ``ours``, ``standard_error``, ``low``, ``high``, ``p_holm`` (corrected
        by Holm's method over the coefficients of this model without its intercept), ``robust_error``, ``robust_p`` (corrected likewise), ``own``, ``own_error``, ``own_p`` (estimate, error
        and corrected p with a variance per architecture, where `own` has the model), ``verdict``, ``detectable`` (the effect that would be found with a probability of 0.8, by the largest of these errors), ``single`` and ``centred`` (estimates, where `single` and `centred` are
        given), ``published``, ``published_error``, ``difference``, and ``note``: why a line is empty or is not about the same thing in both.
    """
    theirs = _published(number)
    ours = fit.coefficients.rename(columns={"estimate": "ours"})
    effects = (ours["term"] != INTERCEPT) & ours["standard_error"].notna()
    refit = own[number].coefficients if own and number in own else fit.coefficients.iloc[:0]
    refit = refit.set_index("term").reindex(ours["term"])
    ours["own"] = refit["estimate"].to_numpy(float)
    ours["own_error"] = refit["standard_error"].to_numpy(float)
    ours["own_p"] = refit["p_value"].to_numpy(float)
    for corrected, p_value in (("p_holm", "p_value"), ("robust_p", "robust_p"), ("own_p", "own_p")):
        values = pd.Series(np.nan, ours.index)
        known = effects & ours[p_value].notna()
        if known.any():
            values[known] = multipletests(ours.loc[known, p_value], method="holm")[1]
        ours[corrected] = values
    found = ours[[p for _, _, p in ERRORS.values()]]
    # Where the third has no number, the other two decide.
    clear = (found.assign(own_p=found["own_p"].fillna(0)) < 1 - CONFIDENCE).all(axis=1)
    some = (found < 1 - CONFIDENCE).any(axis=1)
    side = np.where(ours["ours"] > 0, ABOVE, BELOW)
    ours["verdict"] = np.select([~effects, clear, some], ["", side, UNDECIDED], NEITHER)
    ours["detectable"] = detectable(ours[[error for _, error, _ in ERRORS.values()]].max(axis=1))
    for name, made in (("single", single), ("centred", centred)):
        found = (
            made[number].coefficients.set_index("term")["estimate"]
            if made and number in made
            else {}
        )
        ours[name] = ours["term"].map(found).astype(float)
    table = theirs.merge(ours, on="term", how="outer", sort=False)
    order = {term: place for place, term in enumerate([*theirs["term"], *ours["term"]][::-1])}
    table = table.sort_values("term", key=lambda terms: -terms.map(order), ignore_index=True)
    table["name"] = table["name"].fillna(table["term"].map(in_words))
    table["difference"] = table["ours"] - table["published"]
    table["note"] = [_note(row, number, fit, rows) for row in table.itertuples()]
    return table[
        [
            *("name", "term", "ours", "standard_error", "low", "high", "p_holm"),
            *("robust_error", "robust_p", "own", "own_error", "own_p", "verdict"),
            *("detectable", "single", "centred"),
            *("published", "published_error", "difference", "note"),
        ]
    ]


def by_error(tables: Mapping[int, pd.DataFrame]) -> pd.DataFrame:
    """Return what models say by each assumption on variances.

    Parameters
    ----------
    tables
        Results of `coefficients`, by number.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``variances`` (`ERRORS`), ``clear`` (coefficients that are clearly not zero, corrected) of how many ``coefficients``, and of the metric or the accuracy, where the model has one,
        ``estimate``, ``error``, ``p`` and ``verdict`` by this error alone.
    """
    lines = []
    for number, table in tables.items():
        slope = table[table["term"] == MODELS[number].predictor]
        for name, (estimate, error, p) in ERRORS.items():
            known = table[p].dropna()
            line = {"model": number, "variances": name, "coefficients": len(known)}
            line["clear"] = int((known < 1 - CONFIDENCE).sum())
            if len(slope) and slope[p].notna().all():
                value = slope[estimate].item()
                side = ABOVE if value > 0 else BELOW
                line |= {"estimate": value, "error": slope[error].item(), "p": slope[p].item()}
                line["verdict"] = side if line["p"] < 1 - CONFIDENCE else NEITHER
            lines.append(line)
    names = ["model", "variances", "coefficients", "clear", "estimate", "error", "p", "verdict"]
    return pd.DataFrame(lines).reindex(columns=names)


def _published(number: int) -> pd.DataFrame:
    table = load_published(MODELS[number].table).drop(columns="t_value")
    return table.rename(columns={"estimate": "published", "standard_error": "published_error"})


def recovery(fits: Mapping[int, Fit]) -> pd.DataFrame:
    """Return how far estimates lie from the published coefficients.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``name``, ``term``, ``published``, ``estimated``, ``standard_error`` (of the estimate), ``z`` (estimated
        less published, in standard errors) and ``published_error``.
    """
    tables = [
        _published(number)
        .merge(fit.coefficients[["term", "estimate", "standard_error"]], on="term", how="left")
        .assign(model=number)
        for number, fit in fits.items()
    ]
    table = pd.concat(tables, ignore_index=True).rename(columns={"estimate": "estimated"})
    table["z"] = (table["estimated"] - table["published"]) / table["standard_error"]
    columns = ["model", "name", "term", "published", "estimated", "standard_error", "z"]
    return table[[*columns, "published_error"]]


def by_view(ds: xr.Dataset, fits: Mapping[int, Fit], single: Mapping[int, Fit]) -> pd.DataFrame:
    """Return what models say when the metric is taken in other ways.

    Parameters
    ----------
    fits, single
        The models on norms as they are, and as single precision would keep them.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``view`` (`lib.analysis.tenet.rows.VIEWS`), ``rows``, ``r2`` (marginal where there is a random intercept), ``slope`` (of metric or accuracy) with
        ``standard_error`` and ``robust_error``, ``r2_published``, ``slope_published``, and ``note``: why no model was fitted. A rank runs from 0 to 1, so that its
        slopes have another unit.
    """
    lines = []
    for number, fit in fits.items():
        model, note, ranks = MODELS[number], "", {}
        try:
            ranks = fit_models(ds, [number], view=RANKS)[1]
        except NothingToFit as refusal:
            note = str(refusal)
        explained = "r2_marginal" if model.random else "r2"
        slopes = load_published(model.table).set_index("term")["estimate"]
        for view, found in ((TRUE, fit), (SINGLE, single.get(number)), (RANKS, ranks.get(number))):
            line = {"model": number, "view": view, "note": "" if found else note}
            if found:
                line |= {"rows": found.summary["rows"], "r2": found.summary[explained]}
            if found and model.predictor:
                line["slope"] = found.estimate(model.predictor)
                line |= {
                    name: found.estimate(model.predictor, name)
                    for name in ("standard_error", "robust_error")
                }
            line["r2_published"] = load_published(model.summary).set_index("model")[explained][
                number
            ]
            line["slope_published"] = (
                slopes.get(model.predictor, np.nan) if view != RANKS else np.nan
            )
            lines.append(line)
    names = [
        "rows",
        "r2",
        "slope",
        "standard_error",
        "robust_error",
        "r2_published",
        "slope_published",
    ]
    return (
        pd.DataFrame(lines)
        .reindex(columns=["model", "view", *names, "note"])
        .astype({"rows": "Int64"})
    )


def others(ds: xr.Dataset, numbers: list[int]) -> tuple[dict[int, Fit], dict[int, Fit]]:
    """Return the models as single precision would see them, and with the learning rate centred at `CENTRE`.

    A model that cannot be fitted so is left out.
    """
    found = []
    for options in ({"view": SINGLE}, {"centre": CENTRE}):
        try:
            found.append(fit_models(ds, numbers, **options)[1])
        except NothingToFit:
            found.append({})
    return found[0], found[1]


def agreement(table: pd.DataFrame) -> dict[str, int]:
    """Count how a table made by `coefficients` agrees with the text, over lines about the same thing.

    Returns
    -------
    dict
        ``compared``; ``inside``: the published estimate lies within our 95% interval; ``clear``: our verdict is a side of zero, and the
        published interval (estimate plus or minus 1.96 errors) does not hold zero; ``same_sign``: of those, both lie on one side; ``undecided``: only one of our standard errors
        supports a difference.
    """
    same = table[(table["note"] == "") & table[["ours", "published"]].notna().all(axis=1)]
    inside = same["published"].between(same["low"], same["high"])
    theirs_clear = same["published"].abs() > 1.96 * same["published_error"]
    clear = same[theirs_clear & same["verdict"].isin([ABOVE, BELOW])]
    return {
        "compared": len(same),
        "inside": int(inside.sum()),
        "clear": len(clear),
        "same_sign": int((np.sign(clear["ours"]) == np.sign(clear["published"])).sum()),
        "undecided": int((same["verdict"] == UNDECIDED).sum()),
    }


def in_words(term: str) -> str:
    """Return a term as the text would write it, such as ``lstm * LR``."""
    if ":" in term:
        return " * ".join(in_words(part) for part in term.split(":"))
    name, _, level = term.removesuffix("]").partition("[")
    if name in ("dataset", "order"):
        return f"{name} = {level.replace('_', ' ')}"
    return f"{level} noise" if name == "noise" else level or _WORDS.get(term, term)


def _note(row, number: int, fit: Fit, rows: Rows) -> str:
    parts = [part.split("[")[0] for part in row.term.split(":")]
    lost = fit.dropped.set_index("term")["cause"]
    if pd.isna(row.ours):
        return f"not estimable: {lost.get(row.term) or _absent(row.term, rows)}"
    if row.term in fit.changed and row.term != INTERCEPT:
        return "another meaning: it overlaps with a dropped column"
    other = {
        name: rows.attempts[name].cat.categories[0]
        for name, level in REFERENCE.items()
        if rows.attempts[name].cat.categories[0] != level
        and any(term.startswith(name) for term in MODELS[number].terms)
    }
    if row.term == INTERCEPT and (other or len(lost)):
        what = [f"{name} {level}" for name, level in other.items()] + [
            f"dropped {in_words(term)}" for term in lost.index if ":" not in term
        ]
        return f"another baseline: {', '.join(what) or 'a column was dropped'}"
    named = [f"{name} {other[name]}" for name in parts if name in other]
    return f"measured against {', '.join(named)}" if named else ""


def _absent(term: str, rows: Rows) -> str:
    """Return which level of a published term is not in the rows."""
    for part in term.split(":"):
        name, _, level = part.removesuffix("]").partition("[")
        if level and level not in set(rows.attempts[name]):
            return f"{name} {level} has no row"
    return "its term was dropped"
