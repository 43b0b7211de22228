"""Put executed notebooks into the site as static pages.

Headings of a notebook's own Markdown cells become headings of its page, so that search and the
contents on the right list them. Everything else is HTML made by `study.report.restricted`.
"""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

import nbformat
from markupsafe import escape
from toolz import groupby

from study.report.contents import NO_PROFILE, TOYS, Inputs, Notebook
from study.report.notebook_outputs import code_cell_html
from study.report.notebook_page import NotebookPage, escape_markdown
from study.report.restricted import NOTEBOOK_FOLDER
from study.results.names import LOOKS, label

_ARCHITECTURES = re.compile(
    rf"(?<![a-z])({'|'.join(sorted(LOOKS, key=len, reverse=True))})(?![a-z])", re.I
)
"""Architectures in file names."""


def short_name(name: str) -> str:
    """Return a notebook's file name for lists.

    Parameters
    ----------
    name : str
        File name without suffix.

    Returns
    -------
    str
        Number and words.

    Examples
    --------
    >>> short_name("22_numerical_errors")
    '22 · Numerical errors'
    """
    number, _, words = name.partition("_")
    words = words[:1].upper() + words[1:]
    # An architecture keeps the name that the papers give it.
    words = _ARCHITECTURES.sub(lambda match: label(match[0].lower()), words)
    return f"{number} · {words.replace('_', ' ')}"


def write_notebooks(inputs: Inputs, source: Path, files: Path, warn: Callable[[str], None]) -> None:
    """Write the page of every executed notebook, each with links to its other copies.

    Parameters
    ----------
    inputs : Inputs
    source : Path
        Folder of Sphinx's sources.
    files : Path
        Folder of files that the site gets as they are.
    warn : callable
        Receives one sentence for everything in a notebook that cannot be shown.
    """
    by_name = groupby(attrgetter("name"), inputs.notebooks)
    for copies in by_name.values():
        for copy in copies:
            write_notebook(
                copy,
                source,
                files,
                results_label=inputs.describe(copy.result_set),
                others=_links_to_copies(copy, copies, inputs),
                pages=_links_to_notebooks(copy, by_name),
                warn=warn,
                searchable=not _is_quick(inputs, copy),
            )


def _links_to_copies(
    notebook: Notebook, copies: list[Notebook], inputs: Inputs
) -> list[tuple[str, str]]:
    """Return description and address of the other copies of a notebook."""
    links = []
    for copy in copies:
        if copy is not notebook:
            links.append((inputs.describe(copy.result_set), _address(copy, notebook)))
    return links


def _links_to_notebooks(notebook: Notebook, by_name: dict[str, list[Notebook]]) -> dict[str, str]:
    """Return the address of every notebook's page by its file.

    A link goes to the copy with the same set of results if there is one, else to the first copy.
    """
    links = {}
    for name, copies in by_name.items():
        by_set = {copy.result_set: copy for copy in copies}
        target = by_set.get(notebook.result_set, copies[0])
        links[f"{NOTEBOOK_FOLDER}/{name}.ipynb"] = _address(target, notebook)
    return links


def _address(target: Notebook, origin: Notebook) -> str:
    """Return the address of a notebook's page relative to another's."""
    return posixpath.relpath(f"{target.page}.html", posixpath.dirname(origin.page))


def _is_quick(inputs: Inputs, notebook: Notebook) -> bool:
    """Return whether a notebook shows a quick run, which is neither evidence nor searched."""
    key = (notebook.name, notebook.result_set)
    profiles = {
        item.profile
        for item in inputs.artifacts
        if (item.notebook, item.result_set) == key and item.profile != NO_PROFILE
    }
    return bool(profiles) and profiles <= set(TOYS)


def write_notebook(
    notebook: Notebook,
    source: Path,
    files: Path,
    *,
    results_label: str,
    others: Sequence[tuple[str, str]] = (),
    pages: Mapping[str, str] | None = None,
    warn: Callable[[str], None] = lambda sentence: None,
    searchable: bool = True,
) -> None:
    """Write the page of `notebook`, with its code folded, and the pictures of its outputs.

    Parameters
    ----------
    notebook : Notebook
    source : Path
        Folder of Sphinx's sources; the page goes to ``<notebook.page>.md`` below it.
    files : Path
        Folder of files that the site gets as they are.
    results_label : str
        A reader's name for its results; it joins the title.
    others : sequence of (name, address)
        The same notebook with other results, linked below the title.
    pages : mapping, optional
        Addresses, relative to this page, by the path of their notebook in the repository.
    warn : callable, optional
        Receives one sentence for everything that could not be shown.
    searchable : bool
        Whether the site's search lists the page.
    """
    content = nbformat.read(notebook.path, as_version=4)
    page = NotebookPage(files, notebook, pages or {}, warn)
    search = ""
    if not searchable:
        search = "nosearch: true\n"
    page.parts.append(f"---\n{search}notebook: {notebook.name}\n---\n")
    page.add_heading(1, f"{escape_markdown(notebook.title)} — {escape_markdown(results_label)}")
    for number, cell in enumerate(content.cells):
        page.cell = number  # for warnings
        if number == 0 and cell.cell_type == "markdown":
            cell.source = cell.source.partition("\n")[2]  # its title is the page's
        if cell.cell_type == "markdown":
            page.add_markdown(cell.source)
        elif cell.cell_type == "code":
            page.add_html(code_cell_html(cell, page))
        if number == 0 and others:
            links = [f'<a href="{escape(address)}">{escape(name)}</a>' for name, address in others]
            page.add_html(f'<p class="meta">The same with other results: {", ".join(links)}.</p>')
    path = source / f"{notebook.page}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(page.parts), encoding="utf-8")
