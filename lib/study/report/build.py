"""Run Sphinx in a temporary folder and replace the old site by the finished one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from study.paths import ROOT
from study.report.contents import SUFFIXES, Inputs, ReportError
from study.report.coverage import count_coverage, summarize_coverage
from study.report.inputs import load_inputs
from study.report.pages import write_pages
from study.report.verdicts import judge_claims
from study.results.published import artifacts

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
    shutil.rmtree(work, ignore_errors=True)  # left by a build that was killed
    try:
        site = _build_site(inputs, work)
        if out.exists():  # moved as a whole, so that no half of it stays if removing it fails
            out.rename(work / "old")
        site.rename(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return out / "index.html"


def _build_site(inputs: Inputs, work: Path) -> Path:
    """Build the site in a temporary folder and return the site's own folder."""
    source = work / "source"
    site = work / "site"
    extra = work / "extra"  # files that the site gets as they are
    listed = artifacts()
    judged = judge_claims(inputs.artifacts)
    coverage = count_coverage(inputs.artifacts, listed)
    write_pages(inputs, judged, summarize_coverage(coverage, listed), source, extra, _warn)
    pages = sum(1 for page in source.rglob("*.md"))
    _report_progress(
        f"{len(inputs.notebooks)} notebooks, {len(inputs.artifacts)} figures and tables; "
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
    return site


def _report_progress(sentence: str) -> None:
    print(f"report: {sentence}", file=sys.stderr, flush=True)


def _warn(sentence: str) -> None:
    """Tell the builder about one output or link that the site does not show."""
    _report_progress(f"warning: {sentence}")


def _run_sphinx(source: Path, site: Path, doctrees: Path) -> None:
    """Run Sphinx in a separate process, because Sphinx and docutils keep global state.

    Raises
    ------
    ReportError
        Sphinx warned or failed; the message has its first reason.
    """
    command = [sys.executable, "-m", "sphinx", "--builder", "html", "--quiet", "--no-color"]
    command += ["--fail-on-warning", "--conf-dir", str(HERE), "--doctree-dir", str(doctrees)]
    # One more than there are cores, because Sphinx also counts the process that hands out pages.
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
        reason = _first_reason(lines).replace(f"{source}{os.sep}", "")
        raise ReportError(
            f"Sphinx refused to build the report: {reason}; correct that page's notebook or "
            "caption and build again"
        )


def _first_reason(lines: list[str]) -> str:
    """Return the first line of Sphinx's output that says what went wrong."""
    for line in lines:
        if line.startswith("raise "):  # a line of Sphinx's own code in a traceback
            continue
        if "WARNING" in line or "ERROR" in line or "Error" in line:
            return line
    if lines:
        return lines[0]
    return "no message"


def _copy_files(inputs: Inputs, site: Path) -> None:
    """Copy the files of every artifact under their own names, so that links stay the same."""
    for item in inputs.artifacts:
        for suffix in SUFFIXES[item.kind]:
            copy = site / (item.files + suffix)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(item.path(suffix), copy)
