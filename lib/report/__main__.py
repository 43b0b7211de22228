"""`python -m lib.report` builds the report from what the pipeline produced."""

import argparse
import sys

from lib.paths import DATA, ROOT, resolve
from lib.report.build import build
from lib.report.inputs import ReportError


def main(arguments: list[str] | None = None) -> int:
    """Build the report and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lib.report", description=__doc__)
    parser.add_argument(
        "--data",
        default=DATA,
        help="folder of executed/, tables/ and figures/ (default: data)",
    )
    parser.add_argument(
        "--out",
        default=DATA / "report",
        help="folder of the site (default: data/report)",
    )
    options = parser.parse_args(arguments)
    try:
        page = build(resolve(options.data), resolve(options.out))
    except ReportError as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    print(f"report: open {page.relative_to(ROOT) if page.is_relative_to(ROOT) else page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
