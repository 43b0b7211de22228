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

from study.claims.verdict import AGREES, DIFFERS
from study.paths import DATA, REFERENCE, ROOT, resolve
from study.report.contents import ReportError
from study.report.findings import Sentence, read_findings, summarize, write_short_sentence
from study.report.inputs import read_table
from study.report.intervention import shows_cause, summarize_intervention
from study.report.readme_numbers import read_stored, store_numbers
from study.report.tally import NOT_REFUTED, TALLY, tally
from study.results.names import PUBLICATIONS, label

README = ROOT / "README.md"
STORED = DATA / "readme"
"""Folder of the numbers behind README.md."""
_LIMIT = round(-math.log10(np.finfo(np.float32).smallest_subnormal))
"""Orders of magnitude between 1 and the smallest number in single precision."""
_BLOCK = re.compile(r"(<!-- computed: (\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)
_FEW_SEEDS = 5
_VERDICTS = "[verdicts.csv](data/readme/verdicts.csv)"
_TIMED = ("unicornn", "indrnn", "sru", "cornn")
"""Cells whose times README.md prints; all but the last were timed with two layers."""


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
        _figure_caption(),
        "## Results at a glance",
        _tally_table(judged),
        f"**Before you quote a verdict** (all: {_VERDICTS}):\n{_cautions(judged)}",
        "## Main findings",
        _wrap(
            "Verdicts after Holm's correction. In parentheses: our 95% interval (not corrected), "
            "the paper's value, our seeds (fewest in a comparison). “After n of N steps”: ours, "
            "the paper's."
        ),
        f"{_findings(judged)}\n{_intervention(effects)}",
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
    return _wrap(
        "We reimplemented the networks of five publications, repeated their experiments, mostly "
        f"at a smaller scale, and checked {len(judged)} claims. "
        f"**In short:** {' '.join(answers)}"
    )


def _figure_caption() -> str:
    picture = "![Test accuracy lost per order of magnitude of decay](data/readme/slopes.png)"
    text = _wrap(
        "*Slopes with 95% intervals, other factors equal: the more gradients shrink on the way to "
        "the first time step, the lower the test accuracy. Single precision spans at most "
        f"{_LIMIT} orders of decay.*"
    )
    return f"{picture}\n\n{text}"


def _tally_table(judged: pd.DataFrame) -> str:
    """Return the claims by verdict; in parentheses those after Holm's correction."""
    raw = tally(judged)
    corrected = tally(judged, "corrected")
    titles = {name: publication.name for name, publication in PUBLICATIONS.items()}
    titles["all"] = "**all**"
    changing = [kind for kind in TALLY if (raw[kind] != corrected[kind]).any()]
    heads = []
    for kind in TALLY:
        head = kind
        if kind in changing:
            head += " (Holm)"
        heads.append(head)
    lines = [
        f"| source | {' | '.join(heads)} | all |",
        f"|---|{'--:|' * (len(TALLY) + 1)}",
    ]
    for name, title in titles.items():
        cells = []
        for kind in TALLY:
            cell = str(raw.loc[name, kind])
            if kind in changing:
                cell += f" ({corrected.loc[name, kind]})"
            cells.append(cell)
        lines.append(f"| {title} | {' | '.join(cells)} | {raw.loc[name, 'total']} |")
    return "\n".join(lines)


def _cautions(judged: pd.DataFrame) -> str:
    """Return what a reader must know before quoting a verdict, as a list."""
    decided = judged[judged["counted"].isin((AGREES, DIFFERS))]
    kinds = tally(judged).loc["all"]
    corrected = tally(judged, "corrected").loc["all"]
    remaining = corrected["agree"] + corrected["differ"]
    few = int((decided["replicates"] <= _FEW_SEEDS).sum())
    reserved = int((decided["caveat"] != "").sum())
    points = (
        "*Agree*: the claim, such as “LEM beats the LSTM”, is true for every value in our 95% "
        "interval, even if our number is far from the paper's. *Differ*: it is false for every "
        "value, at our scale; at the paper's it may still be true. *Undecided*: neither.",
        f"{len(decided)} claims are decided: {kinds['agree']} agree, {kinds['differ']} differ. "
        f"Holm's correction for many tests per paper leaves {remaining}: {corrected['agree']} and "
        f"{corrected['differ']} (in parentheses). {kinds[NOT_REFUTED]} others, of little or no "
        "effect, are not refuted: weak evidence.",
        "Most runs are shorter than the paper's. A lead may then just be faster learning († marks "
        f"this or another caveat, on {reserved} of {len(decided)}). No lead is *too small to "
        "test*: short runs favor *agree*.",
        f"{few} of the {len(decided)} rest on {_FEW_SEEDS} seeds or fewer. We did not correct for "
        "seeds added after a first verdict.",
    )
    return "\n".join(_wrap(f"- {point}", hanging="  ") for point in points)


def _findings(judged: pd.DataFrame) -> str:
    rows = judged.set_index("id", drop=False)
    findings = read_findings()
    lines = []
    for topic in findings.readme:
        sentences = []
        for finding in findings.of_topic(topic):
            sentence = write_short_sentence(finding, rows.loc[finding.claim])
            status = _short_status(sentence, rows.loc[finding.claim])
            sentences.append(f"*{status}:* {sentence.text}")
        text = " ".join(sentences)
        title = f"[{topic.title}](notebooks/{topic.notebook}.ipynb)"
        lines.append(_wrap(f"- **{title}.** {text}", hanging="  "))
    return "\n".join(lines)


def _intervention(effects: pd.DataFrame) -> str:
    """Return the result of our experiment on the backward pass as an entry of the findings."""
    title = "[Cause or symptom?](notebooks/31_adjoint_interventions.ipynb)"
    return _wrap(f"- **{title}** *Our experiment:* {summarize_intervention(effects)}", hanging="  ")


def _short_status(sentence: Sentence, row: pd.Series) -> str:
    """Return the verdict, a mark of caveats, and the steps of runs shorter than the paper's.

    The words begin a sentence. The steps come first, because they limit what the verdict means.
    """
    words = sentence.claim.status
    words = words.removesuffix(" with the paper").removesuffix(" from the paper")
    words = words.replace("after Holm's correction", "after Holm")
    if sentence.claim.caveats:
        words += "†"
    if row["steps"] < row["paper_steps"]:
        words += f" after {row['steps']:,.0f} of {row['paper_steps']:,.0f} steps"
    return words


def _layers(cells: pd.DataFrame) -> str:
    """Return how many layers there are, and how many of them have fast engines."""
    engines = cells["engines"].str.split(", ")
    compiled = sum("numba-cpu" in names for names in engines)
    on_gpu = sum("numba-cuda" in names for names in engines)
    return (
        f"There are {len(engines)} layers; {compiled} have compiled CPU code and {on_gpu} a CUDA "
        "kernel."
    )


def _speed(timings: Path) -> str:
    """Return times relative to nn.LSTM on a CPU and a GPU as a sentence."""
    cpu = _ratios(timings / "cpu-2-cores.csv")
    gpu = _ratios(timings / "h200.csv")
    times = [f"{label(cell)} {cpu[cell]:.2f} / {gpu[cell]:.2f}" for cell in _TIMED]
    return (
        "Time of a training pass over that of one-layer `nn.LSTM`, two CPU cores / H200 (T = "
        f"1,000, batch and width 128): {', '.join(times[:-1])} (two layers each); {times[-1]}."
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
