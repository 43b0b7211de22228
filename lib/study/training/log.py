"""Lines of progress and warnings while jobs run."""

import sys


def log_line(line: str) -> None:
    """Print a line to standard error, which executed notebooks don't store.

    Parameters
    ----------
    line : str
    """
    print(line, file=sys.stderr, flush=True)
