"""Analyze the stored results and build a report of them, without training.

`python -m study.report.look` writes to ``data/look``. It runs every stage of ``dvc.yaml`` that
analyzes a stored reference, and those that need no results, such as the tests of a theory. If an
experiment has several sets of results, only those that ``dvc.yaml`` calls by a name in `SHOWN` are
shown; `make repro` shows all.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

from dvc.exceptions import DvcException

from study.paths import REFERENCE, ROOT
from study.pipeline import fork_server
from study.pipeline.execute import parse, plan_runs
from study.pipeline.runs import Run, execute_all

LOOK = Path("data/look")
SHOWN = ("reference", "rates")
"""Names of the sets of stored results that judge claims."""
KEPT = f"-s reference {REFERENCE.relative_to(ROOT).as_posix()}"
NO_RESULTS = ("show", "show_data")
"""Groups of stages of ``dvc.yaml`` that need no results; the second needs prepared data."""
PREPARED = LOOK / "prepared"
_PROFILE = "quick"
"""The profile whose data need no download."""


def read_commands() -> dict[str, str]:
    """Read the commands of the stages in ``dvc.yaml``.

    Returns
    -------
    dict of str to str
        Each command by the name of its stage.
    """
    from dvc.repo import Repo  # late: importing it imports the kernels' packages as well

    with Repo(ROOT) as repo:
        return {stage.name: stage.cmd for stage in repo.index.stages}


def stored(commands: Mapping[str, str]) -> Iterator[Run]:
    """Yield the analyses of stored results.

    Parameters
    ----------
    commands : mapping of str to str
        As from `read_commands`.

    Yields
    ------
    Run
        A notebook with its parameters; its output goes to `LOOK`.
    """
    for command in commands.values():
        if KEPT in command:
            yield from _plan(command)


def without_results(commands: Mapping[str, str]) -> Iterator[Run]:
    """Yield the notebooks that need no results of training.

    Parameters
    ----------
    commands : mapping of str to str
        As from `read_commands`.

    Yields
    ------
    Run
        A notebook with its parameters; its output goes to `LOOK`, and it reads `PREPARED`.
    """
    for name, command in commands.items():
        group = name.partition("@")[0]
        if group in NO_RESULTS:
            yield from _plan(command)


def _plan(command: str) -> Iterator[Run]:
    """Yield the runs of a stage; if it has several sets of results, one for each that is shown."""
    options = parse(shlex.split(command)[3:])  # python -m study.pipeline
    options.sets = [pair for pair in options.sets if pair[0] in SHOWN]
    parameters = dict(options.parameters)
    parameters["out"] = str(LOOK)
    if "prepared" in parameters:
        parameters["prepared"] = str(PREPARED)
        parameters["profile"] = _PROFILE
    options.parameters = list(parameters.items())
    options.output = LOOK / options.output.relative_to("data")
    yield from plan_runs(options).values()


def _plan_notebook(name: str, **parameters: str) -> list[Run]:
    """Return the run of a notebook with these parameters; its copy goes to `LOOK`."""
    arguments = [f"notebooks/{name}.ipynb", str(LOOK / f"executed/{name}.ipynb")]
    for parameter, value in parameters.items():
        arguments += ["-p", parameter, value]
    return list(plan_runs(parse(arguments)).values())


def main() -> int:
    """Run the notebooks and build the report of them.

    Returns
    -------
    int
        Exit status: 0, or 1 after an error, which is printed to stderr.
    """
    os.chdir(ROOT)
    with fork_server.serving():
        try:
            commands = read_commands()
            runs = [*without_results(commands), *stored(commands)]
        except DvcException as error:  # such as a folder without Git
            print(f"look: {error}; clone the repository anew", file=sys.stderr)
            return 1
        shutil.rmtree(LOOK / "made", ignore_errors=True)  # of notebooks that may be gone
        numbers = count(1)

        def show_progress(run: Run) -> None:
            print(f"{next(numbers)} of {len(runs)} notebooks: {run.output.stem}", flush=True)

        # One more than there are cores: each waits for its kernel now and then.
        at_once = len(os.sched_getaffinity(0)) + 1
        prepare = _plan_notebook("00_prepare_data", profile=_PROFILE, out=str(PREPARED))
        status = execute_all(prepare, at_once=1, quiet=True)
        if not status:
            status = execute_all(runs, at_once=at_once, quiet=True, after=show_progress)
        if not status:
            coverage = _plan_notebook(
                "90_coverage", data_dir=str(LOOK), out=str(LOOK / "coverage.csv")
            )
            status = execute_all(coverage, at_once=1, quiet=True)
        if not status:
            report = str(LOOK / "report")
            status = fork_server.run(["study.report", "--data", str(LOOK), "--out", report])
        return status


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(f"study.report.look takes no arguments, got {sys.argv[1:]}")
    sys.exit(main())
