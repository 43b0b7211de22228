"""Run one notebook from the repository root and keep a clean executed copy.

::

    python -m lib.run NOTEBOOK OUTPUT [-p name value]... [-s set results]... [-q]

A thin layer around papermill. It refuses parameters that the notebook does not have or whose values do not fit
the type of the default (papermill warns and goes on), and makes the copy reproducible (`lib.run.cleaning`): the same
inputs give the same bytes. The copy keeps stdout, which must not vary, and drops stderr, the place for
progress with times.

With ``-s`` the notebook is run for several sets of results at once, and ``{set}`` in OUTPUT is the name of each. What cells
print is shown live, but for ``-q``, ``-s``, and stages of DVC, where progress and warnings are enough.

Exit status: 0 done; 1 a cell failed, and what was executed is in ``OUTPUT`` with the suffix ``.failed.ipynb``;
2 the call itself was wrong and nothing ran; 130 interrupted. OUTPUT exists only whole. When this process, or the DVC
that started it, is killed, the kernel goes too (`lib.run.guard`).
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import psutil

from lib.paths import NOTEBOOKS, ROOT
from lib.run import guard
from lib.run.notebooks import NotebookError, Scalar, as_text, convert, read_parameters

SET = "{set}"
"""What stands for the name of a set of results in the path of the executed copy."""

_LABEL = re.compile(r"[\w-]+")
_POLL, _PARTING = 0.05, 2.0
"""Seconds between two looks at the processes, and for them to write down what they have done."""


def check_parameters(notebook: Path, given: list[tuple[str, str]]) -> dict[str, Scalar]:
    """Return the parameters `given` as text, converted to the types of the notebook's defaults.

    A NotebookError says which one is unknown, is given twice or has a value that does not fit.
    """
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


def run_notebook(
    notebook: Path, output: Path, parameters: dict[str, Scalar], *, quiet: bool = False
) -> None:
    """Execute `notebook` with `parameters` and write its clean copy to `output`.

    Where a cell fails (papermill.PapermillExecutionError), the cells up to it are in ``output`` with the suffix
    ``.failed.ipynb``.
    """
    # Imported late: a wrong call is refused at once, and the guard stands before anything can be orphaned.
    import papermill

    output.parent.mkdir(parents=True, exist_ok=True)
    failed = output.with_suffix(".failed.ipynb")
    partial = output.with_name(f".{output.stem}.partial{os.getpid()}.ipynb")
    failed.unlink(missing_ok=True)
    # of runs that were killed
    for left in output.parent.glob(f".{output.stem}.partial[0-9]*.ipynb"):
        if not psutil.pid_exists(int(left.stem.rpartition("partial")[2])):
            left.unlink(missing_ok=True)
    try:
        try:
            papermill.execute_notebook(
                notebook,
                partial,
                parameters=parameters,
                kernel_name="python3",
                language="python",
                cwd=ROOT,
                progress_bar=False,
                stdout_file=None if quiet else sys.stdout,
                stderr_file=sys.stderr,
                # Without its notices, in every run, on the unencrypted loopback and on being told to stop.
                extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
            )
        except BaseException:
            # On a full disk there may be nothing readable to keep, and the first error is the one to tell.
            with contextlib.suppress(OSError, ValueError):
                _write_clean(partial, failed)
            raise
        _write_clean(partial, output)
    finally:
        partial.unlink(missing_ok=True)


def _invalid(notebook: Path) -> str:
    """Return in a few words why the notebook does not follow its format, or nothing."""
    import nbformat

    try:
        with warnings.catch_warnings(action="ignore"):  # cells without ids are valid still
            nbformat.validate(json.loads(notebook.read_text(encoding="utf-8")))
    except (
        nbformat.ValidationError,
        LookupError,
        TypeError,
        AttributeError,
        AssertionError,
    ) as error:
        return str(error).partition("\n")[0] or type(error).__name__
    return ""


def _write_clean(executed: Path, target: Path) -> None:
    import nbformat

    from lib.run.cleaning import clean

    text = nbformat.writes(clean(nbformat.read(executed, as_version=4)))
    executed.write_text(text + "\n", encoding="utf-8")
    executed.replace(target)


def main(arguments: list[str]) -> int:
    """Run a notebook from the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lib.run", description=main.__doc__)
    parser.add_argument("notebook", type=Path, help="the notebook, from the repository root")
    parser.add_argument("output", type=Path, help="the executed copy, from the repository root")
    for flag, name, metavar, what in (
        ("-p", "parameters", ("NAME", "VALUE"), "a parameter of the notebook; may be repeated"),
        ("-s", "sets", ("SET", "RESULTS"), f"run for these results, SET is {SET}; may be repeated"),
    ):
        parser.add_argument(
            flag, dest=name, nargs=2, action="append", default=[], metavar=metavar, help=what
        )
    parser.add_argument("-q", dest="quiet", action="store_true", help="hide what the cells print")
    options = parser.parse_args(arguments)
    os.chdir(ROOT)
    try:
        runs = _runs(options)
        guard.start(guard.pipeline_ancestors())
    except (NotebookError, ProcessLookupError) as error:
        return _tell(error, 2)
    except (OSError, RuntimeError) as error:  # a name too long, a loop of links
        return _tell(f"{error}; expected paths of files that can be there", 2)
    # Sets of strings print in one order.
    os.environ.setdefault("PYTHONHASHSEED", "0")
    # A widget for progress, which a notebook that nobody watches has no use for.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:IProgress not found")
    quiet = options.quiet or "DVC_STAGE" in os.environ
    begin = time.monotonic()
    if options.sets:
        status = _at_once(options.notebook, runs)
    else:
        [(output, parameters)] = runs.values()
        status = _execute(options.notebook, output, parameters, quiet=quiet)
    if status == 0 and not quiet:
        names = f" ({', '.join(runs)})" if options.sets else ""
        _tell(f"{options.notebook.name}{names} in {time.monotonic() - begin:.1f} s", 0)
    return status


def _runs(options: argparse.Namespace) -> dict[str, tuple[Path, dict[str, Scalar]]]:
    """Return output and parameters of each run that is asked for, by its set of results."""
    runs = {}
    for label, results in options.sets or [("", None)]:
        given = [] if results is None else [["results", results], ["result_set", label]]
        if given and SET not in str(options.output):
            raise NotebookError(
                f"the output is {options.output}; expected {SET} in it, as there is one for each set"
            )
        if given and not _LABEL.fullmatch(label):
            raise NotebookError(
                f"a set of results is called {label!r}; expected letters, digits, '_' and '-'"
            )
        if given and not results:
            raise NotebookError(f"the set {label} names no results; expected the path of a dataset")
        if label in runs:
            raise NotebookError(f"the set of results {label} is given twice; give it once")
        output = Path(str(options.output).replace(SET, label))
        inside = output.resolve().is_relative_to(NOTEBOOKS)
        if inside or output.resolve() == options.notebook.resolve() or output.suffix != ".ipynb":
            raise NotebookError(
                f"the output is {output}; expected an .ipynb file that is not a source, outside {NOTEBOOKS}"
            )
        runs[label] = output, check_parameters(options.notebook, [*options.parameters, *given])
    return runs


def _at_once(notebook: Path, runs: dict[str, tuple[Path, dict[str, Scalar]]]) -> int:
    """Run a notebook for all sets of results at once, each in a process with one thread; all of them succeed or none."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    processes = []
    for output, parameters in runs.values():
        given = [
            text for name, value in parameters.items() for text in ("-p", name, as_text(value))
        ]
        command = [sys.executable, "-m", "lib.run", str(notebook), str(output), "-q", *given]
        processes.append(subprocess.Popen(command))
    try:
        while not any(process.poll() for process in processes):  # the first that failed ends all
            if all(process.poll() == 0 for process in processes):
                return 0
            time.sleep(_POLL)
        status = next(process.returncode for process in processes if process.poll())
    except KeyboardInterrupt:  # which a terminal has sent to all of them
        status = 130
        time.sleep(_PARTING)
    for process in processes:
        process.terminate()
        process.wait()
    for output, _ in runs.values():
        output.unlink(missing_ok=True)
    return status


def _execute(
    notebook: Path, output: Path, parameters: dict[str, Scalar], *, quiet: bool = False
) -> int:
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    if wrong := _invalid(notebook):
        return _tell(f"{notebook} is no valid notebook ({wrong}); save it again from JupyterLab", 2)
    failed = f"executed so far: {output.with_suffix('.failed.ipynb')}"
    try:
        run_notebook(notebook, output, parameters, quiet=quiet)
    except PapermillExecutionError as error:
        print("\n".join(error.traceback), file=sys.stderr)
        return _tell(f"a cell of {notebook.name} failed with {error.ename}; {failed}", 1)
    except DeadKernelError:
        return _tell(f"the kernel of {notebook.name} died, perhaps for want of memory; {failed}", 1)
    except OSError as error:
        return _tell(f"cannot write {output} ({error}); nothing was left in its place", 1)
    except KeyboardInterrupt:
        return _tell(f"{notebook.name} was interrupted; {failed}", 130)
    return 0


def _tell(what: object, status: int) -> int:
    print(f"lib.run: {what}", file=sys.stderr)
    return status
