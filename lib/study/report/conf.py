"""Sphinx's settings for the report; `study.report.build` names the folders.

The site must work from a disk without a network: no script, font or style comes from elsewhere.
"""

import re
from posixpath import dirname, join

from sphinx.environment.adapters.toctree import global_toctree_for_doc

project = "Recurrent networks and long-term dependencies"
html_title = "Long-term dependencies"

extensions = [
    "myst_parser",
    "sphinx.ext.mathjax",
    # Carries MathJax 3 and its fonts, and points sphinx.ext.mathjax to them instead of to a server.
    "sphinx-mathjax-offline",
]

myst_enable_extensions = ["dollarmath"]
# A link in a formula may lead to http(s) alone: MathJax removes other addresses, such as scripts.
mathjax3_config = {"loader": {"load": ["ui/safe"]}}
# Prose in notebooks may jump from # to ###. The menu lists each notebook once; tables, claims and
# pages of a notebook's other results are reached from it. All other warnings fail the build.
suppress_warnings = ["myst.header", "toc.not_included"]

html_theme = "furo"
html_favicon = "static/favicon.svg"
html_static_path = ["static"]
html_css_files = ["report.css"]
html_js_files = ["filter.js"]
html_copy_source = False
html_scaled_image_link = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = False
html_theme_options = {"navigation_with_keys": True}


def setup(app) -> None:
    """Configure what settings can't express: events, parallel reading and MathJax on every page.

    Parameters
    ----------
    app : sphinx.application.Sphinx
        The builder, which calls this.
    """
    # The extension does not say so, and names one file.
    app.extensions["sphinx-mathjax-offline"].parallel_read_safe = True
    app.set_html_assets_policy("always")  # pages hold formulas that Sphinx does not see
    no_files = {"file_insertion_enabled": False}  # directives that read the builder's files
    app.connect("env-before-read-docs", lambda app, *_: app.env.settings.update(no_files))
    app.connect("html-page-context", share_menu, priority=100)  # before the theme asks for it


_menus: dict[str, str] = {}
"""The menu as the pages of a folder link it."""


def share_menu(app, page, _template, context, _doctree) -> None:
    """Give `page` its folder's menu, with its own entry and the entries above it marked.

    Sphinx would make the menu again for each page, which is half the time of a build.

    Parameters
    ----------
    app, page, _template, context, _doctree
        As Sphinx's event ``html-page-context`` passes them; ``toctree`` is set in `context`.
    """
    if not _menus:  # with the first page, before Sphinx writes others in parallel
        for folder in {dirname(name) for name in app.env.found_docs}:
            entries = global_toctree_for_doc(
                app.env, join(folder, "-"), app.builder, tags=app.tags, titles_only=True
            )
            _menus[folder] = app.builder.render_partial(entries)["fragment"]
    folder = dirname(page)
    menu = _menus[folder]
    for name in entries_above(app.env, page):
        address = app.builder.get_relative_uri(join(folder, "-"), name)
        target = address
        if name == page:
            target = "#"
        menu = _mark(menu, address, target, current=name == page)
    context["toctree"] = lambda **_: menu


def entries_above(env, page: str) -> list[str]:
    """Return the menu's entries to mark for `page`: the ones above it, and itself if listed.

    A page that the menu does not list, such as that of one claim, belongs to the entry with its
    folder's name; a notebook's page with other results belongs to the first page of the notebook.

    Parameters
    ----------
    env : sphinx.environment.BuildEnvironment
        Holds all menus of the site.
    page : str
        Address of the page, without suffix.

    Returns
    -------
    list of str
        Addresses from the top of the menu down to `page`.
    """
    parents = {child: parent for parent, listed in env.toctree_includes.items() for child in listed}
    entry = page
    if page not in parents and dirname(page) in parents:
        entry = dirname(page)
    elif page not in parents:
        name = env.metadata.get(page, {}).get("notebook")
        for child in parents:
            if child.startswith("notebooks/") and child.endswith(f"/{name}"):
                entry = child
                break
    entries = [entry]
    while entries[0] in parents:
        entries.insert(0, parents[entries[0]])
    if page != entry:
        entries.append(page)
    return entries


def _mark(menu: str, address: str, target: str, *, current: bool) -> str:
    """Return the menu with the entry that leads to `address` marked as current."""
    entry = (
        r'(<li class="toctree-l\d)([^"]*"><a class=")(reference internal" href=)'
        f'"{re.escape(address)}"'
    )
    css = ""
    if current:
        css = "current "
    return re.sub(entry, rf'\1 current\2{css}\3"{target}"', menu)
