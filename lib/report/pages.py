"""Write the pages of the site: MyST Markdown from templates, filled with what the pipeline produced."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import pandas as pd
from markupsafe import Markup
from sphinx.util.images import get_image_size
from toolz import groupby

from lib.report import notebooks, tables, verdicts
from lib.report.coverage import STATES, main_files, state, weight
from lib.report.inputs import Artefact, Inputs, Notebook
from lib.report.numbers import counted
from lib.report.safe import caption_html
from lib.results import published
from lib.results.names import label

OURS = "ours"
"""Page of the figures that no text publishes."""


@dataclass(frozen=True)
class Group:
    """All files of one kind that belong to one artefact, with what the texts say of it."""

    id: str
    kind: str
    text: str
    name: str
    """What a reader calls it: its text and its label there."""
    what: str
    items: tuple[Artefact, ...]

    @property
    def title(self) -> str:
        """Heading of the artefact, such as ``Dissertation, Table 1.7 · numerical error rate by architecture``."""
        return f"{self.name} · {self.what}" if self.what else self.name

    @property
    def page(self) -> str:
        """Address of the page that shows it."""
        if self.kind == "table":
            return f"tables/{self.id}.html"
        return f"figures/{self.text or OURS}.html#{self.id}"

    def by_result_set(self) -> dict[str, list[Artefact]]:
        """Return the items by set of results, the weightiest first and toys last, the main file before its companions."""
        ordered = sorted(self.items, key=lambda item: (item.toy, -weight(item)))
        of = groupby(attrgetter("result_set"), sorted(self.items, key=attrgetter("part")))
        return {item.result_set: of[item.result_set] for item in ordered}

    def split(self, *, toys: bool) -> dict[str, list[Artefact]]:
        """Return those that are proof that the pipeline works and no more, or the others."""
        return {name: items for name, items in self.by_result_set().items() if items[0].toy == toys}

    @property
    def first(self) -> Artefact:
        """What stands for all: the main file of the weightiest set of results, the first of equals."""
        return max((items[0] for items in self.by_result_set().values()), key=weight)


@dataclass(frozen=True)
class Question:
    """A notebook's question with its answer."""

    copies: tuple[Notebook, ...]
    """Its executed copies; the one that answers, of the weightiest results, first, toys after others and the sets in their order."""
    answer: str
    made: tuple[Group, ...]
    """What it makes: of published artefacts, then of our own."""
    runs: int
    verdicts: str
    """How many of its claims came to each verdict, in words."""


def write_pages(inputs: Inputs, judged: pd.DataFrame, summary: pd.DataFrame, source: Path) -> None:
    """Write every page of the site as a source file for Sphinx below the folder `source`.

    `judged` are the claims with their verdicts, `summary` the count of what was rebuilt.
    """
    listed = published.artefacts()
    listed["name"] = listed["text"].map(text_name) + ", " + listed["label"]
    groups = group_artefacts(inputs.artefacts, listed)
    figures = [group for group in groups if group.kind == "figure"]
    table_groups = [group for group in groups if group.kind == "table"]
    asked = questions(inputs, groups, verdicts.verdicts_by_notebook(judged, inputs.describe))
    common = {
        "inputs": inputs,
        "listed": listed,
        "main": main_files(inputs.artefacts),
        "judged": judged,
        "summary": summary,
        "name_of": dict(zip(listed["id"], listed["name"], strict=True)),
        "page_of": {group.id: group.page for group in groups},
        "pages": {(one.name, one.result_set): one.page for one in inputs.notebooks},
    }

    def write(template: str, page: str = "", **content: object) -> None:
        path = source / f"{page or template}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        up = "../" * page.count("/")
        text = tables.PAGES.get_template(f"{template}.md.jinja").render(
            common | content, up=up, **_WORDS
        )
        path.write_text(text, encoding="utf-8")

    described = {one: inputs.describe(one.result_set) for one in inputs.notebooks}
    for one in inputs.notebooks:
        copies = [copy for copy in inputs.notebooks if copy.name == one.name and copy is not one]
        others = [(described[copy], f"../../{copy.page}.ipynb") for copy in copies]
        path = source / f"{one.page}.ipynb"
        notebooks.write_notebook(one, path, described=described[one], others=others)
    by_text = groupby(lambda group: group.text or OURS, figures)
    write("figures", texts=by_text)
    for text, of_text in by_text.items():
        write("figures_of", f"figures/{text}", text=text, groups=of_text)
    write("tables", groups=table_groups)
    sources = published.sources().assign(id=lambda found: found["file"].str.removesuffix(".csv"))
    printed = {row.id: row for row in sources.itertuples()}
    for group in table_groups:
        write("table", f"tables/{group.id}", group=group, printed=printed.get(group.id))
    total = summary.sum().rename("all texts").to_frame().T
    counts = pd.concat([summary.rename(index=text_name), total])
    write("coverage", counts=counts.rename_axis("text").reset_index())
    write("claims")
    write("reference")
    for name, record in inputs.provenance.items():
        write("reference_of", f"reference/{_slug(name)}", name=name, content=record)
    write("summary")
    by_id = {group.id: group for group in figures}
    answers = published.questions()
    strip = [by_id[name] for name in answers["figure"] if name in by_id]
    write("index", answers=answers, strip=strip, questions=asked)


def group_artefacts(found: Iterable[Artefact], listed: pd.DataFrame) -> list[Group]:
    """Return the figures and tables by kind and id, in the order of those `listed`; those that no text publishes go last."""
    shown = [item for item in found if item.kind != "claims"]
    by_id = groupby(attrgetter("artefact", "kind"), shown)
    known = {row.id: (row.text, row.name, row.what) for row in listed.itertuples()}
    order = [*known, *sorted({name for name, _ in by_id}.difference(known))]
    own = {name: ("", name.removeprefix("own-").replace("-", " "), "") for name in order}
    said = own | known
    return [
        Group(name, kind, *said[name], tuple(items))
        for (name, kind), items in sorted(by_id.items(), key=lambda pair: order.index(pair[0][0]))
    ]


def questions(inputs: Inputs, groups: list[Group], judged: dict[str, str]) -> list[Question]:
    """Return each notebook's question, in the order of the notebooks' numbers."""
    made_by = groupby(attrgetter("notebook", "result_set"), inputs.artefacts)

    def evidence(notebook: Notebook) -> tuple[int, bool]:
        of = made_by.get((notebook.name, notebook.result_set), [])
        return max(map(weight, of), default=-1), not all(item.toy for item in of)

    def makes(name: str) -> tuple[Group, ...]:
        """Its artefacts, or else those that it makes parts of."""
        own = [group for group in groups if any(item.notebook == name for item in group.items)]
        whole = [g for g in own if any(i.notebook == name and not i.part for i in g.items)]
        return tuple(whole or own)

    found = []
    for name, copies in groupby(attrgetter("name"), inputs.notebooks).items():
        ordered = tuple(sorted(copies, key=evidence, reverse=True))
        first = ordered[0]
        runs = max((item.runs for item in made_by.get((name, first.result_set), [])), default=0)
        answer, counts = notebooks.answer(first), judged.get(name, "")
        found.append(Question(ordered, answer, makes(name), runs, counts))
    return found


def text_name(text: str) -> str:
    """Return how readers call a text: a paper by its architecture."""
    return "Dissertation" if text == "dissertation" else label(text)


def chapter_name(text: str, chapter: str) -> str:
    """Return how readers call a chapter of the dissertation, a section or an appendix of a paper, or the whole text where it has none."""
    paper = "appendix" if chapter.isalpha() else "section"
    what = "chapter" if text == "dissertation" else paper
    return f"{text_name(text)}, {what} {chapter}" if chapter else text_name(text)


def _slug(name: str) -> str:
    """Return a name as part of an address."""
    return re.sub(r"[^\w.-]+", "-", name)


_CALLED = (
    caption_html,
    chapter_name,
    counted,
    get_image_size,
    _slug,
    notebooks.short_name,
    state,
    tables.show,
    tables.to_html,
    text_name,
    verdicts.count_verdicts,
    verdicts.in_words,
    verdicts.words,
)
"""What templates call, by its name."""
_WORDS = {function.__name__.lstrip("_"): function for function in _CALLED}
_WORDS |= {"markdown": Markup, "states": STATES, "verdicts": verdicts.COLUMNS}
