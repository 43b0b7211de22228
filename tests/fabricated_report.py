"""Write a small `data` folder like the pipeline's: figures, tables and executed notebooks."""

import io
import json
from base64 import b64encode
from itertools import product
from pathlib import Path

import nbformat
import pandas as pd
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from study.claims.estimates import Cause, Estimate, Scale, not_testable
from study.claims.intervals import proportion
from study.claims.judging import judged_row, show_claims
from study.report.build import build
from study.results.artifacts import Artifacts

TAGGED = r"$$\begin{aligned} y &= a \cr &+ b \end{aligned} \tag{1.11}$$"
TAKE = "document.title = 'taken'"
HOSTILE = f'<script>{TAKE}</script><img src=x onerror="{TAKE}">'
"""HTML that the report must show as text and never run."""
RUNNING = rf"$\href{{javascript:{TAKE}}}{{press}}$"
"""A formula whose link would run a script."""
ANSWER = "Hardly ever: **two** of twelve do, with $a < b$."
FORMULA = r"$\log_{10} \lVert \lambda_1 \rVert_2 / \lVert \lambda_T \rVert_2$"


def build_site(folder: Path) -> Path:
    """Build the report of two fabricated sets of results, from ``data`` of `folder`.

    Return the site, ``report`` of `folder`.
    """
    (folder / "secret.txt").write_text("known,to\nknown to the builder alone,0\n")
    drawing().savefig(folder / "secret.png")
    data = folder / "data"
    for result_set, profile, runs in (("rebuilt", "quick", 12), ("reference", "real", 3456)):
        about = {"result_set": result_set, "profile": profile, "runs": runs}
        made = Artifacts(data, notebook="22_errors", **about)
        made.learned = result_set == "reference"
        made.save_table(error_rates(), "diss-tab-1.7", caption=f"Error rates, with {FORMULA}.")
        caption = f"A line, and a < b & c. {HOSTILE}"
        made.show_figure(drawing(), "diss-fig-3.3", data=error_rates(), caption=caption)
        show_claims(made, judged(min(runs, 120)))
        vars(made).update(profile="none", published_scale=True)  # what needs no training
        made.save_table(counts(), "diss-tab-1.7", part="by-task", caption="By task.")
        path = data / "made" / "22_errors" / result_set / "22_errors.ipynb"
        write_notebook(path, result_set=result_set)
    write_notebook(data / "executed" / "00_prepare.ipynb", title="Where do the data come from?")
    # Nothing else says that there are these.
    made = Artifacts(data, notebook="55_new", result_set="rebuilt", profile="quick", runs=1)
    made.show_figure(drawing(), "own-novelty", data=error_rates(), caption="Never seen before.")
    write_notebook(data / "executed" / "55_new.ipynb", title="What's new?", result_set="rebuilt")
    reference = data / "reference" / "real"
    reference.mkdir(parents=True)
    record = {"profile": "real", "packages": {"torch": "1.2.3"}, "cores": 2}
    (reference / "factorial.nc").touch()
    (reference / "factorial.json").write_text(json.dumps(record))
    return build(data, folder / "report").parent


def error_rates() -> pd.DataFrame:
    """Return a table with one key column, ours and published."""
    table = pd.DataFrame({"architecture": ["rnn", "lstm"], "ours": [0.125, 0.25]})
    return table.assign(published=[0.12, None], difference=[0.005, None])


def counts() -> pd.DataFrame:
    """Return a table with three key columns, the last of which can run across."""
    keys = [*product(("none", "post"), ("rnn", "gru"), (1, 2))]
    table = pd.DataFrame(keys, columns=["noise", "architecture", "quartile"])
    return table.assign(ours=range(1000, 1008), published=range(2000, 2008))


def judged(replicates: int) -> pd.DataFrame:
    """Return judged claims; the larger experiment undoes what the smaller one said of one.

    Of four further claims one has a caveat, two have a threshold of ours, which changes the verdict
    on one of them, and one has no seeds.
    """
    reached = proportion(replicates, replicates, Scale(replicates=replicates))
    kept = proportion(
        0 if replicates > 100 else replicates, replicates, Scale(replicates=replicates)
    )
    short = Scale(steps=474, replicates=replicates, at_edge=("GRU on PTB (0.03)",))
    rows = {
        "diss-3.6-latch": reached,
        "diss-3.6-longer": kept,
        "lem-5-ptbchar-gated": Estimate(0.07, 0.06, 0.08, short),
        "lem-fhn-factor": Estimate(4, 3.2, 7, Scale(replicates=replicates), ratio=True),
        "lem-fhn-single": Estimate(0.8, 0.75, 0.85, Scale(replicates=replicates), ratio=True),
        "lem-5-ptbchar-lead": not_testable("fewer than two runs", Cause.NO_SEEDS),
    }
    return pd.DataFrame([judged_row(*one) for one in rows.items()])


def drawing() -> Figure:
    """Return a small figure."""
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, 1], [1, 0])
    return figure


SECRET = "../../../../secret.txt"
"""Beside the site, as a page's source would name it."""
NOSY = [
    *(
        f"{fence}{{{name}}} {mark}\n{option}{fence}"
        for fence in ("```", "~~~", ":::", "- ```")
        for name, mark, option in (
            ("include", SECRET, ""),
            ("literalinclude", SECRET, ""),
            ("raw", "html", f":file: {SECRET}\n"),
            ("csv-table", "", f":file: {SECRET}\n"),
            ("eval-rst", "", f".. literalinclude:: {SECRET}\n"),
        )
    ),
    f"{{download}}`x <{SECRET}>`",
    "![x](https://elsewhere.example/x.png)",
    "![x](../../../../secret.png)",
    "![x](../../../jupyter_execute/../../secret.png)",
    f"[x]({SECRET})",
    "[x](path:../../../../secret.txt)",
    "[x](%2e%2e/%2e%2e/%2e%2e/%2e%2e/secret.txt)",
    "[x][r]\n\n[r]: ../../../../secret.txt",
    f"```\u00a0{{literalinclude}} {SECRET}\n```",
    f"1) ```{{literalinclude}} {SECRET}\n   ```",
    f"[^n]: ```{{literalinclude}} {SECRET}\n    ```",
    f"text\r```{{literalinclude}} {SECRET}\r```",
]
"""Markdown that would read a file of the builder's, or have the reader's browser fetch one."""


def write_notebook(
    path: Path, *, title="Does it fail?", more="", shown: tuple[dict, ...] = (), **injected: str
) -> None:
    """Write an executed notebook with formulas, injected parameters and outputs of every kind.

    `more` joins its first cell, and each bundle of `shown` is displayed as well.
    """
    png = io.BytesIO()
    drawing().savefig(png, format="png", metadata={"Software": None})
    picture = b64encode(png.getvalue()).decode()
    outputs = [
        new_output("display_data", {"image/png": picture, "text/plain": "<Figure>"}),
        new_output("display_data", {"text/html": error_rates().to_html(), "text/plain": "a table"}),
        new_output("display_data", {"text/markdown": f"**Two** of {FORMULA} {HOSTILE}"}),
        new_output("display_data", {"text/markdown": RUNNING}),
        new_output("display_data", {"text/markdown": f"```{{raw}} html\n{HOSTILE}\n```"}),
        *(new_output("display_data", {"text/markdown": text}) for text in NOSY),
        new_output("display_data", {"text/html": f"<b>kept</b>{HOSTILE}", "text/plain": "b"}),
        new_output("display_data", {"application/javascript": TAKE}),
        new_output("stream", name="stdout", text="first\nsecond\n"),
        *(new_output("display_data", bundle) for bundle in shown),
    ]
    assigned = "\n".join(f"{name} = {value!r}" for name, value in injected.items())
    about = [new_output("display_data", {"text/markdown": f"{ANSWER}\n\nAnd more."})]
    tags = {"tags": ["injected-parameters"]}
    cells = [
        new_markdown_cell(f"# {title}\n\nThe metric is {FORMULA}.\n\n{TAGGED}\n\n{more}"),
        new_code_cell('out = "data"  # where to', metadata={"tags": ["parameters"]}),
        new_code_cell(assigned, metadata=tags),
        new_markdown_cell("## A section"),
        new_code_cell("plot()", execution_count=3, outputs=outputs),
        new_markdown_cell("## Answer\n\nWe shall see."),
        new_code_cell("answer()", outputs=about),
        new_markdown_cell("## What this does not answer\n\nMuch."),
    ]
    for place, cell in enumerate(cells):
        cell.id = f"cell-{place}"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=cells), path)
