"""Sphinx's settings for the report; `study.report.build` names the folders.

The site must work from a disk without a network: no script, font or style comes from elsewhere.
"""

import re
from posixpath import dirname, join

from docutils.nodes import Text, image, raw
from sphinx.environment.adapters.toctree import global_toctree_for_doc

from study.report.safe import clean_html

project = "Recurrent networks and long time dependencies"
html_title = "Long time dependencies"

extensions = [
    "myst_nb",
    "sphinx.ext.mathjax",
    # Carries MathJax 3 and its fonts, and points sphinx.ext.mathjax to them instead of to a server.
    "sphinx-mathjax-offline",
]

nb_execution_mode = "off"
# Readers come for the argument; the code is one click away (`study.report.notebooks` folds it).
nb_code_prompt_show = "code"
nb_code_prompt_hide = "hide the code"
nb_render_markdown_format = "myst"
# A tagged formula breaks its lines by \cr: Sphinx puts one with two backslashes into an environment that allows no tag.
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
# Prose in notebooks may jump from # to ###, and a cell may hold what Pygments cannot colour; readers lose nothing.
# Everything else that Sphinx warns of fails the build.
# The menu lists each notebook once; pages of its other results are reached from it.
suppress_warnings = ["myst.header", "misc.highlighting_failure", "toc.not_included"]

html_theme = "furo"
html_favicon = "static/favicon.svg"
html_static_path = ["static"]
html_css_files = ["report.css"]
html_copy_source = False
html_scaled_image_link = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = False
html_theme_options = {"navigation_with_keys": True}


def setup(app) -> None:
    """Connect what the settings above cannot say."""
    # The extension says nothing of it, and names one file.
    app.extensions["sphinx-mathjax-offline"].parallel_read_safe = True
    app.set_html_assets_policy("always")  # captions hold formulas that Sphinx does not see
    app.connect("doctree-read", _clean, priority=100)  # before Sphinx collects what to copy
    refuse = {"file_insertion_enabled": False}  # directives that read the builder's files
    app.connect("env-before-read-docs", lambda app, *_: app.env.settings.update(refuse))
    app.connect("html-page-context", _share_menu, priority=100)  # before the theme asks for it


_menus: dict[str, str] = {}
"""The menu as the pages of a folder link it."""


def _share_menu(app, page, _template, context, _doctree) -> None:
    """Mark `page` in its folder's menu: Sphinx would make the menu again for each page, half the time of a build."""
    if not _menus:  # with the first page, before Sphinx writes others side by side
        for folder in {dirname(name) for name in app.env.found_docs}:
            entries = global_toctree_for_doc(
                app.env, join(folder, "-"), app.builder, tags=app.tags, titles_only=True
            )
            _menus[folder] = app.builder.render_partial(entries)["fragment"]
    menu, folder = _menus[dirname(page)], dirname(page)
    for name, css in ((folder, ""), (page, "current ")):
        address = app.builder.get_relative_uri(join(folder, "-"), name)
        entry = rf'(<li class="toctree-l\d)("><a class=")(reference internal" href=)"{re.escape(address)}"'
        menu = re.sub(entry, rf'\1 current\2{css}\3"{"#" if css else address}"', menu)
    context["toctree"] = lambda **_: menu


def _clean(app, doctree) -> None:
    """Take from a notebook's page what a browser would run or fetch; the other pages are the templates' own."""
    if app.env.docname.startswith("notebooks/"):
        for piece in doctree.findall(raw):
            piece.children[:] = [Text(clean_html(piece.astext()))]
        for picture in list(doctree.findall(image)):
            picture["scale"] = 100  # with its size what follows stays in its place while it loads
            if "jupyter_execute" not in picture["uri"]:  # no output: another host's, or a file
                picture.parent.remove(picture)
