"""`python -m study.report` builds the report from what the pipeline produced."""

import argparse
import json
import sys
from pathlib import Path

import pandas as pd

from study.paths import DATA, ROOT, resolve
from study.pipeline.inputs import InputsChanged, unchanged_inputs
from study.report.build import build
from study.report.contents import ReportError
from study.report.tally import counts_in_words


def main(arguments: list[str] | None = None) -> int:
    """Build the report.

    Parameters
    ----------
    arguments
        Arguments of the command line; those of this process if None.

    Returns
    -------
    int
        Exit status: 0, or 1 after an error, which is printed to stderr.
    """
    parser = argparse.ArgumentParser(prog="python -m study.report", description=__doc__)
    parser.add_argument("--data", default=DATA, help="folder of executed/ and made/ (data)")
    parser.add_argument("--out", default=DATA / "report", help="folder of the site (data/report)")
    options = parser.parse_args(arguments)
    try:
        with unchanged_inputs():
            page = build(resolve(options.data), resolve(options.out))
            counts = write_metrics(page.with_name("files"))
    except (ReportError, InputsChanged, OSError) as error:  # such as a full disk
        print(f"report: {error}", file=sys.stderr)
        return 1
    print(f"report: {counts.sum()} claims of the papers: {counts_in_words(counts)}")
    if page.is_relative_to(ROOT):
        page = page.relative_to(ROOT)
    print(f"report: open {page}")
    return 0


def write_metrics(files: Path) -> pd.Series:
    """Write ``metrics.json``, which `dvc metrics show` prints: verdicts before and after Holm.

    Parameters
    ----------
    files
        Folder of the report's files, with ``claims.csv``.

    Returns
    -------
    pandas.Series
        Number of claims by verdict, before Holm's correction.
    """
    claims = pd.read_csv(files / "claims.csv")
    counts = claims["counted"].value_counts()
    corrected = claims["corrected"].value_counts()
    metrics = {"claims": counts.to_dict(), "claims after Holm": corrected.to_dict()}
    (files / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n", encoding="utf-8")
    return counts


if __name__ == "__main__":
    sys.exit(main())
