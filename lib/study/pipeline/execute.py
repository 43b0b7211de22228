"""Run notebooks from the repository root and keep a clean executed copy of each.

::

    python -m study.pipeline NOTEBOOK OUTPUT [-p name value]... [-s set results]...

A thin layer around papermill. It refuses parameters that the notebook does not have, and values
that do not fit the type of the default (papermill warns and goes on). It also makes the copy
reproducible (`study.pipeline.cleaning`): the same inputs give the same bytes. The copy keeps
stdout, which must not vary, and drops stderr, the place for progress with times.

With ``-s`` the notebook runs for several sets of results at once, and ``{set}`` in OUTPUT is the
name of each. What cells print is shown live, except with ``-s`` and in stages of DVC, where
progress and warnings are enough.

Paths count from the repository root, wherever the command is typed; ``~`` is the home folder.

Exit status: 0 done; 1 a cell failed, and what was executed is in ``OUTPUT`` with the suffix
``.failed.ipynb``; 2 the call itself was wrong and nothing ran; 130 interrupted. OUTPUT exists
only as a whole. When this process is killed, or the DVC that started it, its kernels end too.
"""

import argparse
import contextlib
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

import psutil

from study.paths import NOTEBOOKS, ROOT
from study.pipeline.files import write_whole
from study.pipeline.inputs import STAGE, InputsChanged, unchanged_inputs
from study.pipeline.notebooks import NotebookError, Scalar, convert, read_parameters, read_title
from study.pipeline.processes import set_environment, socket_folder, use_our_kernel

SET = "{set}"
"""Stands for the name of a set of results in the path of the executed copy."""

STAGES = "LTD_STAGES"
"""Environment variable with the names of all stages, if `study.pipeline.repro` runs them."""

KERNEL = "study.pipeline.kernel"
"""The module that our kernels run."""

_LABEL = re.compile(r"[\w-]+")
_POLL_SECONDS = 0.2
"""Interval between two looks at notebooks that are being ended."""
_KERNEL_START_SECONDS = 600
"""Long, because packages load slowly on a busy machine; a kernel that dies is noticed at once."""


class Run(NamedTuple):
    """A notebook to execute, where its copy goes, and what it is given."""

    notebook: Path
    output: Path
    parameters: dict[str, Scalar]


class RunError(RuntimeError):
    """A notebook was not executed to its end; `status` is the exit status to return."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def execute_all(
    runs: Sequence[Run],
    *,
    at_once: int,
    quiet: bool = False,
    after: Callable[[Run], None] = lambda run: None,
) -> int:
    """Execute notebooks, several at once, each in a kernel of its own.

    Parameters
    ----------
    runs
        The notebooks. The first that fails ends the others, and then no copy is kept.
    at_once
        How many run at the same time.
    quiet
        Whether what cells print to stdout is not shown.
    after
        Called with each run that is done, in a thread.

    Returns
    -------
    int
        The exit status.
    """
    set_environment()
    use_our_kernel()
    try:  # before there are threads, which share the filters of warnings
        for notebook in dict.fromkeys(run.notebook for run in runs):
            _check(notebook)
        error = _execute_in_threads(runs, at_once, quiet, after)
    except RunError as refusal:
        return tell(refusal, refusal.status)
    if error is None:
        return 0
    for run in runs:
        run.output.unlink(missing_ok=True)
    if not isinstance(error, RunError):
        raise error
    return tell(error, error.status)


def _execute_in_threads(
    runs: Sequence[Run], at_once: int, quiet: bool, after: Callable[[Run], None]
) -> BaseException | None:
    """Execute notebooks and return the first error, if any; then no kernel is left."""

    def execute(run: Run) -> None:
        _execute(run, quiet=quiet)
        after(run)

    error: BaseException | None = None
    with ThreadPoolExecutor(at_once) as pool:
        futures: set[Future] = {pool.submit(execute, run) for run in runs}
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            errors = [future.exception() for future in done if future.exception() is not None]
            error = errors[0] if errors else None
        except KeyboardInterrupt:  # it does not reach kernels, which have sessions of their own
            begun = [str(_failed(run.output)) for run in runs if _failed(run.output).exists()]
            error = RunError(f"interrupted; executed so far: {', '.join(begun) or 'nothing'}", 130)
        pool.shutdown(wait=False, cancel_futures=True)
        while not all(future.done() for future in futures):
            _kill_kernels()
            time.sleep(_POLL_SECONDS)
    return error


def _kill_kernels() -> None:
    """Kill the kernels that this process has started, and what they have started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process().children():
            if KERNEL in child.cmdline():
                for process in [child, *child.children(recursive=True)]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()


def _check(notebook: Path) -> None:
    """Raise a RunError if `notebook` is not a valid one."""
    import nbformat  # late: a wrong call is refused at once

    try:
        with warnings.catch_warnings(action="ignore"):  # cells without ids are still valid
            nbformat.validate(json.loads(notebook.read_text(encoding="utf-8")))
    except Exception as error:  # validate raises all sorts of errors on malformed files
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise RunError(
            f"{notebook} is not a valid notebook ({reason}); save it again from JupyterLab", 2
        ) from None


def _execute(run: Run, *, quiet: bool) -> None:
    """Execute a notebook and write its clean copy.

    If a cell fails, what was executed of the notebook stays beside the place of the copy.
    """
    # Imported late: a wrong call is refused at once.
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError
    from zmq import ZMQError

    from study.pipeline.cleaning import clean

    name = run.notebook.name
    failed = _failed(run.output)
    try:
        failed.parent.mkdir(parents=True, exist_ok=True)
        _papermill(run, failed, quiet=quiet)
        text = nbformat.writes(clean(nbformat.read(failed, as_version=4))) + "\n"
        write_whole(run.output, lambda partial: partial.write_text(text, encoding="utf-8"))
        failed.unlink()
    except papermill.PapermillExecutionError as error:
        print("\n".join(error.traceback), file=sys.stderr)
        raise RunError(
            f"a cell of {name} failed with {error.ename}; executed so far: {failed}"
        ) from None
    except DeadKernelError:
        raise RunError(
            f"the kernel of {name} died, perhaps for lack of memory; executed so far: {failed}"
        ) from None
    except (RuntimeError, ZMQError) as error:
        raise RunError(f"the kernel of {name} did not start ({error}); run again") from None
    except OSError as error:
        failed.unlink(missing_ok=True)
        raise RunError(
            f"cannot write {run.output} ({error}); nothing is left in its place"
        ) from None


def _papermill(run: Run, output: Path, *, quiet: bool) -> None:
    """Execute a notebook with papermill into `output`."""
    import papermill
    from papermill.engines import NBClientEngine, papermill_engines
    from traitlets.config import Config

    class SparingEngine(NBClientEngine):
        """Papermill's engine without its two saves per cell.

        Its autosave (every 30 s) and its save at the end remain.
        """

        @classmethod
        def execute_managed_notebook(cls, nb_man, kernel_name, **options):
            nb_man.cell_start = lambda *_, **__: nb_man.autosave_cell()
            nb_man.cell_complete = lambda *_, **__: nb_man.autosave_cell()
            super().execute_managed_notebook(nb_man, kernel_name, **options)

    papermill_engines.register("sparing", SparingEngine)
    with socket_folder() as folder:
        # Sockets are files, not ports: ports are chosen before the kernel binds them, and if
        # another process takes one first the kernel stays alive and never answers.
        transport = {"transport": "ipc", "ip": str(Path(folder, "kernel"))}
        papermill.execute_notebook(
            run.notebook,
            output,
            parameters=run.parameters,
            engine_name="sparing",
            kernel_name="python3",
            language="python",
            config=Config(KernelManager=transport),
            start_timeout=_KERNEL_START_SECONDS,
            # Killed, not asked to end: everything is written by then, and ending takes a fork
            # with these packages half a second.
            shutdown_kernel="immediate",
            progress_bar=False,
            stdout_file=None if quiet else sys.stdout,
            stderr_file=sys.stderr,
            # Otherwise every run warns of the unencrypted loopback and of being told to stop.
            extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
        )


def _failed(output: Path) -> Path:
    return output.with_suffix(".failed.ipynb")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the `notebook`, `output`, `parameters` and `sets` of a command line."""
    parser = argparse.ArgumentParser(prog="python -m study.pipeline", description=main.__doc__)
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
        help=f"run for these results, and put SET in place of {SET}; may be repeated",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run a notebook from the command line and return the exit status."""
    options = parse(arguments)
    os.chdir(ROOT)
    stage = os.environ.get(STAGE)
    begin = time.monotonic()
    try:
        by_set = planned(options)
    except NotebookError as error:
        return tell(error, 2)
    except (OSError, RuntimeError) as error:  # a name too long, a loop of links
        return tell(f"{error}; expected paths of files that can exist", 2)
    if stage:
        _announce(stage, options.notebook)
    quiet = bool(stage or options.sets)
    try:
        with unchanged_inputs():
            status = execute_all(list(by_set.values()), at_once=len(by_set), quiet=quiet)
    except InputsChanged as error:
        return tell(error, 1)
    if status == 0 and not stage:
        names = f" ({', '.join(by_set)})" if options.sets else ""
        tell(f"{options.notebook.name}{names} in {time.monotonic() - begin:.1f} s", 0)
    return status


def _announce(stage: str, notebook: Path) -> None:
    """Print that a stage begins, and the notebook's question, which is its title."""
    stages = os.environ.get(STAGES, "").split()
    number = f" ({stages.index(stage) + 1} of {len(stages)})" if stage in stages else ""
    # To stderr: `make repro` drops stdout, where DVC describes each of its steps.
    print(f"{time.strftime('%H:%M')} {stage}{number}: {read_title(notebook)}", file=sys.stderr)


def planned(options: argparse.Namespace) -> dict[str, Run]:
    """Return the runs that a command line asks for.

    Parameters
    ----------
    options
        What `parse` returns.

    Returns
    -------
    dict of str to Run
        Each run by its set of results; without sets one run, whose set is the empty string.

    Raises
    ------
    NotebookError
        There is no such notebook or parameter, a value does not fit, or an output is refused.
    """
    labels = [label for label, _ in options.sets]
    valid = all(_LABEL.fullmatch(label) for label in labels) and len(set(labels)) == len(labels)
    if labels and not (valid and SET in str(options.output)):
        raise NotebookError(
            f"sets of results are called {', '.join(labels)} and the output is {options.output}; "
            f"expected different names of letters, digits, '_' and '-', and {SET} in the output"
        )
    notebook = options.notebook.expanduser()
    runs = {}
    for label, results in options.sets or [("", None)]:
        given = [tuple(pair) for pair in options.parameters]
        if results is not None:
            given += [("results", results), ("result_set", label)]
        output = Path(str(options.output).replace(SET, label)).expanduser()
        _check_output(output, notebook)
        runs[label] = Run(notebook, output, _values(notebook, given))
    return runs


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


def tell(message: object, status: int) -> int:
    """Print `message` in one line to stderr, and return `status`."""
    print(f"study.pipeline: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
