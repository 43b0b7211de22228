"""Our tables of the twelve models beside the published ones, in the published order and with the published names."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from statsmodels.stats.multitest import multipletests

from lib.analysis.tenet.fits import Fit, fit_models
from lib.analysis.tenet.models import INTERCEPT, MODELS, REFERENCE
from lib.analysis.tenet.rows import SMALLEST_SINGLE, NothingToFit, Rows
from lib.results.factorial import SIMULATED
from lib.results.published import beside, load_published

CORRECTION = "holm"

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

_WORDS = {
    "metric": "adjoint metric",
    "log_rate": "LR",
    "log_rate_squared": "LR^2",
    "width": "dim",
    "epoch": "epochs",
}


def summary(fits: Sequence[Fit]) -> pd.DataFrame:
    """Return the summary statistics of a family of models, Tables 3.5 to 3.8.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``statistic`` (with the text's name), ``ours``, ``published``, ``difference``, ``rows``,
        ``attempts``; models and statistics in the published order.
    """
    lines = [
        (fit.model.number, name, value, fit.summary["rows"], fit.summary["attempts"])
        for fit in fits
        for name, value in fit.summary.items()
        if name in STATISTICS
    ]
    ours = pd.DataFrame(lines, columns=["model", "statistic", "value", "rows", "attempts"])
    theirs = load_published(fits[0].model.summary).melt("model", var_name="statistic")
    table = beside(ours, theirs, on=["model", "statistic"], value="value")
    table["statistic"] = table["statistic"].map(STATISTICS)
    return table[["model", "statistic", "ours", "published", "difference", "rows", "attempts"]]


def coefficients(fit: Fit, rows: Rows) -> pd.DataFrame:
    """Return the coefficients of a model beside the published ones, Tables A8 to A19.

    Every published line is kept in its place, with nothing of ours where these rows cannot estimate it; lines that the text
    does not have follow.

    Returns
    -------
    pandas.DataFrame
        ``name`` (the text's), ``term`` (ours), ``ours``, ``standard_error``, ``low``, ``high``, ``p_holm`` (corrected
        by Holm's method over the coefficients of this model without its intercept), ``published``, ``published_error``, ``difference``, and ``note``: why a line is empty or is not about the same
        thing in both.
    """
    theirs = load_published(fit.model.table).rename(
        columns={"estimate": "published", "standard_error": "published_error"}
    )
    ours = fit.coefficients.rename(columns={"estimate": "ours"})
    effects = ours["term"] != INTERCEPT
    ours.loc[effects, "p_holm"] = multipletests(ours.loc[effects, "p_value"], method=CORRECTION)[1]
    table = theirs.drop(columns="t_value").merge(ours, on="term", how="outer", sort=False)
    order = {term: place for place, term in enumerate([*theirs["term"], *ours["term"]][::-1])}
    table = table.sort_values("term", key=lambda terms: -terms.map(order), ignore_index=True)
    table["name"] = table["name"].fillna(table["term"].map(in_words))
    table["difference"] = table["ours"] - table["published"]
    table["note"] = [_note(row, fit, rows) for row in table.itertuples()]
    return table[
        [
            *("name", "term", "ours", "standard_error", "low", "high", "p_holm"),
            *("published", "published_error", "difference", "note"),
        ]
    ]


def recovery(fits: Mapping[int, Fit]) -> pd.DataFrame:
    """Return how well estimates recover the published coefficients.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``name``, ``term``, ``published``, ``estimated``, ``standard_error`` (of the estimate), ``z`` (estimated
        less published, in standard errors) and ``published_error``.
    """
    tables = []
    for number, fit in fits.items():
        theirs = load_published(MODELS[number].table).rename(
            columns={"estimate": "published", "standard_error": "published_error"}
        )
        ours = fit.coefficients[["term", "estimate", "standard_error"]]
        table = theirs.merge(ours, on="term", how="left").rename(columns={"estimate": "estimated"})
        tables.append(table.assign(model=number))
    table = pd.concat(tables, ignore_index=True)
    table["z"] = (table["estimated"] - table["published"]) / table["standard_error"]
    columns = ["model", "name", "term", "published", "estimated", "standard_error", "z"]
    return table[[*columns, "published_error"]]


def in_single_precision(
    ds: xr.Dataset, numbers: Sequence[int], fits: Mapping[int, Fit]
) -> pd.DataFrame:
    """Refit models to the rows that single precision would have kept, beside the fits to all.

    A norm below the smallest number of single precision would have been stored as zero, its metric as minus infinity, and
    the row would not be in any model.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``rows``, ``r2`` (marginal where there is a random intercept), ``slope`` (of metric or
        accuracy), each with ``_all`` and ``_single`` and, where the text has it, ``_published``. Empty numbers
        and a ``note`` where no model can be fitted to what is left.
    """
    lines = []
    for number in numbers:
        model = MODELS[number]
        note = ""
        try:
            _, found = fit_models(ds, [number], smallest=SMALLEST_SINGLE)
        except NothingToFit as refusal:
            found, note = {}, str(refusal)
        explained = "r2_marginal" if model.random else "r2"
        table = load_published(model.summary).set_index("model").loc[number]
        slopes = load_published(model.table).set_index("term")["estimate"]
        line = {"model": number}
        for name, some in (("all", fits), ("single", found)):
            line[f"rows_{name}"] = some[number].summary["rows"] if some else 0
            line[f"r2_{name}"] = some[number].summary[explained] if some else np.nan
            has_slope = some and model.predictor
            line[f"slope_{name}"] = some[number].estimate(model.predictor) if has_slope else np.nan
        line["r2_published"] = table[explained]
        line["slope_published"] = slopes.get(model.predictor, np.nan)
        lines.append({**line, "note": note})
    return pd.DataFrame(lines)


def provenance(ds: xr.Dataset) -> str:
    """Return where results come from, for captions."""
    profile = ds.attrs["profile"]
    if profile == SIMULATED:
        return "simulated: drawn from the published tables, nothing was trained"
    return f"profile {profile}"


def agreement(table: pd.DataFrame) -> dict[str, int]:
    """Count how a table made by `coefficients` agrees with the text, over lines about the same thing.

    Returns
    -------
    dict
        ``compared``; ``inside``: the published estimate lies within our 95% interval; ``clear``: neither our interval nor the
        published one (estimate plus or minus 1.96 errors) holds zero; ``same_sign``: of those, both lie on one side.
    """
    same = table[(table["note"] == "") & table[["ours", "published"]].notna().all(axis=1)]
    inside = same["published"].between(same["low"], same["high"])
    theirs_clear = same["published"].abs() > 1.96 * same["published_error"]
    clear = same[theirs_clear & (np.sign(same["low"]) == np.sign(same["high"]))]
    equal = np.sign(clear["ours"]) == np.sign(clear["published"])
    return {
        "compared": len(same),
        "inside": int(inside.sum()),
        "clear": len(clear),
        "same_sign": int(equal.sum()),
    }


def in_words(term: str) -> str:
    """Return a term as the text would write it, such as ``lstm * LR``."""
    if ":" in term:
        return " * ".join(in_words(part) for part in term.split(":"))
    if term.startswith("dataset["):
        return f"dataset = {term[8:-1].replace('_', ' ')}"
    if term.startswith("noise["):
        return f"{term[6:-1]} noise"
    if term.startswith("order["):
        return f"order = {term[6:-1]}"
    return _WORDS.get(term, term.removeprefix("architecture[").removesuffix("]"))


def _note(row, fit: Fit, rows: Rows) -> str:
    parts = [part.split("[")[0] for part in row.term.split(":")]
    lost = fit.dropped.set_index("term")["cause"]
    if pd.isna(row.ours):
        base = ":".join(sorted(parts, key=lambda part: part == "noise"))
        cause = lost.get(row.term) or lost.get(":".join(parts)) or lost.get(base)
        return f"not estimable: {cause or _absent(row.term, rows)}"
    if row.term in fit.changed:
        return "another meaning: it overlaps with a dropped column"
    other = {
        name: rows.attempts[name].cat.categories[0]
        for name, level in REFERENCE.items()
        if rows.attempts[name].cat.categories[0] != level
        and any(term.startswith(name) for term in fit.model.terms)
    }
    if row.term == INTERCEPT and (other or len(lost)):
        what = [f"{name} {level}" for name, level in other.items()] + [
            f"dropped {in_words(term)}" for term in lost.index if ":" not in term
        ]
        return f"another baseline: {', '.join(what)}"
    named = [f"{name} {other[name]}" for name in parts if name in other]
    return f"measured against {', '.join(named)}" if named else ""


def _absent(term: str, rows: Rows) -> str:
    """Return which level of a published term is not in the rows."""
    for part in term.split(":"):
        name, _, level = part.removesuffix("]").partition("[")
        if level and level not in set(rows.attempts[name]):
            return f"{name} {level} has no row"
    return "its term was dropped"
