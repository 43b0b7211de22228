"""Run Sphinx in a temporary folder and replace the old site by the finished one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from study.paths import ROOT
from study.report.contents import SUFFIXES, Inputs, ReportError
from study.report.coverage import count_coverage, summarise
from study.report.inputs import load_inputs
from study.report.pages import write_pages
from study.report.verdicts import judge_claims
from study.results.published import artefacts

HERE = Path(__file__).parent
DEPENDS = ["static"]
"""Read by Sphinx, which gets the name of this folder (see `study.pipeline.modules`)."""
# Sphinx's records of its own run: useless for readers, with paths and hashes of the machine.
_RECORDS = (".buildinfo", "objects.inv")


def build(data: Path, out: Path) -> Path:
    """Build the site.

    Equal inputs give equal bytes. The site is built next to `out` and moved there whole: if
    anything fails, the old site stays as it was.

    Parameters
    ----------
    data : Path
        Folder of ``executed/`` and ``made/``.
    out : Path
        Folder of the site.

    Returns
    -------
    Path
        The front page.

    Raises
    ------
    ReportError
        An input is missing or damaged, or Sphinx refused a page; the message says which.
    """
    if out.exists() and any(out.iterdir()) and not (out / "files/claims.csv").is_file():
        raise ReportError(
            f"{out} holds something that is not a report; name a new folder or a report"
        )
    inputs = load_inputs(data)
    out.parent.mkdir(parents=True, exist_ok=True)
    work = out.with_name(f".{out.name}.partial")
    shutil.rmtree(work, ignore_errors=True)  # of a build that was killed
    source, site, extra = work / "source", work / "site", work / "extra"
    try:
        listed = artefacts()
        judged = judge_claims(inputs.artefacts)
        coverage = count_coverage(inputs.artefacts, listed)
        write_pages(inputs, judged, summarise(coverage, listed), source, extra, _warn)
        pages = sum(1 for page in source.rglob("*.md"))
        _say(
            f"{len(inputs.notebooks)} notebooks, {len(inputs.artefacts)} figures and tables; "
            f"Sphinx makes {pages} pages of them"
        )
        _run_sphinx(source, site, work / "doctrees")
        for name in _RECORDS:
            (site / name).unlink(missing_ok=True)
        if extra.exists():
            shutil.copytree(extra, site, dirs_exist_ok=True)
        _copy_files(inputs, site)
        tables = {"coverage": coverage, "claims": judged.drop(columns="judged_by")}
        (site / "files").mkdir(exist_ok=True)
        for name, table in tables.items():
            table.to_csv(site / "files" / f"{name}.csv", index=False, lineterminator="\n")
        if out.exists():  # moved whole, so that no half of it stays if it cannot be removed
            out.rename(work / "old")
        site.rename(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return out / "index.html"


def _say(sentence: str) -> None:
    print(f"report: {sentence}", file=sys.stderr, flush=True)


def _warn(sentence: str) -> None:
    """Tell the builder about one output or link that the site does not show."""
    _say(f"warning: {sentence}")


def _run_sphinx(source: Path, site: Path, doctrees: Path) -> None:
    """Run Sphinx in a process of its own: it and docutils keep global state.

    Raises
    ------
    ReportError
        Sphinx warned or failed; the message has its first reason.
    """
    command = [sys.executable, "-m", "sphinx", "--builder", "html", "--quiet", "--no-color"]
    command += ["--fail-on-warning", "--conf-dir", str(HERE), "--doctree-dir", str(doctrees)]
    # One more than there are cores: Sphinx counts the process that hands out pages, too.
    command += ["--jobs", str(len(os.sched_getaffinity(0)) + 1)]
    # The order of sets must not vary, and Sphinx must find study.
    search_path = os.pathsep.join([str(ROOT / "lib"), os.environ.get("PYTHONPATH", "")])
    environment = {"PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": "0", "PYTHONPATH": search_path}
    done = subprocess.run(
        [*command, str(source), str(site)],
        env={**os.environ, **environment},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        # A worker's failure ends with a line of Sphinx's own code; what went wrong stands before.
        reasons = [
            line
            for line in lines
            if ("WARNING" in line or "ERROR" in line or "Error" in line)
            and not line.startswith("raise ")
        ]
        reason = (reasons or lines or ["no message"])[0].replace(f"{source}{os.sep}", "")
        raise ReportError(
            f"Sphinx refused to build the report: {reason}; correct that page's notebook or "
            "caption and build again"
        )


def _copy_files(inputs: Inputs, site: Path) -> None:
    """Copy the files of every artefact under their own names, so that links stay the same."""
    for item in inputs.artefacts:
        for suffix in SUFFIXES[item.kind]:
            copy = site / (item.files + suffix)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(item.path(suffix), copy)
