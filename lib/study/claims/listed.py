"""The list of all claims, read from ``data/published/claims/``.

The folder has one YAML file per paper. Its keys are the fields of `study.claims.claim.Claim`; an
unknown key is refused.
"""

from functools import cache
from pathlib import Path

import pandas as pd
from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from study.claims.claim import Claim, ClaimError
from study.paths import PUBLISHED

PAPERS = ("dissertation", "irnn", "lem", "unicornn")
"""The papers, in the order in which reports list their claims."""


def read_claims(path: Path) -> list[Claim]:
    """Read the claims of one paper.

    Parameters
    ----------
    path
        A YAML file named after the paper.

    Returns
    -------
    list of Claim

    Raises
    ------
    ClaimError
        The file is not a list of claims, or a claim lacks a field, has an unknown field, or has a
        value of the wrong type.
    """
    try:
        entries = YAML(typ="safe", pure=True).load(path.read_text("utf-8"))
    except MarkedYAMLError as error:
        raise ClaimError(f"{path.name} is not valid YAML: {error}") from None
    if not isinstance(entries, list):
        raise ClaimError(f"{path.name} holds no list of claims; begin each claim with `- id: ...`")
    paper_claims = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise ClaimError(f"{path.name}: {entry!r} is not a claim; begin each with `- id: ...`")
        name = entry.get("id", "an entry without an id")
        if "paper" in entry:
            raise ClaimError(f"{path.name}: {name} names a paper; remove it, the file's name does")
        try:
            paper_claims.append(Claim.model_validate({"paper": path.stem, **entry}))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            problem = first["msg"].removeprefix("Value error, ")
            if first["type"] == "missing":
                problem = "it is missing; add it as `study.claims.claim` describes it"
            raise ClaimError(f"{path.name}: {name}, field {field!r}: {problem}") from None
    return paper_claims


@cache
def claims() -> dict[str, Claim]:
    """Return all claims by id, in the order in which reports list them.

    Returns
    -------
    dict
        `Claim` by id.

    Raises
    ------
    ClaimError
        A file is invalid (`read_claims`), or two claims have the same id.
    """
    by_id: dict[str, Claim] = {}
    for paper in PAPERS:
        for claim in read_claims(PUBLISHED / "claims" / f"{paper}.yaml"):
            if claim.id in by_id:
                raise ClaimError(f"two claims have the id {claim.id!r}; rename one")
            by_id[claim.id] = claim
    return by_id


def claim_table() -> pd.DataFrame:
    """Return the claims as a table, one row each, for reports.

    Returns
    -------
    pandas.DataFrame
        Indexed by ``id``; columns ``id``, ``paper``, ``chapter``, ``section``, ``page``,
        ``statement``, ``quotation`` (`Claim.quoted`), ``artifact``, ``quantity``, ``unit``,
        ``region`` (as text), ``published``, ``null``, ``refuted_by``, ``denies_effect``,
        ``threshold`` (``ours``, or empty if it is the paper's), and ``group`` and ``estimator``
        (empty if the claim has no `Comparison`).
    """
    rows = []
    for claim in claims().values():
        comparison = claim.comparison
        group = ""
        estimator = ""
        if comparison:
            group = comparison.group
            estimator = comparison.estimator
        threshold = ""
        if claim.threshold:
            threshold = "ours"
        rows.append(
            {
                "id": claim.id,
                "paper": claim.paper,
                "chapter": claim.chapter,
                "section": claim.section,
                "page": claim.page,
                "statement": claim.statement,
                "quotation": claim.quoted,
                "artifact": claim.artifact,
                "quantity": claim.quantity,
                "unit": claim.unit,
                "region": str(claim.region),
                "published": claim.published,
                "null": claim.null,
                "refuted_by": claim.refuted_by,
                "denies_effect": claim.denies_effect,
                "threshold": threshold,
                "group": group,
                "estimator": estimator,
            }
        )
    return pd.DataFrame(rows).set_index("id", drop=False)
