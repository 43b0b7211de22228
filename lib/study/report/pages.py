"""Write the pages of the site: MyST Markdown from templates, filled with the pipeline's results."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup
from sphinx.util.images import get_image_size
from toolz import groupby

from study.claims.short_runs import rule_in_words
from study.report.answers import answer
from study.report.claim_text import describe_claim
from study.report.claim_words import begin_sentence, run_words
from study.report.contents import (
    STORED,
    Artifact,
    Inputs,
    explain_results,
    result_set_label,
)
from study.report.coverage import STATES, main_files, state
from study.report.findings import Sentence, read_findings, summarize, write_sentence
from study.report.groups import Group, choose_evidence, group_artifacts
from study.report.inputs import read_table
from study.report.intervention import (
    EFFECTS,
    EXPERIMENT,
    FIGURES,
    describe_intervention,
    shows_cause,
)
from study.report.notebook_page import escape_markdown
from study.report.notebooks import short_name, write_notebooks
from study.report.numbers import counted
from study.report.questions import questions, tables_by_question
from study.report.readings import NOTEBOOK, ReadingVerdict, read_readings
from study.report.restricted import caption_html
from study.report.tables import PAGES, panels, prepare_table, to_html
from study.report.tally import (
    CAUSES,
    SMALL_EFFECT,
    TALLY,
    TESTED,
    count_causes,
    count_verdicts,
    tally,
    tally_in_words,
)
from study.report.titles import OURS, SHARED, chapter_name, paper_name, part_name, slug
from study.report.verdicts import COLUMNS, NOT_JUDGED
from study.results import published
from study.results.artifact_files import DPI
from study.results.names import PUBLICATIONS


@dataclass(frozen=True)
class Answer:
    """A question of the front page with its sentences, the answer first."""

    question: str
    figure: Group | None
    sentences: tuple[Sentence, ...]


def write_pages(
    inputs: Inputs,
    judged: pd.DataFrame,
    summary: pd.DataFrame,
    source: Path,
    files: Path,
    warn: Callable[[str], None],
) -> None:
    """Write every page of the site as a source file for Sphinx.

    Parameters
    ----------
    inputs : Inputs
    judged : pandas.DataFrame
        The claims with their verdicts (`study.report.verdicts.judge_claims`).
    summary : pandas.DataFrame
        How much was rebuilt (`study.report.coverage.summarize_coverage`).
    source : Path
        Folder of the sources.
    files : Path
        Folder of files that the site gets as they are.
    warn : callable
        Receives a sentence for everything in a notebook that cannot be shown.
    """
    site = _collect_site(inputs, judged, summary)
    pages = _Pages(source, site)
    write_notebooks(inputs, source, files, warn)
    _write_front_page(pages)
    _write_claims(pages)
    _write_publications(pages)
    _write_figures(pages)
    _write_tables(pages)
    pages.write("coverage")
    pages.write("about")
    _write_reference(pages)


def _collect_site(inputs: Inputs, judged: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Any]:
    """Return what all templates see, by the names that they use."""
    order = list(PUBLICATIONS)
    listed = published.artifacts()
    listed = listed.sort_values("paper", key=lambda papers: papers.map(order.index), kind="stable")
    listed["name"] = listed["paper"].map(paper_name) + ", " + listed["label"]
    groups = group_artifacts(inputs.artifacts, listed)
    figures = [group for group in groups if group.kind == "figure"]
    tables = [group for group in groups if group.kind == "table"]
    # Links lead to the figure if an artifact has both: a figure, and tables of the numbers in it.
    by_id = {group.id: group for group in [*tables, *figures]}
    all_questions = questions(inputs, groups, judged)
    by_publication = groupby(attrgetter("publication"), all_questions)
    publications = [name for name in [*PUBLICATIONS, OURS, SHARED] if name in by_publication]
    pages_of = {(copy.name, copy.result_set): copy.page for copy in inputs.notebooks}
    return {
        "inputs": inputs,
        "listed": listed,
        "main": main_files(inputs.artifacts),
        "judged": judged,
        "claims": {row["id"]: describe_claim(row) for _, row in judged.iterrows()},
        "summary": summary.loc[[name for name in order if name in summary.index]],
        "groups": by_id,
        "figures": figures,
        "tables": tables,
        "name_of": dict(zip(listed["id"], listed["name"], strict=True)),
        "page_of": {group.id: group.page for group in by_id.values()},
        "pages": pages_of,
        "readings": read_readings(inputs.artifacts),
        "readings_page": pages_of.get((NOTEBOOK, "reference"), ""),
        "questions": all_questions,
        "by_publication": {name: by_publication[name] for name in publications},
        "tallies": (tally(judged), tally(judged, "corrected"), tally(judged, "discovered")),
        "causes": count_causes(judged),
    }


@dataclass(frozen=True)
class _Pages:
    """Writes pages from templates that see the whole site.

    Attributes
    ----------
    source : Path
        Folder of the pages.
    site : dict
        What all templates see (`_collect_site`).
    """

    source: Path
    site: dict[str, Any]

    def write(self, template: str, page: str = "", **content: object) -> None:
        """Write one page.

        Parameters
        ----------
        template : str
            Name of the template without ``.md.jinja``.
        page : str
            Path of the page without ``.md``; the template's name by default.
        **content
            What this template sees besides `site`.
        """
        page = page or template
        path = self.source / f"{page}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * page.count("/")
        text = PAGES.get_template(f"{template}.md.jinja").render(self.site | content, up=up)
        path.write_text(text, encoding="utf-8")


def _write_front_page(pages: _Pages) -> None:
    site = pages.site
    effects = _effects(site["inputs"].artifacts)
    experiment = []
    cause = False
    if effects is not None:
        experiment = describe_intervention(effects)
        cause = shows_cause(effects)
    pages.write(
        "index",
        summary_sentences=summarize(site["judged"], cause=cause),
        answers=front_page_answers(site["judged"], site["groups"], site["readings"]),
        experiment=experiment,
        experiment_page=site["pages"].get((EXPERIMENT, "reference"), ""),
        experiment_figures=[site["groups"][name] for name in FIGURES if name in site["groups"]],
        unjudged=int((site["judged"]["counted"] == NOT_JUDGED).sum()),
    )


def _write_claims(pages: _Pages) -> None:
    """Write the table of all claims, and a page for each."""
    site = pages.site
    pages.write("claims", chapters=_chapters(site["judged"]))
    by_artifact = groupby(attrgetter("id"), [*site["figures"], *site["tables"]])
    for _, row in site["judged"].iterrows():
        evidence = choose_evidence(by_artifact.get(row["artifact"], ()), row["judged_by"])
        claim = site["claims"][row["id"]]
        pages.write("claim", f"claims/{row['id']}", row=row, claim=claim, evidence=evidence)


def _chapters(judged: pd.DataFrame) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    """Return the claims by publication, in the order of the menu, and chapter, appendices last."""
    order = list(PUBLICATIONS)

    def menu_position(entry: tuple[tuple[str, str], pd.DataFrame]) -> tuple[int, bool, str]:
        (paper, chapter), _ = entry
        is_appendix = chapter.isalpha()
        return order.index(paper), is_appendix, chapter

    return sorted(judged.groupby(["paper", "chapter"], sort=False), key=menu_position)


def _write_publications(pages: _Pages) -> None:
    """Write a page of questions for each publication."""
    for name, listed in pages.site["by_publication"].items():
        pages.write("publication", f"publications/{name}", paper=name, questions=listed)


def _write_figures(pages: _Pages) -> None:
    """Write the list of figures, and a page for each publication."""
    by_paper = groupby(lambda group: group.paper or OURS, pages.site["figures"])
    pages.write("figures", by_paper=by_paper)
    for paper, groups in by_paper.items():
        pages.write("figures_of", f"figures/{paper}", paper=paper, groups=groups)


def _write_tables(pages: _Pages) -> None:
    """Write the list of tables, and a page for each."""
    pages.write("tables", our_tables=tables_by_question(pages.site["questions"]))
    printed = {row.file.removesuffix(".csv"): row for row in published.sources().itertuples()}
    for group in pages.site["tables"]:
        pages.write("table", f"tables/{group.id}", group=group, printed=printed.get(group.id))


def _write_reference(pages: _Pages) -> None:
    """Write the list of stored results, and a page for each."""
    pages.write("reference")
    for name, record in pages.site["inputs"].provenance.items():
        page = f"reference/{name.replace(', ', '-')}"
        pages.write("reference_of", page, name=name, content=record)


def front_page_answers(
    judged: pd.DataFrame,
    groups: dict[str, Group],
    readings: dict[str, list[ReadingVerdict]],
) -> list[Answer]:
    """Return the questions of the front page with their sentences.

    Parameters
    ----------
    judged : pandas.DataFrame
        The claims with their verdicts.
    groups : dict
        Figures and tables by id.
    readings : dict
        Verdicts under other readings of the equations, by claim
        (`study.report.readings.read_readings`).

    Returns
    -------
    list of Answer
    """
    rows = judged.set_index("id", drop=False)
    answers = []
    for question in read_findings().questions:
        sentences = []
        for finding in question.findings:
            by_reading = readings.get(finding.claim, [])
            sentences.append(write_sentence(finding, rows.loc[finding.claim], by_reading))
        figure = groups.get(question.figure)
        answers.append(Answer(question.question, figure, tuple(sentences)))
    return answers


def _effects(items: Iterable[Artifact]) -> pd.DataFrame | None:
    """Return the stored effects of changed backward passes; None if they are missing."""
    for item in items:
        if item.artifact == EFFECTS and item.result_set == "reference":
            return read_table(item.path(".csv"))
    return None


def inches(pixels: int) -> float:
    """Return the width at which a figure was drawn.

    Parameters
    ----------
    pixels : int
        Width of its PNG file.

    Returns
    -------
    float
        In inches of 96 CSS pixels.
    """
    return round(pixels / DPI, 1)


_FUNCTIONS = (
    answer,
    begin_sentence,
    caption_html,
    chapter_name,
    count_verdicts,
    counted,
    escape_markdown,
    explain_results,
    get_image_size,
    inches,
    panels,
    part_name,
    prepare_table,
    read_table,
    result_set_label,
    rule_in_words,
    run_words,
    short_name,
    slug,
    state,
    tally_in_words,
    paper_name,
    to_html,
)
PAGES.globals.update({function.__name__: function for function in _FUNCTIONS})
PAGES.globals.update(
    markdown=Markup,
    states=STATES,
    verdicts=COLUMNS,
    kinds=list(TALLY),
    small_effect=SMALL_EFFECT,
    tested=list(TESTED),
    ours=OURS,
    cause_words={cause.value: words for cause, words in CAUSES.items()},
    publications=PUBLICATIONS,
    stored_sets=STORED,
)
