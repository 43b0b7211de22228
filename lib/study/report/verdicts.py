"""What became of the texts' claims, over all sets of results."""

import math
from collections.abc import Iterable

import pandas as pd

from study.report.coverage import weight
from study.report.inputs import SIMULATED, Artefact, read_table
from study.report.numbers import counted, significant
from study.results.claims import AGREES, NO_EFFECT, VERDICTS, WITHIN, Region, called, claims, holm

NOT_JUDGED = "not judged yet"
COLUMNS = (AGREES, WITHIN, NO_EFFECT, *VERDICTS[1:], NOT_JUDGED)
_SIZES = ("sequences", "time_steps", "epochs", "width", "replicates")
_SCALE = {
    "sequences": lambda n: counted(n, "sequence"),
    "time_steps": lambda n: f"T = {int(n):,}",
    "epochs": lambda n: counted(n, "epoch"),
    "width": lambda n: f"d = {int(n):,}",
    "replicates": lambda n: counted(n, "replicate"),
    "test_size": lambda n: f"tested on {int(n):,}",
}
_SEVERAL = {AGREES: "agree", "differs": "differ"}


def judge_claims(found: Iterable[Artefact]) -> pd.DataFrame:
    """Return every claim of the texts with what the results say of it: `study.results.claims.claims` and the judged columns.

    Where several sets of results judge a claim, the one that is the weightiest evidence stands (never the one with the
    better verdict): first whether anything could be measured for it; then whether the networks learned, and on the text's own
    data, see `study.report.coverage.state`; then how large the experiment was. Simulated data judge nothing. Further
    columns: ``judged_by`` (the artefact that holds the verdict), ``verdict``, ``counted``, one of `COLUMNS`, and ``corrected``, the
    same after Holm's correction within each text.
    """
    judged = [
        read_table(item.path(".csv")).assign(judged_by=lambda rows, item=item: [item] * len(rows))
        for item in found
        if item.kind == "claims" and item.result_set != SIMULATED
    ]
    listed = claims().reset_index(drop=True)
    unsaid = {"verdict": NOT_JUDGED, **dict.fromkeys(("null_is", "data", "note"), "")}
    if not judged:
        nothing = dict.fromkeys(("counted", "corrected"), NOT_JUDGED)
        return listed.assign(judged_by=None, **unsaid, **nothing)
    rows = pd.concat(judged)
    size = rows.reindex(columns=list(_SIZES)).fillna(1).prod(axis=1)
    evidence = rows["judged_by"].map(weight)
    order = {"measured": rows["low"].notna(), "weight": evidence, "size": size}
    weighed = rows.assign(**order).sort_values([*order], ascending=False, kind="stable")
    weighed = weighed.drop_duplicates("id").drop(columns=["measured", "weight"])
    table = listed.merge(weighed, on="id", how="left")
    table = table.astype(dict.fromkeys(unsaid, object)).fillna(unsaid)
    for name, verdicts in (("counted", table["verdict"]), ("corrected", holm(table))):
        rows = zip(verdicts, table["no_effect"], table["null_is"], strict=True)
        table[name] = [called(*row) for row in rows]
    return table


def count_verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Return how many claims came to each verdict (`COLUMNS`), by ``text`` and ``chapter`` in the order of the claims."""
    counts = table.groupby(["text", "chapter"], sort=False)["counted"].value_counts().unstack()
    return counts.reindex(columns=list(COLUMNS)).fillna(0).astype(int)


def in_words(counts: pd.Series) -> str:
    """Return how many claims came to each verdict, such as ``26 agree, 1 differs``."""
    some = [(counts[kind], kind) for kind in COLUMNS if counts.get(kind)]
    return ", ".join(f"{n} {_SEVERAL.get(kind, kind) if n > 1 else kind}" for n, kind in some)


def words(row: pd.Series) -> dict[str, str]:
    """Return what pages say of a claim, each an empty text where there is nothing to say.

    ``found`` is the estimate with its interval, or why there is none; ``null`` whether the interval holds the value that would be no
    effect; ``note`` what a reader must know beside an estimate; ``region`` what was asked; ``published`` the text's own value, and whether
    it contradicts the claim; ``scale`` how large the experiment was, and on which data.
    """
    measured, value = pd.notna(row.get("low")), row["published"]
    region = row["region"].replace("> ", "above ").replace("< ", "below ")
    borne_out = Region.parse(row["region"]).holds(value, value)
    printed = f"{value:g}" if borne_out else f"{value:g}, which does not bear the claim out"
    sizes = [write(row[name]) for name, write in _SCALE.items() if pd.notna(row.get(name))]
    data = row["data"] or getattr(row["judged_by"], "trained_on", "")
    estimate = row.reindex(["estimate", "low", "high"])
    return {
        "found": "{} ({} to {})".format(*map(significant, estimate)) if measured else row["note"],
        "null": f"{row['null']:g} {row['null_is']}" if row["null_is"] else "",
        "note": row["note"] if measured else "",
        "region": f"between {region.replace('..', 'and')}" if ".." in region else region,
        "published": "" if math.isnan(value) else printed,
        "scale": "; ".join(filter(None, (", ".join(sizes), data))),
    }
