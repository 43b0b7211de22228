"""The command that runs notebooks from the repository root and keeps an executed copy of each.

::

    python -m study.pipeline NOTEBOOK OUTPUT [-p name value]... [-s set results]...

This is a thin layer around papermill (`study.pipeline.runs`). It refuses parameters that the
notebook does not have, and values that do not fit the type of the default. Papermill would only
warn.

With ``-s`` the notebook runs for several sets of results at the same time, and ``{set}`` in OUTPUT
stands for the name of each. Stdout of cells is shown while they run, except with ``-s`` and in
stages of DVC, which only show progress and warnings.

Paths are relative to the repository root, wherever the command is typed; ``~`` is the home folder.

The exit status is 0 if the run is done, 1 if a cell failed, 2 if the command was invalid and
nothing ran, and 130 after an interrupt. If a cell failed, the cells executed so far are in
``OUTPUT`` with the suffix ``.failed.ipynb``. OUTPUT is written completely or not at all. If a run
fails, an earlier OUTPUT stays. The report ignores it as long as there is a failed copy next to it,
and DVC runs the stage again.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from study.paths import NOTEBOOKS, ROOT
from study.pipeline.inputs import STAGE, InputsChanged, unchanged_inputs
from study.pipeline.notebooks import NotebookError, Scalar, convert, read_parameters, read_title
from study.pipeline.runs import Run, execute_all, report_status

SET = "{set}"
"""Stands for the name of a set of results in the path of the executed copy."""
STAGES = "LTD_STAGES"
"""Environment variable with the names of all stages, if `study.pipeline.repro` runs them."""
_LABEL = re.compile(r"[\w-]+")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line.

    Parameters
    ----------
    arguments
        Without the name of the program.

    Returns
    -------
    argparse.Namespace
        ``notebook``, ``output``, ``parameters`` and ``sets``.
    """
    parser = argparse.ArgumentParser(
        prog="python -m study.pipeline", description="Run a notebook from the command line."
    )
    parser.add_argument("notebook", type=Path, help="the notebook, from the repository root")
    parser.add_argument("output", type=Path, help="the executed copy, from the repository root")
    parser.add_argument(
        "-p",
        dest="parameters",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="a parameter of the notebook; may be repeated",
    )
    parser.add_argument(
        "-s",
        dest="sets",
        nargs=2,
        action="append",
        default=[],
        metavar=("SET", "RESULTS"),
        help=f"run for these results, and replace {SET} by SET; may be repeated",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run a notebook from the command line.

    Parameters
    ----------
    arguments
        Arguments of the command line.

    Returns
    -------
    int
        Exit status: 0, 1 if the run failed, 2 if the command is wrong, 130 if it was interrupted.
    """
    options = parse(arguments)
    os.chdir(ROOT)
    stage = os.environ.get(STAGE)
    start = time.monotonic()
    try:
        by_set = plan_runs(options)
    except NotebookError as error:
        return report_status(error, 2)
    except (OSError, RuntimeError) as error:  # a name too long, a loop of links
        return report_status(f"{error}; expected paths of files that can exist", 2)
    if stage:
        _announce(stage, options.notebook)
    quiet = bool(stage or options.sets)
    try:
        with unchanged_inputs():
            status = execute_all(list(by_set.values()), at_once=len(by_set), quiet=quiet)
    except InputsChanged as error:
        return report_status(error, 1)
    if status == 0 and not stage:
        name = options.notebook.name
        if options.sets:
            name += f" ({', '.join(by_set)})"
        report_status(f"{name} in {time.monotonic() - start:.1f} s", 0)
    return status


def _announce(stage: str, notebook: Path) -> None:
    """Print the time, the name of the stage and the title of its notebook."""
    stages = os.environ.get(STAGES, "").split()
    name = stage
    if stage in stages:
        name += f" ({stages.index(stage) + 1} of {len(stages)})"
    # To stderr, because `make repro` hides stdout, on which DVC describes each of its steps.
    print(f"{time.strftime('%H:%M')} {name}: {read_title(notebook)}", file=sys.stderr)


def plan_runs(options: argparse.Namespace) -> dict[str, Run]:
    """Return the runs that a command line requests.

    Parameters
    ----------
    options
        Result of `parse`.

    Returns
    -------
    dict of str to Run
        Each run by the name of its set of results. Without sets there is one run, whose name is
        empty.

    Raises
    ------
    NotebookError
        The notebook does not exist or lacks a parameter, a value does not fit, or an output is
        refused.
    """
    if options.sets:
        _check_sets([label for label, _ in options.sets], options.output)
    notebook = options.notebook.expanduser()
    if not notebook.is_file():
        raise NotebookError(
            f"no notebook at {notebook.absolute()}; "
            "expected its path from the repository root, such as notebooks/10_train.ipynb"
        )
    runs = {}
    for label, results in options.sets or [("", None)]:
        given = [tuple(pair) for pair in options.parameters]
        if results is not None:
            given += [("results", results), ("result_set", label)]
        output = Path(str(options.output).replace(SET, label)).expanduser()
        _check_output(output, notebook)
        runs[label] = Run(notebook, output, _values(notebook, given))
    return runs


def _check_sets(labels: Sequence[str], output: Path) -> None:
    """Raise a NotebookError if sets of results can't have these names and this output."""
    are_names = all(_LABEL.fullmatch(label) for label in labels)
    are_different = len(set(labels)) == len(labels)
    if not (are_names and are_different and SET in str(output)):
        raise NotebookError(
            f"sets of results are called {', '.join(labels)} and the output is {output}; "
            f"expected different names of letters, digits, '_' and '-', and {SET} in the output"
        )


def _check_output(output: Path, notebook: Path) -> None:
    """Raise a NotebookError if a run must not write to `output`."""
    is_source = output.resolve() == notebook.resolve()
    if is_source or output.resolve().is_relative_to(NOTEBOOKS) or output.suffix != ".ipynb":
        raise NotebookError(
            f"the output is {output}; expected an .ipynb file that is not a source, outside "
            f"{NOTEBOOKS}"
        )


def _values(notebook: Path, given: Sequence[tuple[str, str]]) -> dict[str, Scalar]:
    """Return the given parameters with the types of the notebook's defaults."""
    defaults = read_parameters(notebook)
    values: dict[str, Scalar] = {}
    for name, text in given:
        if name not in defaults:
            known = ", ".join(defaults) or "none"
            raise NotebookError(f"{notebook} has no parameter {name!r}; it has {known}")
        if name in values:
            raise NotebookError(f"parameter {name} is given twice; give it once")
        values[name] = convert(name, text, defaults[name])
    return values


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
