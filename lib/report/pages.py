"""Write the pages of the site: MyST Markdown from templates, filled with what the pipeline produced."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import jinja2
import pandas as pd
from markupsafe import Markup

from lib.report import notebooks, tables, verdicts
from lib.report.coverage import STATES, summarise, weight
from lib.report.inputs import (
    NO_PROFILE,
    RESULT_SETS,
    SIMULATED,
    Artefact,
    Inputs,
    Notebook,
    ReportError,
)
from lib.report.numbers import counted
from lib.report.safe import caption_html
from lib.results import published
from lib.results.names import label

TEXTS = {
    "dissertation": "Dissertation",
    "unicornn": "UnICORNN",
    "lem": "LEM",
    "irnn": "iRNN",
}
"""How readers call the texts of data/published/artefacts.csv; unknown ones keep their name."""
OURS = "ours"
"""Page of the figures that no text publishes."""
LONGEST = 1000
"""Rows of a table that a page shows; longer ones say that the CSV has the rest."""


@dataclass(frozen=True)
class Group:
    """All files of one kind that belong to one artefact, with what the texts say of it."""

    id: str
    text: str
    label: str
    what: str
    items: tuple[Artefact, ...]

    @property
    def title(self) -> str:
        """Heading of the artefact, such as ``Dissertation, Table 1.7 · numerical error rate by architecture``."""
        return f"{self.name} · {self.what}" if self.what else self.name

    @property
    def name(self) -> str:
        """What a reader calls it: its text and its label there."""
        return f"{TEXTS.get(self.text, self.text)}, {self.label}" if self.text else self.label

    def by_result_set(self) -> dict[str, list[Artefact]]:
        """Return the items by set of results, the weightiest first and toys last, the main file before its companions."""
        found: dict[str, list[Artefact]] = {}
        for item in sorted(self.items, key=lambda item: (item.toy, -weight(item))):
            found.setdefault(item.result_set, [])
        for item in sorted(self.items, key=lambda item: item.part):
            found[item.result_set].append(item)
        return found

    def split(self, *, toys: bool) -> dict[str, list[Artefact]]:
        """Return those that are proof that the pipeline works and no more, or the others."""
        return {name: items for name, items in self.by_result_set().items() if items[0].toy == toys}


def write_pages(inputs: Inputs, source: Path) -> None:
    """Write every page of the site as a source file for Sphinx below the folder `source`.

    A coverage table that does not fit the list of published artefacts or the manifests is refused with a ReportError.
    """
    listed = published.artefacts()
    site = _Site(inputs, source)
    figures = group_artefacts(inputs.artefacts, "figure", listed)
    table_groups = group_artefacts(inputs.artefacts, "table", listed)
    judged = verdicts.judge_claims(inputs.artefacts)
    labels, texts_of = (
        dict(zip(listed["id"], listed[name], strict=True)) for name in ("label", "text")
    )
    page_of = {item.artefact: _page_of(item, texts_of) for item in reversed(inputs.artefacts)}
    made = _artefacts_of(inputs.artefacts, labels, page_of)
    asked = questions(inputs, made, verdicts.verdicts_by_notebook(judged, inputs.describe))
    common = {
        "summary": summarise(inputs.coverage, listed),
        "counts": verdicts.count_verdicts(judged),
        "corrected": verdicts.in_words(judged["corrected"].value_counts()),
        "verdicts": verdicts.COLUMNS,
        "page_of": page_of,
        "found": verdicts.found_text,
        "size": verdicts.scale_text,
        "region": lambda row: verdicts.region_text(row["region"]),
    }

    site.write_notebooks()
    by_text: dict[str, list[Group]] = {}
    for group in figures:
        by_text.setdefault(group.text or OURS, []).append(group)
    site.write("figures", texts=by_text)
    for text, groups in by_text.items():
        site.write("figures_of", f"figures/{text}", text=text, groups=groups)
    site.write("tables", groups=table_groups)
    for group in table_groups:
        site.write("table", f"tables/{group.id}", group=group, source=_sources().get(group.id))
    site.write("explore", explorers=_explorers(inputs, table_groups))
    texts = _texts(inputs, listed, page_of)
    site.write("coverage", texts=texts, states=STATES, show=_summary_html, **common)
    chapters: dict[tuple[str, str], list[pd.Series]] = {}
    for _, row in judged.iterrows():
        chapters.setdefault((row["text"], row["chapter"]), []).append(row)
    notes = {"note": verdicts.note_text, "published_value": verdicts.published_text}
    site.write("claims", texts=chapters, labels=labels, **notes, **common)
    site.write("reference")
    for name, record in inputs.provenance.items():
        page = f"reference/{_slug(name)}"
        site.write("reference_of", page, name=name, content=record)
    site.write("summary", core_hours=core_hours, **common)
    by_id = {group.id: group for group in figures}
    site.write(
        "index",
        answers=answers(judged),
        strip=[by_id[name] for name in published.questions()["figure"] if name in by_id],
        groups=table_groups,
        questions=[question for question in asked if question.made],
        others=[question for question in asked if not question.made],
        **common,
    )


@dataclass(frozen=True)
class Question:
    """A notebook's question with its answer."""

    title: str
    copies: tuple[Notebook, ...]
    """Its executed copies; the one that answers, of the weightiest results, first, toys after others and the sets in their order."""
    answer: str
    made: tuple[tuple[str, str], ...]
    """Labels and pages of what it makes of published artefacts, then of our own."""
    runs: int
    verdicts: str
    """How many of its claims came to each verdict, in words."""


def questions(
    inputs: Inputs, made: dict[str, list[tuple[str, str]]], verdicts: dict[str, str]
) -> list[Question]:
    """Return each notebook's question, in the order of the notebooks' numbers."""
    by_name: dict[str, list[Notebook]] = {}
    for notebook in inputs.notebooks:
        by_name.setdefault(notebook.name, []).append(notebook)

    def made_by(item: Artefact, notebook: Notebook) -> bool:
        return (item.notebook, item.result_set) == (notebook.name, notebook.belongs_to)

    def runs(notebook: Notebook) -> int:
        return max((item.runs for item in inputs.artefacts if made_by(item, notebook)), default=0)

    def evidence(notebook: Notebook) -> tuple[int, bool, bool]:
        of = [item for item in inputs.artefacts if made_by(item, notebook)]
        real = not all(item.toy for item in of)
        return max(map(weight, of), default=-1), notebook.belongs_to != SIMULATED, real

    found = []
    for name, copies in by_name.items():
        ordered = tuple(sorted(copies, key=evidence, reverse=True))
        first = ordered[0]
        answer = notebooks.answer(first)
        links, counts = tuple(made.get(name, [])), verdicts.get(name, "")
        found.append(Question(first.title, ordered, answer, links, runs(first), counts))
    return found


class _Site:
    """The templates' common ground: links from the page being written to everything else."""

    def __init__(self, inputs: Inputs, source: Path) -> None:
        self.inputs = inputs
        self.source = source
        self.environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.filters["part"] = lambda part: part.replace("-", " ").capitalize()
        self.environment.filters["one_line"] = lambda text: " ".join(str(text).split())

    def write_notebooks(self) -> None:
        """Write the pages of all notebooks, each linked to its copies with other results."""
        for one in self.inputs.notebooks:
            others = [
                (self.describe(copy), f"../../{notebooks.page_name(copy)}.ipynb")
                for copy in self.inputs.notebooks
                if copy.name == one.name and copy is not one
            ]
            notebooks.write_notebook(one, self.source, described=self.describe(one), others=others)

    def write(self, template: str, page: str | None = None, **content: object) -> None:
        page = page or template
        path = self.source / f"{page}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * page.count("/")
        text = self.environment.get_template(f"{template}.md.jinja").render(
            inputs=self.inputs,
            up=up,
            text_name=lambda text: TEXTS.get(text, text),
            files=lambda item: f"{up}{item.folder}/{item.name}",
            notebook_of=lambda item: self._notebook_of(item, up),
            describe=self.describe,
            short_name=notebooks.short_name,
            page_name=notebooks.page_name,
            badge=badge,
            scale=scale,
            counted=counted,
            table=_table,
            markdown=Markup,
            caption=caption_html,
            first=_first,
            chapter_name=chapter_name,
            slug=_slug,
            **content,
        )
        path.write_text(text, encoding="utf-8")

    def describe(self, notebook: Notebook) -> str:
        return self.inputs.describe(notebook.belongs_to)

    def _notebook_of(self, item: Artefact, up: str) -> Markup:
        for notebook in self.inputs.notebooks:
            if notebook.name == item.notebook and notebook.result_set == item.result_set:
                link = f"{up}{notebooks.page_name(notebook)}.html"
                return Markup('<a href="{}">notebook</a>').format(link)
        return Markup("")


def group_artefacts(found: Iterable[Artefact], kind: str, listed: pd.DataFrame) -> list[Group]:
    """Return the artefacts of one kind by id, in the order of the texts; those no text publishes go last."""
    by_id: dict[str, list[Artefact]] = {}
    for item in found:
        if item.kind == kind:
            by_id.setdefault(item.artefact, []).append(item)
    known = listed.set_index("id")
    order = [name for name in known.index if name in by_id]
    order += sorted(set(by_id) - set(order))
    return [
        Group(name, *known.loc[name, ["text", "label", "what"]], tuple(by_id[name]))
        if name in known.index
        else Group(name, "", name.removeprefix("own-").replace("-", " "), "", tuple(by_id[name]))
        for name in order
    ]


def answers(judged: pd.DataFrame) -> list[tuple[str, list[pd.Series]]]:
    """Return the questions of `data/published/questions.csv`, each with the judged claims that answer it."""
    asked, rows = published.questions(), judged.set_index("id", drop=False)
    return [
        (row.question, [rows.loc[name] for name in row.claims.split()])
        for row in asked.itertuples()
    ]


def _first(group: Group) -> Artefact:
    """Return what stands for a group: the main file of its weightiest set of results, the first of equals."""
    return max((items[0] for items in group.by_result_set().values()), key=weight)


def _explorers(
    inputs: Inputs, groups: Iterable[Group]
) -> list[tuple[str, str, list[Artefact], Markup]]:
    """Return name, title, artefacts and HTML of the tables that readers sort and filter.

    Their manifests say ``explore``; the rows of all sets of results stand below each other.
    """
    found = []
    for group in groups:
        for part in dict.fromkeys(item.part for item in group.items if item.explore):
            items = [item for item in group.items if item.explore and item.part == part]
            title = f"{group.title}, {part.replace('-', ' ')}" if part else group.title
            frames = [tables.read_table(item.path(".csv")) for item in items]
            for frame, item in zip(frames, items, strict=True):
                frame.insert(0, "results", inputs.describe(item.result_set))
            whole = pd.concat(frames, ignore_index=True)
            found.append((items[0].name, title, items, tables.to_html(whole, explore=title)))
    return found


def badge(item: Artefact) -> Markup:
    """Return whose results an artefact shows, and at which profile, as a coloured label."""
    who = RESULT_SETS.get(item.result_set, item.result_set)
    text = who if item.profile == NO_PROFILE else f"{who} ({item.profile})"
    return Markup('<span class="chip {}">{}</span>').format(item.result_set, text)


def scale(item: Artefact) -> str:
    """Return the number of runs, the data and the length of the sequences in words."""
    runs = counted(item.runs, "run") if item.runs else "no training needed"
    return f"{runs}, {item.trained_on}" if item.trained_on else runs


def core_hours(provenance: dict[str, dict]) -> float:
    """Return what all stored results cost, as far as it was recorded."""
    costs = [record.get("cost", {}).get("core_seconds", 0) for record in provenance.values()]
    return sum(costs) / 3600


def _texts(inputs: Inputs, listed: pd.DataFrame, page_of: dict[str, str]) -> dict[str, list[dict]]:
    """Return the artefacts of each text, each with what it needs and what it was rebuilt from.

    That is for each set of results its label, its size and state in words, and the page to see it.
    """
    by_file = {item.file: item for item in inputs.artefacts}
    rows = inputs.coverage[inputs.coverage["file"] != ""]
    if unknown := sorted(set(rows["file"]) - set(by_file)):
        raise ReportError(
            f"{inputs.coverage_file} names {unknown[0]}, which no manifest does; run notebook 90 again"
        )
    found: dict[str, list[dict]] = {}
    for entry in listed.itertuples():
        results = []
        for row in rows[rows["id"] == entry.id].itertuples():
            item = by_file[row.file]
            words = row.state if row.state == SIMULATED else f"{scale(item)}, {row.state}"
            results.append((badge(item), words, page_of[item.artefact]))
        covered = {"label": entry.label, "what": entry.what, "needs": _needs(entry.data)}
        found.setdefault(entry.text, []).append({**covered, "results": results})
    return found


def _needs(data: str) -> str:
    """Return what an artefact needs in words; `data` lists the names, parted by blanks."""
    names = [label(name).replace("_", " ") for name in data.split()]
    in_words = {"factorial": "the factorial experiment", "synthetic": "synthetic data"}
    return ", ".join(in_words.get(name, name) for name in names)


def chapter_name(text: str, chapter: str) -> str:
    """Return how readers call a chapter of the dissertation, a section or an appendix of a paper, or the whole text where it has none."""
    name = TEXTS.get(text, text)
    paper = "appendix" if chapter.isalpha() else "section"
    return (
        f"{name}, {'chapter' if text == 'dissertation' else paper} {chapter}" if chapter else name
    )


def _page_of(item: Artefact, texts: dict[str, str]) -> str:
    if item.kind == "table":
        return f"tables/{item.artefact}.html"
    return f"figures/{texts.get(item.artefact, OURS)}.html#{item.artefact}"


def _slug(name: str) -> str:
    """Return a name as part of an address."""
    return re.sub(r"[^\w.-]+", "-", name)


def _artefacts_of(
    found: Iterable[Artefact], labels: dict[str, str], page_of: dict[str, str]
) -> dict[str, list[tuple[str, str]]]:
    """Return for each notebook the labels and pages of the artefacts it makes, or else of those that it makes parts of."""
    found = list(found)
    whole = {item.notebook for item in found if not item.part and item.kind != "claims"}
    links: dict[str, dict[str, str]] = {}
    ours_last = sorted(found, key=lambda item: item.artefact not in labels)
    for item in ours_last:
        if item.kind != "claims" and not (item.part and item.notebook in whole):
            name = labels.get(item.artefact, item.artefact.removeprefix("own-"))
            links.setdefault(item.notebook, {}).setdefault(name, page_of[item.artefact])
    return {notebook: list(pages.items()) for notebook, pages in links.items()}


def _sources() -> dict[str, str]:
    """Return where the published numbers of each artefact were taken from."""
    found = {}
    for row in published.sources().itertuples():
        page = "" if row.page == row.table else f", page {row.page}"
        note = f" ({row.note})" if row.note else ""
        found[row.file.removesuffix(".csv")] = f"{row.table}{page}{note}"
    return found


def _summary_html(summary: pd.DataFrame) -> Markup:
    total = summary.sum().rename("all texts")
    table = pd.concat([summary.rename(index=TEXTS), total.to_frame().T])
    return tables.to_html(table.rename_axis("text").reset_index())


def _table(item: Artefact) -> dict:
    """Return one table for the template: its HTML, and how ours and theirs are set in it."""
    frame = tables.read_table(item.path(".csv"))
    compact = tables.beside_html(frame)
    pair = tables.pair_columns(frame)
    return {
        "html": compact or tables.to_html(frame.head(LONGEST)),
        "cut": compact is None and len(frame) > LONGEST,
        "compact": compact is not None,
        "shares": compact is not None and pair[0].endswith("_share"),
        "compared": pair is not None and bool(frame[pair[1]].notna().any()),
        "rows": len(frame),
        "columns": [name.replace("_", " ") for name in frame],
    }
