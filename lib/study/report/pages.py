"""Write the pages of the site: MyST Markdown from templates, filled with what the pipeline produced."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import pandas as pd
from markupsafe import Markup
from sphinx.util.images import get_image_size
from toolz import groupby

from study.report.coverage import STATES, main_files, state, weight
from study.report.inputs import NO_PROFILE, Artefact, Inputs, Notebook, described
from study.report.notebooks import answer, short_name, write_notebook
from study.report.numbers import counted
from study.report.safe import caption_html
from study.report.tables import PAGES, show, to_html
from study.report.verdicts import COLUMNS, count_verdicts, in_words, words
from study.results import published
from study.results.names import label

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


def write_pages(inputs: Inputs, judged: pd.DataFrame, summary: pd.DataFrame, source: Path) -> None:
    """Write every page of the site as a source file for Sphinx below the folder `source`.

    `judged` are the claims with their verdicts, `summary` the count of what was rebuilt.
    """
    listed = published.artefacts()
    listed["name"] = listed["text"].map(text_name) + ", " + listed["label"]
    groups = group_artefacts(inputs.artefacts, listed)
    figures = [group for group in groups if group.kind == "figure"]
    table_groups = [group for group in groups if group.kind == "table"]
    notebook_of = judged["judged_by"].map(attrgetter("notebook"), na_action="ignore")
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
        text = PAGES.get_template(f"{template}.md.jinja").render(common | content, up=up)
        path.write_text(text, encoding="utf-8")

    called = {one: inputs.describe(one.result_set) for one in inputs.notebooks}
    for copies in groupby(attrgetter("name"), inputs.notebooks).values():
        for one in copies:
            others = [(called[c], f"../../{c.page}.ipynb") for c in copies if c is not one]
            path = source / f"{one.page}.ipynb"
            write_notebook(one, path, described=called[one], others=others)
    by_text = groupby(lambda group: group.text or OURS, figures)
    write("figures", texts=by_text)
    for text, of_text in by_text.items():
        write("figures_of", f"figures/{text}", text=text, groups=of_text)
    write("tables", groups=table_groups)
    printed = {row.file.removesuffix(".csv"): row for row in published.sources().itertuples()}
    for group in table_groups:
        write("table", f"tables/{group.id}", group=group, printed=printed.get(group.id))
    total = summary.sum().rename("all texts").to_frame().T
    counts = pd.concat([summary.rename(index=text_name), total])
    write("coverage", counts=counts.rename_axis("text").reset_index())
    write("claims")
    write("reference")
    for name, record in inputs.provenance.items():
        page = f"reference/{name.replace(', ', '-')}"
        write("reference_of", page, name=name, content=record)
    write("summary")
    by_id = {group.id: group for group in figures}
    answers = published.questions()
    strip = [by_id[name] for name in answers["figure"] if name in by_id]
    asked, judged_in = questions(inputs, groups), dict(iter(judged.groupby(notebook_of)))
    write("index", answers=answers, strip=strip, questions=asked, judged_in=judged_in)


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


def questions(inputs: Inputs, groups: list[Group]) -> list[dict]:
    """Return each notebook's question, in the order of the notebooks' numbers.

    ``copies`` are its executed copies: first the one of the weightiest trained results, which answers, toys after others and the sets
    in their order. ``made`` is what it makes, of published artefacts, then of our own; where it makes parts of some alone, those.
    ``runs`` is the number behind the answer.
    """
    made_by = groupby(attrgetter("notebook", "result_set"), inputs.artefacts)

    def results(notebook: Notebook) -> list[Artefact]:
        return made_by.get((notebook.name, notebook.result_set), [])

    def evidence(notebook: Notebook) -> int:
        of = [item for item in results(notebook) if not item.toy and item.profile != NO_PROFILE]
        return max(map(weight, of), default=-1)

    found = []
    for name, copies in groupby(attrgetter("name"), inputs.notebooks).items():
        copies = sorted(copies, key=evidence, reverse=True)
        runs = max((item.runs for item in results(copies[0])), default=0)
        own = [group for group in groups if any(item.notebook == name for item in group.items)]
        whole = [g for g in own if any(i.notebook == name and not i.part for i in g.items)]
        found.append({"copies": copies, "made": whole or own, "runs": runs})
    return found


def text_name(text: str) -> str:
    """Return how readers call a text: a paper by its architecture."""
    return "Dissertation" if text == "dissertation" else label(text)


def chapter_name(text: str, chapter: str) -> str:
    """Return how readers call a chapter of the dissertation, a section or an appendix of a paper, or the whole text where it has none."""
    paper = "appendix" if chapter.isalpha() else "section"
    what = "chapter" if text == "dissertation" else paper
    return f"{text_name(text)}, {what} {chapter}" if chapter else text_name(text)


_CALLED = (caption_html, get_image_size, show, state, to_html, answer, described)
_WORDS = (chapter_name, counted, short_name, text_name, count_verdicts, in_words, words)
PAGES.globals.update({function.__name__: function for function in (*_CALLED, *_WORDS)})
PAGES.globals.update(markdown=Markup, states=STATES, verdicts=COLUMNS)
