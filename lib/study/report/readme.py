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

from study.claims.estimates import Cause
from study.claims.tuning import TUNED_MORE
from study.paths import DATA, REFERENCE, ROOT, resolve
from study.report.findings import Sentence, read_findings, write_short_sentence
from study.report.inputs import ReportError, read_table
from study.report.intervention import summarize_intervention
from study.report.readme_numbers import WITHIN_TASKS, read_stored, store_numbers
from study.report.tally import CAUSES, NOT_REFUTED, OTHER, TALLY, count_causes, tally
from study.report.verdicts import DECIDED
from study.results.names import PUBLICATIONS, label

README = ROOT / "README.md"
STORED = DATA / "readme"
"""Folder of the numbers behind README.md."""
_VANISHED = 40
"""Orders of magnitude after which the dissertation calls a gradient vanished, rounded."""
_LIMIT = round(-math.log10(np.finfo(np.float32).smallest_subnormal))
"""Orders of magnitude between 1 and the smallest number in single precision."""
_BLOCK = re.compile(r"(<!-- computed: (\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)
_FEW_SEEDS = 5
_TIMED = ("unicornn", "indrnn", "sru", "exponential", "cornn")


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
    judged, coverage = read_stored(stored)
    parts = [
        _figure_caption(read_table(stored / "slopes.csv")),
        "## Results at a glance",
        _tally_table(judged),
        f"**Before you quote a verdict:**\n{_doubt(judged, coverage)}",
        "## Main findings",
        "In parentheses: our 95 % interval and the paper's value. Points are percentage points.",
        f"{_findings(judged)}\n{_intervention(read_table(stored / 'intervention.csv'))}",
    ]
    layers = _layers(read_table(stored / "cells.csv"))
    speed = _speed(REFERENCE / "timings")
    return {"results": "\n\n".join(parts), "layers": _wrap(f"{layers} {speed}")}


def _figure_caption(slopes: pd.DataFrame) -> str:
    picture = "![Test accuracy per order of magnitude of gradient decay](data/readme/slopes.png)"
    within = slopes.set_index("gradients").loc[WITHIN_TASKS, "slope"]
    text = _wrap(
        "*Do networks learn less if gradients vanish? Test accuracy lost per order of magnitude of "
        "gradient decay, other factors equal, with 95 % intervals. Single precision cannot show "
        f"more than {_LIMIT} orders. The dissertation calls a gradient vanished after {_VANISHED}, "
        f"which go with {_VANISHED * within:.0f} points less accuracy. Without that limit "
        "gradients decay by many more orders, and each matters less.*"
    )
    return f"{picture}\n\n{text}"


def _tally_table(judged: pd.DataFrame) -> str:
    raw = tally(judged)
    lines = [
        f"| claims of | {' | '.join(TALLY)} | all |",
        f"|---|{'--:|' * (len(TALLY) + 1)}",
    ]
    titles = {name: publication.name for name, publication in PUBLICATIONS.items()}
    titles["all"] = "**all**"
    for name, title in titles.items():
        cells = [str(raw.loc[name, kind]) for kind in TALLY]
        lines.append(f"| {title} | {' | '.join(cells)} | {raw.loc[name, 'total']} |")
    counts = tally(judged, "corrected").loc["all"]
    cells = [str(counts[kind]) for kind in TALLY]
    lines.append(f"| all, after Holm's correction | {' | '.join(cells)} | {counts['total']} |")
    return "\n".join(lines)


def _doubt(judged: pd.DataFrame, coverage: pd.DataFrame) -> str:
    decided = judged[judged["counted"].isin(DECIDED)]
    kinds = tally(judged).loc["all"]
    agree = kinds["agree"]
    differ = kinds["differ"]
    without_effect = kinds[NOT_REFUTED]
    few = int((decided["replicates"] <= _FEW_SEEDS).sum())
    counts = coverage.sum()
    withdrawn = int((judged["counted"] != judged["corrected"]).sum())
    reserved = int((decided["reservation"] != "").sum())
    unequal = int(decided["reservation"].str.contains(TUNED_MORE).sum())
    points = (
        "*Agree*: the claim, such as “LEM beats the LSTM”, is true on our whole 95 % interval; our "
        "number may still be far from the paper's. *Differ*: it is false on the whole interval. "
        "That means not confirmed at our size; it does not mean wrong.",
        f"{len(decided)} claims are decided: {agree} agree, {differ} differ, and {without_effect} "
        "say that there is no effect, or only a small one, and we found no larger one. We do not "
        f"count these {without_effect} in the paper's favor.",
        f"{few} of the {len(decided)} rest on {_FEW_SEEDS} seeds or fewer. Holm's correction for "
        f"testing many claims makes {withdrawn} undecided. Some undecided claims were judged again "
        "after adding runs, which the intervals ignore.",
        f"Of {counts['total']} figures and tables, {counts['comparable']} can be compared with the "
        f"paper's; {counts['at published scale']} have its size. Shorter runs can miss an "
        "advantage (*too small to test*), and one that they show may only be faster learning. A "
        f"dagger (†) marks this or another reservation on {reserved} decided claims; in {unequal}, "
        "one network was tuned less.",
        f"*{OTHER.capitalize()}*: {_main_cause(judged)}.",
    )
    return "\n".join(_wrap(f"- {point}", hanging="  ") for point in points)


def _main_cause(judged: pd.DataFrame) -> str:
    """Return why most claims are not testable for another reason than their size."""
    counts = count_causes(judged).loc["all", [cause.value for cause in CAUSES]]
    others = counts.drop(Cause.TOO_SMALL.value)
    words = CAUSES[Cause(others.idxmax())]
    return f"in {others.max()} of {others.sum()} cases {words}"


def _findings(judged: pd.DataFrame) -> str:
    rows = judged.set_index("id", drop=False)
    findings = read_findings()
    lines = []
    for topic in findings.readme:
        sentences = [
            write_short_sentence(each, rows.loc[each.claim]) for each in findings.of_topic(topic)
        ]
        text = " ".join(f"*{_short_status(each)}:* {each.text}" for each in sentences)
        title = f"[{topic.title}](notebooks/{topic.notebook}.ipynb)"
        lines.append(_wrap(f"- **{title}.** {text}", hanging="  "))
    return "\n".join(lines)


def _intervention(effects: pd.DataFrame) -> str:
    """Return the result of our experiment on the backward pass as an entry of the findings."""
    title = "[Cause or symptom?](notebooks/31_adjoint_interventions.ipynb)"
    return _wrap(
        f"- **{title}** *Our own experiment:* {summarize_intervention(effects)}", hanging="  "
    )


def _short_status(sentence: Sentence) -> str:
    """Return the verdict and a mark of reservations, in words that begin a sentence."""
    words = sentence.claim.status
    words = words.removesuffix(" with the paper").removesuffix(" from the paper")
    words = words.replace("after Holm's correction", "after Holm")
    return f"{words}†" if sentence.claim.reservations else words


def _layers(cells: pd.DataFrame) -> str:
    """Return how many layers there are, and how many of them have fast engines."""
    engines = cells["engines"].str.split(", ")
    compiled = sum("numba-cpu" in names for names in engines)
    on_gpu = sum("numba-cuda" in names for names in engines)
    return (
        f"There are {len(engines)} such layers, among them LEM, coRNN, iRNN, LU RNN and SRU. Each "
        f"has a one-step form and a readable reference version; {compiled} also have a compiled "
        f"CPU version and {on_gpu} an NVIDIA kernel."
    )


def _speed(timings: Path) -> str:
    """Return times relative to nn.LSTM on a CPU and a GPU as a sentence."""
    cpu = _ratios(timings / "cpu-2-cores.csv")
    gpu = _ratios(timings / "h200.csv")
    times = [f"{label(cell)} {cpu[cell]:.2f} and {gpu[cell]:.2f}" for cell in _TIMED]
    return (
        "A forward and backward pass takes this fraction of `nn.LSTM`'s time on two CPU cores and "
        f"on an NVIDIA H200: {', '.join(times)} (1,000 steps, batch and width 128; UnICORNN, "
        "IndRNN and SRU with two layers)."
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
