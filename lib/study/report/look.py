"""Analyze the stored results and build a report of them, without training.

`python -m study.report.look` writes to ``data/look``. It runs every stage of ``dvc.yaml`` that
analyzes a stored reference, several at a time. Of two stored runs of one experiment it shows the
weightier one, which ``dvc.yaml`` calls `SHOWN`; `make repro` shows both.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from dvc.exceptions import DvcException

from study.paths import REFERENCE, ROOT
from study.pipeline import warm
from study.pipeline.execute import parse, plan_runs
from study.pipeline.runs import Run, execute_all

LOOK = Path("data/look")
SHOWN = "reference"
KEPT = f"-s {SHOWN} {REFERENCE.relative_to(ROOT).as_posix()}"


def stored() -> Iterator[Run]:
    """Yield the analyses of stored results, as ``dvc.yaml`` lists them.

    Yields
    ------
    Run
        A notebook with its parameters; its output goes to `LOOK`.
    """
    from dvc.repo import Repo  # late: importing it imports the kernels' packages as well

    with Repo(ROOT) as repo:
        commands = [stage.cmd for stage in repo.index.stages]
    for command in commands:
        if KEPT in command:
            options = parse(shlex.split(command)[3:])  # python -m study.pipeline
            options.sets = [pair for pair in options.sets if pair[0] == SHOWN]
            parameters = dict(options.parameters)
            parameters["out"] = str(LOOK)
            options.parameters = list(parameters.items())
            options.output = LOOK / options.output.relative_to("data")
            yield from plan_runs(options).values()


def main() -> int:
    """Run the notebooks and build the report of them.

    Returns
    -------
    int
        Exit status: 0, or 1 after an error, which is printed to stderr.
    """
    os.chdir(ROOT)
    coverage = [
        *("notebooks/90_coverage.ipynb", str(LOOK / "executed/90_coverage.ipynb")),
        *("-p", "data_dir", str(LOOK), "-p", "out", str(LOOK / "coverage.csv")),
    ]
    with warm.serving():
        try:
            runs = list(stored())
        except DvcException as error:  # such as a folder without Git
            print(f"look: {error}; clone the repository anew", file=sys.stderr)
            return 1
        shutil.rmtree(LOOK / "made", ignore_errors=True)  # of notebooks that may be gone
        numbers = count(1)

        def show_progress(run: Run) -> None:
            print(f"{next(numbers)} of {len(runs)} notebooks: {run.output.stem}", flush=True)

        # One more than there are cores: each waits for its kernel now and then.
        at_once = len(os.sched_getaffinity(0)) + 1
        status = execute_all(runs, at_once=at_once, quiet=True, after=show_progress)
        if not status:
            status = execute_all([*plan_runs(parse(coverage)).values()], at_once=1, quiet=True)
        if not status:
            report = str(LOOK / "report")
            status = warm.run(["study.report", "--data", str(LOOK), "--out", report])
        return status


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(f"study.report.look takes no arguments, got {sys.argv[1:]}")
    sys.exit(main())
