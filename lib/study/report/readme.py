"""Write the parts of README.md that hold results (`python -m study.report.readme`).

The command stores the numbers behind them in ``data/readme/`` (`study.report.readme_numbers`),
draws the figure, and replaces the parts between ``<!-- computed: NAME -->`` and ``<!-- end -->`` in
README.md. A test compares both.
"""

import argparse
import math
import re
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from study.claims.listed import claims
from study.claims.verdict import AGREES, DIFFERS
from study.paths import DATA, REFERENCE, ROOT, resolve
from study.report.claim_text import describe_claim
from study.report.contents import ReportError
from study.report.findings import read_findings, summarize, write_brief
from study.report.inputs import read_table
from study.report.intervention import shows_cause, summarize_intervention
from study.report.readme_numbers import read_stored, store_numbers
from study.report.tally import SMALL_EFFECT, TALLY, TESTED, TOO_SMALL, tally
from study.results.names import PUBLICATIONS

README = ROOT / "README.md"
STORED = DATA / "readme"
"""Folder of the numbers behind README.md."""
_LIMIT = round(-math.log10(np.finfo(np.float32).smallest_subnormal))
"""Orders of magnitude between 1 and the smallest number in single precision."""
_BLOCK = re.compile(r"(<!-- computed: (\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)
_FEW_SEEDS = 5
_KEY_TO_FINDINGS = """\
*Italics*: the claim. **Bold**: our verdict after Holm's correction, and the notebook behind it.
Parentheses: uncorrected 95% interval; published value."""
_VERDICTS = "data/readme/README.md"
_EXAMPLE = "unicornn"
"""Cell of the example, whose time README.md prints. It was timed with two layers."""


def render_blocks(stored: Path) -> dict[str, str]:
    """Return the computed parts of README.md.

    Parameters
    ----------
    stored : Path
        Folder that `store_numbers` wrote.

    Returns
    -------
    dict of str to str
        Markdown by name of the part.
    """
    judged = read_stored(stored)
    effects = read_table(stored / "intervention.csv")
    parts = [
        _figure_caption(read_table(stored / "slopes.csv")),
        "## Results at a glance",
        _tally_table(judged),
        f"**Before you quote a verdict** ([all verdicts, and how to read them]({_VERDICTS})):\n"
        f"{_cautions(judged)}",
        "## Main findings",
        _KEY_TO_FINDINGS,
        _findings(judged),
        _intervention(effects),
    ]
    layers = _layers(read_table(stored / "cells.csv"))
    speed = _speed(REFERENCE / "timings")
    return {
        "summary": _summary(judged, effects),
        "results": "\n\n".join(parts),
        "layers": _wrap(f"{layers} {speed}"),
    }


def _summary(judged: pd.DataFrame, effects: pd.DataFrame) -> str:
    """Return what was done, and the answer to the question in the title."""
    answers = summarize(judged, cause=shows_cause(effects))
    counts = tally(judged).loc["all"]
    corrected = tally(judged, "corrected").loc["all"]
    return _wrap(
        "We reimplemented the networks of five publications and repeated their experiments, mostly "
        f"smaller. Of {len(judged)} claims, {counts['agree']} agree with our results "
        f"({corrected['agree']} after Holm's correction for many claims), "
        f"{counts['differ']} differ ({corrected['differ']}), {counts['undecided']} are undecided "
        f"({corrected['undecided']}), and {counts[SMALL_EFFECT]} that claim little or no effect "
        f"hold ({corrected[SMALL_EFFECT]}). We could not test the other "
        f"{len(judged) - counts[list(TESTED)].sum()}, {counts[TOO_SMALL]} of them because our "
        f"experiments were too small. **In short:** {' '.join(answers)}"
    )


def _figure_caption(slopes: pd.DataFrame) -> str:
    """Return the figure and its caption, from a table of `study.report.readme_numbers`."""
    unrounded = slopes["slope"].iloc[-1]
    picture = "![Test accuracy lost per factor of ten of gradient decay](data/readme/slopes.png)"
    text = _wrap(
        "*Points of test accuracy lost per factor of ten of gradient decay on the way back to the "
        "first time step, all else equal (95% intervals). As in the dissertation, gradients below "
        f"1e-{_LIMIT} (single precision) count as 1e-{_LIMIT}. Without this floor (last row), the "
        f"slope is only {unrounded:.2f} points.*"
    )
    return f"{picture}\n\n{text}"


def _tally_table(judged: pd.DataFrame) -> str:
    """Return the claims by verdict; in parentheses those after Holm's correction."""
    raw = tally(judged)
    corrected = tally(judged, "corrected")
    titles = {name: publication.name for name, publication in PUBLICATIONS.items()}
    titles["all"] = "**all**"
    lines = [
        f"| number of claims (after Holm's correction) | {' | '.join(titles.values())} |",
        f"|---|{'--:|' * len(titles)}",
    ]
    for kind in TALLY:
        changes = (raw[kind] != corrected[kind]).any()
        cells = []
        for name in titles:
            cell = str(raw.loc[name, kind])
            if changes:
                cell += f" ({corrected.loc[name, kind]})"
            cells.append(cell)
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    totals = [str(raw.loc[name, list(TALLY)].sum()) for name in titles]
    lines.append(f"| **all claims** | {' | '.join(totals)} |")
    return "\n".join(lines)


def _cautions(judged: pd.DataFrame) -> str:
    """Return what a reader must know before quoting a verdict, as a list."""
    decided = judged[judged["counted"].isin((AGREES, DIFFERS))]
    corrected = tally(judged, "corrected").loc["all"]
    few = int((decided["replicates"] <= _FEW_SEEDS).sum())
    with_caveat = int((decided["caveat"] != "").sum())
    described = [describe_claim(row) for _, row in decided.iterrows()]
    by_threshold = sum(claim.depends_on_threshold for claim in described)
    remaining = corrected["agree"] + corrected["differ"]
    points = (
        "*Agree*: our whole 95% interval is where the claim is true (for “LEM beats the LSTM”, "
        "above zero). Our number may still be far from the published one. *Differ*: the whole "
        "interval is where the claim is false, at our scale. *Undecided*: the interval contains "
        "values for and against it, or the list gives another reason. *Experiment too small*: ours "
        "could hardly show the effect, and did not.",
        "Most of our runs are shorter than the papers', so a lead may only mean faster learning. "
        "If short runs show no lead where the paper claims one, we count *too small*, not "
        "*differ*. So the share of *agree* among tested claims is too high. "
        f"{_short_sequences(judged)}",
        f"Of {len(decided)} claims that agree or differ, {remaining} remain so after Holm's "
        f"correction within each publication. Of the same {len(decided)}, {with_caveat} have a "
        f"caveat (†; the list names it), {by_threshold} would change if we halved or doubled a "
        f"threshold of ours (‡), and {few} rest on {_FEW_SEEDS} seeds. For some undecided claims, "
        "we added seeds after seeing the result; intervals ignore that.",
        "Unless a claim says otherwise, verdicts on iRNN are not for its equations as published, "
        "in which the inner steps between two inputs start at zero. We judge a second reading: "
        "they start at the previous state. A third one adds a minus sign to the second.",
    )
    return "\n".join(_wrap(f"- {point}", hanging="  ") for point in points)


def _short_sequences(judged: pd.DataFrame) -> str:
    """Return how much shorter our sequences of images are than the paper's."""
    cifar, paper_cifar = _lengths(judged, "unicornn-4-ncifar-lead")
    mnist, paper_mnist = _lengths(judged, "unicornn-4-psmnist-gated")
    return (
        f"Sequences are shorter, too: {cifar} of {paper_cifar} time steps of noise-padded "
        f"CIFAR-10, and MNIST images shrunk from {paper_mnist} to {mnist} pixels."
    )


def _lengths(judged: pd.DataFrame, claim: str) -> tuple[str, str]:
    """Return the numbers of time steps of our sequences and of the paper's."""
    ours = judged.set_index("id").loc[claim, "time_steps"]
    paper = claims()[claim].comparison.paper_length
    return f"{ours:,.0f}", f"{paper:,}"


def _findings(judged: pd.DataFrame) -> str:
    """Return the main findings as a numbered list."""
    rows = judged.set_index("id", drop=False)
    items = []
    for number, finding in enumerate(read_findings().main, start=1):
        text = write_brief(finding, rows)
        items.append(_wrap(f"{number}. {text}", hanging="   "))
    return "\n".join(items)


def _intervention(effects: pd.DataFrame) -> str:
    """Return the result of our experiment on the backward pass."""
    title = "[Cause or symptom?](notebooks/31_adjoint_interventions.ipynb)"
    return _wrap(f"**{title}** {summarize_intervention(effects)}")


def _layers(cells: pd.DataFrame) -> str:
    """Return how many layers there are, and how many of them have fast engines."""
    engines = cells["engines"].str.split(", ")
    compiled = sum("numba-cpu" in names for names in engines)
    on_gpu = sum("numba-cuda" in names for names in engines)
    return (
        f"There are {len(cells)} layers (`longrnn.__all__`), each with a cell for single steps; "
        f"{compiled} have compiled CPU code, and {on_gpu} a CUDA kernel."
    )


def _speed(timings: Path) -> str:
    """Return the time of the example's layer relative to nn.LSTM on a CPU and a GPU in words."""
    cpu = _ratios(timings / "cpu-2-cores.csv")[_EXAMPLE]
    gpu = _ratios(timings / "h200.csv")[_EXAMPLE]
    return (
        f"Two layers of UnICORNN take {100 * cpu:.0f}% of the time of one `nn.LSTM` layer on two "
        f"CPU cores and {100 * gpu:.0f}% on an H200 (forward and backward, 1,000 time steps, "
        "batch size and width 128)."
    )


def _ratios(path: Path) -> Mapping[str, float]:
    """Return each cell's time over nn.LSTM's, at the shortest sequences that were timed."""
    table = read_table(path)
    first = table[table["workload"] == table["workload"].iloc[0]]
    return dict(zip(first["cell"], first["ratio"], strict=True))


def _wrap(text: str, hanging: str = "") -> str:
    """Return a text with lines of at most 100 columns; later lines begin with `hanging`."""
    return textwrap.fill(
        text, 100, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )


def fill(text: str, blocks: Mapping[str, str]) -> str:
    """Replace each computed part of a text by its block.

    Parameters
    ----------
    text : str
        With parts between ``<!-- computed: NAME -->`` and ``<!-- end -->``.
    blocks : mapping of str to str
        The blocks by name, as from `render_blocks`.

    Returns
    -------
    str
        The text with new parts.
    """
    return _BLOCK.sub(lambda match: f"{match[1]}{blocks[match[2]]}{match[3]}", text)


def main(arguments: list[str] | None = None) -> int:
    """Store the numbers and fill README.md.

    Parameters
    ----------
    arguments
        Arguments of the command line; those of this process if None.

    Returns
    -------
    int
        Exit status: 0, or 1 after an error, which is printed to stderr.
    """
    parser = argparse.ArgumentParser(prog="python -m study.report.readme", description=__doc__)
    parser.add_argument("--data", default=DATA, help="folder of made/ (data)")
    options = parser.parse_args(arguments)
    try:
        store_numbers(resolve(options.data), STORED)
    except (ReportError, OSError) as error:
        print(f"readme: {error}", file=sys.stderr)
        return 1
    README.write_text(fill(README.read_text("utf-8"), render_blocks(STORED)), encoding="utf-8")
    print(f"readme: {README.name} and {STORED.relative_to(ROOT)} are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
