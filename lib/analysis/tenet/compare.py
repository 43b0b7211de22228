"""Our tables of the twelve models beside the published ones, in the published order and with the published names."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lib.analysis.design import INTERCEPT
from lib.analysis.linear import CONFIDENCE, Fit, detectable
from lib.analysis.tenet.fits import OWN, Fits
from lib.analysis.tenet.models import MODELS, REFERENCE
from lib.analysis.tenet.rows import CENTRED, SINGLE, TRUE, Rows
from lib.results.claims import holm_adjusted
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
    OWN: ("own", "own_error", "own_p"),
}
"""Columns of estimate, standard error and corrected p value in the table of coefficients, by what is assumed of variances."""
_WORDS = {
    "metric": "adjoint metric",
    "log_rate": "LR",
    "log_rate_squared": "LR^2",
    "width": "dim",
    "epoch": "epochs",
}


def summary(fits: Fits, numbers: Sequence[int], views: Sequence[str] = ()) -> pd.DataFrame:
    """Return the summary statistics of a family of models, Tables 3.5 to 3.8, in the published order.

    Columns: ``model``, ``statistic`` (with the text's name), ``ours``, ``published``, ``difference``, one for each further view of the metric, ``rows``, ``attempts``.
    """
    lines = []
    for number in numbers:
        found = fits.fit(number).summary
        others = {view: fits.try_fit(number, view)[0] for view in views}
        for name in [name for name in found if name in STATISTICS]:
            line = {"model": number, "statistic": name, "value": found[name]}
            line |= {view: one.summary[name] if one else np.nan for view, one in others.items()}
            lines.append(line | {"rows": found["rows"], "attempts": found["attempts"]})
    theirs = load_published(MODELS[numbers[0]].summary).melt("model", var_name="statistic")
    table = beside(pd.DataFrame(lines), theirs, on=["model", "statistic"], value="value")
    table["statistic"] = table["statistic"].map(STATISTICS)
    first = ["model", "statistic", "ours", "published", "difference"]
    return table[[*first, *views, "rows", "attempts"]]


def published_coefficients(number: int) -> pd.DataFrame:
    """Return the published coefficients of a model: ``name``, ``term``, ``published``, ``published_error``."""
    table = load_published(MODELS[number].table).drop(columns="t_value")
    return table.rename(columns={"estimate": "published", "standard_error": "published_error"})


def coefficients(fits: Fits, number: int) -> pd.DataFrame:
    """Return the coefficients of a model beside the published ones, Tables A8 to A19.

    Every published line is kept in its place, with nothing of ours where these rows cannot estimate it; lines that the text
    does not have follow. Columns: ``name`` (the text's), ``term`` (ours), ``ours``, ``standard_error``, ``low``, ``high``, ``p_holm`` (corrected
    by Holm's method over the coefficients of this model without its intercept), ``robust_error``, ``robust_p`` (corrected likewise), ``own``, ``own_error``, ``own_p`` (estimate, error
    and corrected p with a variance per architecture), ``verdict``, ``detectable`` (the effect that would be found with a probability of 0.8, by the largest of these errors), ``single`` and
    ``centred`` (estimates on these views), ``published``, ``published_error``, ``difference``, and ``note``: why a line is empty or is not about the same thing in both.
    """
    every = fits.coefficients([number], (TRUE, SINGLE, CENTRED, OWN)).set_index(["view", "term"])
    ours = every.loc[TRUE].reset_index().rename(columns={"estimate": "ours"})

    def on(view: str, column: str) -> np.ndarray:
        return every[column].reindex([(view, term) for term in ours["term"]]).to_numpy(float)

    names = {"own": "estimate", "own_error": "standard_error", "own_p": "p_value"}
    ours = ours.assign(**{name: on(OWN, column) for name, column in names.items()})
    ours = ours.assign(**{view: on(view, "estimate") for view in (SINGLE, CENTRED)})
    effects = (ours["term"] != INTERCEPT) & ours["standard_error"].notna()
    ours["p_holm"] = ours["p_value"]
    tested = [p for _, _, p in ERRORS.values()]
    for p in tested:
        ours[p] = holm_adjusted(ours[p].where(effects))
    # Where the third has no number, the other two decide.
    clear = (ours[tested].assign(own_p=ours["own_p"].fillna(0)) < 1 - CONFIDENCE).all(axis=1)
    some = (ours[tested] < 1 - CONFIDENCE).any(axis=1)
    side = np.where(ours["ours"] > 0, ABOVE, BELOW)
    ours["verdict"] = np.select([~effects, clear, some], ["", side, UNDECIDED], NEITHER)
    ours["detectable"] = detectable(ours[[error for _, error, _ in ERRORS.values()]].max(axis=1))
    theirs = published_coefficients(number)
    table = theirs.merge(ours, on="term", how="outer", sort=False)
    order = {term: place for place, term in enumerate([*theirs["term"], *ours["term"]][::-1])}
    table = table.sort_values("term", key=lambda terms: -terms.map(order), ignore_index=True)
    table["name"] = table["name"].fillna(table["term"].map(in_words))
    table["difference"] = table["ours"] - table["published"]
    found, rows = fits.fit(number), fits.rows(MODELS[number].rows)
    table["note"] = [_note(row, number, found, rows) for row in table.itertuples()]
    columns = ["name", "term", "ours", "standard_error", "low", "high", "p_holm", "robust_error"]
    columns += ["robust_p", *names, "verdict", "detectable", SINGLE, CENTRED, "published"]
    return table[[*columns, "published_error", "difference", "note"]]


def in_words(term: str) -> str:
    """Return a term as the text would write it, such as ``lstm * LR``."""
    if ":" in term:
        return " * ".join(in_words(part) for part in term.split(":"))
    name, _, level = term.removesuffix("]").partition("[")
    if name in ("dataset", "order"):
        return f"{name} = {level.replace('_', ' ')}"
    return f"{level} noise" if name == "noise" else level or _WORDS.get(term, term)


def _note(row, number: int, fit: Fit, rows: Rows) -> str:
    """Return why a line is empty or not about the same thing here and in the text; empty where it is."""
    parts = [part.split("[")[0] for part in row.term.split(":")]
    if pd.isna(row.ours):
        return f"not estimable: {fit.dropped.get(row.term) or _absent(row.term, rows)}"
    if row.term in fit.changed and row.term != INTERCEPT:
        return "another meaning: it overlaps with a dropped column"
    baseline = {name: rows.attempts[name].cat.categories[0] for name in REFERENCE}
    terms = " ".join(MODELS[number].terms)
    other = {n: own for n, own in baseline.items() if own != REFERENCE[n] and n in terms}
    if row.term == INTERCEPT and (other or fit.dropped):
        what = [f"{name} {level}" for name, level in other.items()]
        what += [f"dropped {in_words(term)}" for term in fit.dropped if ":" not in term]
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
