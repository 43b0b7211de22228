"""Write the pages of the site: MyST Markdown from templates, filled with the pipeline's results."""

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import pandas as pd
from markupsafe import Markup
from sphinx.util.images import get_image_size
from toolz import groupby

from study.claims.short_runs import rule_in_words
from study.report.coverage import STATES, main_files, state, weight
from study.report.findings import Sentence, read_findings, write_sentence
from study.report.inputs import (
    NO_PROFILE,
    TOYS,
    Artefact,
    Inputs,
    Notebook,
    described,
    read_table,
)
from study.report.intervention import EFFECTS, FIGURE, describe_intervention
from study.report.notebooks import answer, escape_markdown, short_name, write_notebook
from study.report.numbers import counted
from study.report.restricted import NOTEBOOK_FOLDER, caption_html
from study.report.tables import PAGES, panels, show, to_html
from study.report.verdicts import (
    CAUSES,
    COLUMNS,
    TALLY,
    count_causes,
    count_verdicts,
    describe_claim,
    in_words,
    tally,
)
from study.results import published
from study.results.names import PUBLICATIONS, label

OURS = "ours"
"""Page of the figures that no paper publishes."""
SHARED = "shared"
"""Page of the notebooks that belong to no single publication."""


@dataclass(frozen=True)
class Group:
    """All files of one kind that belong to one artefact, with what the papers say about it.

    Attributes
    ----------
    id, kind : str
        The artefact, and ``figure`` or ``table``.
    text : str
        The publication, a key of `PUBLICATIONS`; empty if it is our own.
    name : str
        What readers call it: the publication and its label there.
    what : str
        What the paper shows there.
    items : tuple of Artefact
    """

    id: str
    kind: str
    text: str
    name: str
    what: str
    items: tuple[Artefact, ...]

    @property
    def title(self) -> str:
        """Heading, such as ``Dissertation, Table 1.7 · error rate by architecture``."""
        return f"{self.name} · {self.what}" if self.what else self.name

    @property
    def page(self) -> str:
        """Address of the page that shows it."""
        if self.kind == "table":
            return f"tables/{self.id}.html"
        return f"figures/{self.text or OURS}.html#{self.id}"

    def by_result_set(self) -> dict[str, list[Artefact]]:
        """Return the items by set of results, the weightiest set first and quick runs last.

        Within a set the main file comes before its companions.
        """
        ordered = sorted(self.items, key=lambda item: (item.toy, -weight(item)))
        in_set = groupby(attrgetter("result_set"), sorted(self.items, key=attrgetter("part")))
        return {item.result_set: in_set[item.result_set] for item in ordered}


@dataclass(frozen=True)
class Question:
    """A notebook's question, and what answers it.

    Attributes
    ----------
    copies : tuple of Notebook
        Its executed copies, the one with the weightiest results first.
    made : tuple of Group
        The artefacts it makes; those of which it makes a part alone count if there are no others.
    runs : int
        Runs behind the answer.
    publication : str
        A key of `PUBLICATIONS`, or `SHARED`.
    """

    copies: tuple[Notebook, ...]
    made: tuple[Group, ...]
    runs: int
    publication: str

    @property
    def first(self) -> Notebook:
        """The copy that answers."""
        return self.copies[0]

    @property
    def title(self) -> str:
        """The question itself."""
        return self.first.title


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
        How much was rebuilt (`study.report.coverage.summarise`).
    source : Path
        Folder of the sources.
    files : Path
        Folder of files that the site gets as they are.
    warn : callable
        Receives a sentence for everything in a notebook that cannot be shown.
    """
    listed = published.artefacts()
    listed["name"] = listed["text"].map(text_name) + ", " + listed["label"]
    groups = group_artefacts(inputs.artefacts, listed)
    figures = [group for group in groups if group.kind == "figure"]
    # An artefact may have both kinds: a figure, and tables of the numbers in it.
    by_id = {group.id: group for group in [*reversed(groups), *figures]}
    asked = questions(inputs, groups, judged)
    by_publication = groupby(attrgetter("publication"), asked)
    site = {
        "inputs": inputs,
        "listed": listed,
        "main": main_files(inputs.artefacts),
        "judged": judged,
        "claims": {row["id"]: describe_claim(row) for _, row in judged.iterrows()},
        "summary": summary,
        "groups": by_id,
        "figures": figures,
        "tables": [group for group in groups if group.kind == "table"],
        "name_of": dict(zip(listed["id"], listed["name"], strict=True)),
        "page_of": {group.id: group.page for group in by_id.values()},
        "pages": {(copy.name, copy.result_set): copy.page for copy in inputs.notebooks},
        "questions": asked,
        "by_publication": {
            name: by_publication[name] for name in [*PUBLICATIONS, SHARED] if name in by_publication
        },
        "tallies": (tally(judged), tally(judged, "corrected"), tally(judged, "discovered")),
        "causes": count_causes(judged),
    }

    def write(template: str, page: str = "", **content: object) -> None:
        path = source / f"{page or template}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * page.count("/")
        text = PAGES.get_template(f"{template}.md.jinja").render(site | content, up=up)
        path.write_text(text, encoding="utf-8")

    _write_notebooks(inputs, source, files, warn)
    write(
        "index",
        answers=front_page_answers(judged, by_id),
        experiment=_experiment(inputs.artefacts),
        experiment_figure=by_id.get(FIGURE),
    )
    write("claims")
    for _, row in judged.iterrows():
        write("claim", f"claims/{row['id']}", row=row, claim=site["claims"][row["id"]])
    for name, listed_questions in site["by_publication"].items():
        write("publication", f"publications/{name}", text=name, questions=listed_questions)
    by_text = groupby(lambda group: group.text or OURS, site["figures"])
    write("figures", texts=by_text)
    for text, of_text in by_text.items():
        write("figures_of", f"figures/{text}", text=text, groups=of_text)
    write("tables", own=_own_tables(asked))
    printed = {row.file.removesuffix(".csv"): row for row in published.sources().itertuples()}
    for group in site["tables"]:
        write("table", f"tables/{group.id}", group=group, printed=printed.get(group.id))
    total = summary.sum().rename("all publications").to_frame().T
    counts = pd.concat([summary.rename(index=text_name), total])
    write("coverage", counts=counts.rename_axis("publication").reset_index())
    write("about")
    write("reference")
    for name, record in inputs.provenance.items():
        page = f"reference/{name.replace(', ', '-')}"
        write("reference_of", page, name=name, content=record)


def _write_notebooks(
    inputs: Inputs, source: Path, files: Path, warn: Callable[[str], None]
) -> None:
    """Write the page of every executed notebook, each with links to its other copies."""
    by_name = groupby(attrgetter("name"), inputs.notebooks)
    for copies in by_name.values():
        for copy in copies:
            folder = posixpath.dirname(copy.page)
            others = []
            for other in copies:
                if other is not copy:
                    address = posixpath.relpath(f"{other.page}.html", folder)
                    others.append((inputs.describe(other.result_set), address))
            pages = {}
            for name, same_name in by_name.items():
                sets = {one.result_set: one for one in same_name}
                target = sets.get(copy.result_set, same_name[0])
                address = posixpath.relpath(f"{target.page}.html", folder)
                pages[f"{NOTEBOOK_FOLDER}/{name}.ipynb"] = address
            write_notebook(
                copy,
                source,
                files,
                described=inputs.describe(copy.result_set),
                others=others,
                pages=pages,
                warn=warn,
                searchable=not _quick(inputs, copy),
            )


def _quick(inputs: Inputs, notebook: Notebook) -> bool:
    """Return whether a notebook shows a quick run, which is no evidence and not searched."""
    key = (notebook.name, notebook.result_set)
    profiles = {
        item.profile
        for item in inputs.artefacts
        if (item.notebook, item.result_set) == key and item.profile != NO_PROFILE
    }
    return bool(profiles) and profiles <= set(TOYS)


def front_page_answers(judged: pd.DataFrame, groups: dict[str, Group]) -> list[Answer]:
    """Return the questions of the front page with their sentences."""
    rows = judged.set_index("id", drop=False)
    answers = []
    for question in read_findings().questions:
        sentences = [write_sentence(each, rows.loc[each.claim]) for each in question.findings]
        figure = groups.get(question.figure)
        answers.append(Answer(question.question, figure, tuple(sentences)))
    return answers


def _experiment(items: Iterable[Artefact]) -> str:
    """Return what the stored experiment on the backward pass found; empty if it is not there."""
    for item in items:
        if item.artefact == EFFECTS and item.result_set == "reference":
            return describe_intervention(read_table(item.path(".csv")))
    return ""


def group_artefacts(found: Iterable[Artefact], listed: pd.DataFrame) -> list[Group]:
    """Return the figures and tables by kind and id.

    Parameters
    ----------
    found : iterable of Artefact
    listed : pandas.DataFrame
        `study.results.published.artefacts` with a column ``name``.

    Returns
    -------
    list of Group
        In the order of `listed`; those that no paper publishes come last.
    """
    by_id = groupby(attrgetter("artefact", "kind"), (i for i in found if i.kind != "claims"))
    printed = {row.id: (row.text, row.name, row.what) for row in listed.itertuples()}
    own = sorted({name for name, _ in by_id}.difference(printed))
    groups = []
    for name in [*printed, *own]:
        words = printed.get(name, ("", own_name(name), ""))
        for kind in ("figure", "table"):
            if (name, kind) in by_id:
                groups.append(Group(name, kind, *words, tuple(by_id[name, kind])))
    return groups


def own_name(artefact: str) -> str:
    """Return what readers call an artefact that no paper publishes."""
    words = artefact.removeprefix("own-").replace("-", " ")
    return words[:1].upper() + words[1:]


def questions(inputs: Inputs, groups: list[Group], judged: pd.DataFrame) -> list[Question]:
    """Collect each notebook's question and what answers it.

    Parameters
    ----------
    inputs : Inputs
    groups : list of Group
        As from `group_artefacts`.
    judged : pandas.DataFrame
        The claims with their verdicts.

    Returns
    -------
    list of Question
        In the order of the notebooks' numbers.
    """
    made_by = groupby(attrgetter("notebook", "result_set"), inputs.artefacts)
    judging = judged["judged_by"].map(attrgetter("notebook"), na_action="ignore")

    def results(notebook: Notebook) -> list[Artefact]:
        return made_by.get((notebook.name, notebook.result_set), [])

    def evidence(notebook: Notebook) -> int:
        weights = [
            weight(item)
            for item in results(notebook)
            if not item.toy and item.profile != NO_PROFILE
        ]
        return max(weights, default=-1)

    asked = []
    for name, copies in groupby(attrgetter("name"), inputs.notebooks).items():
        ordered = sorted(copies, key=evidence, reverse=True)
        mine = [group for group in groups if any(i.notebook == name for i in group.items)]
        whole = [g for g in mine if any(i.notebook == name and not i.part for i in g.items)]
        made = tuple(whole or mine)
        texts = [group.text for group in made if group.text]
        texts = texts or list(judged.loc[judging == name, "text"])
        publication = SHARED
        if texts:
            publication = Counter(texts).most_common(1)[0][0]
        runs = max((item.runs for item in results(ordered[0])), default=0)
        asked.append(Question(tuple(ordered), made, runs, publication))
    return asked


def _own_tables(asked: list[Question]) -> dict[str, list[Group]]:
    """Return the tables that no paper publishes by the question of the notebook that makes them."""
    by_question = {}
    listed = set()
    for question in asked:
        tables = [
            group
            for group in question.made
            if group.kind == "table" and not group.text and group.id not in listed
        ]
        listed.update(group.id for group in tables)
        if tables:
            by_question[question.title] = tables
    return by_question


def text_name(text: str) -> str:
    """Return what readers call a publication, such as ``LEM``."""
    if text in PUBLICATIONS:
        return PUBLICATIONS[text].name
    return {SHARED: "Data, cells and speed", OURS: "Our own"}.get(text, label(text))


def chapter_name(text: str, chapter: str) -> str:
    """Return what readers call a chapter of the dissertation, or a section of a paper."""
    if not chapter:
        return text_name(text)
    if text == "dissertation":
        return f"{text_name(text)}, chapter {chapter}"
    if chapter.isalpha():
        return f"{text_name(text)}, appendix {chapter}"
    return f"{text_name(text)}, section {chapter}"


def slug(verdict: str) -> str:
    """Return a verdict as a word for addresses and CSS classes."""
    return "-".join(re.findall(r"\w+", verdict))


_FUNCTIONS = (
    answer,
    caption_html,
    chapter_name,
    count_verdicts,
    counted,
    described,
    read_table,
    escape_markdown,
    get_image_size,
    in_words,
    panels,
    rule_in_words,
    short_name,
    show,
    slug,
    state,
    text_name,
    to_html,
)
PAGES.globals.update({function.__name__: function for function in _FUNCTIONS})
PAGES.globals.update(
    markdown=Markup,
    states=STATES,
    verdicts=COLUMNS,
    kinds=list(TALLY),
    cause_words={cause.value: words for cause, words in CAUSES.items()},
    publications=PUBLICATIONS,
)
