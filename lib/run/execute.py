"""Run one notebook from the repository root and keep a clean executed copy.

::

    python -m lib.run NOTEBOOK OUTPUT [-p name value]...

A thin layer around papermill. It refuses parameters that the notebook does not have or whose values do not fit
the type of the default (papermill warns and goes on), and makes the copy reproducible (`lib.run.cleaning`): the same
inputs give the same bytes. Everything printed is shown live; the copy keeps stdout, which must not vary, and drops
stderr, the place for progress with times.

Exit status: 0 done; 1 a cell failed, and what was executed is in ``OUTPUT`` with the suffix ``.failed.ipynb``;
2 the call itself was wrong and nothing ran; 130 interrupted. OUTPUT exists only whole. When this process, or the DVC
that started it, is killed, the kernel goes too (`lib.run.guard`).
"""

import argparse
import contextlib
import os
import sys
import time
from pathlib import Path

from lib.paths import ROOT
from lib.run import guard
from lib.run.notebooks import NotebookError, Scalar, convert, read_parameters


def check_parameters(notebook: Path, given: list[tuple[str, str]]) -> dict[str, Scalar]:
    """Return the parameters `given` as text, converted to the types of the notebook's defaults.

    Raises
    ------
    NotebookError
        A parameter is unknown, is given twice or has a value that does not fit.
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


def run_notebook(notebook: Path, output: Path, parameters: dict[str, Scalar]) -> None:
    """Execute `notebook` with `parameters` and write its clean copy to `output`.

    Raises
    ------
    papermill.PapermillExecutionError
        A cell failed; the cells up to it are in ``output`` with the suffix ``.failed.ipynb``.
    """
    # Imported late: a wrong call is refused at once, and the guard stands before anything can be orphaned.
    import papermill

    output.parent.mkdir(parents=True, exist_ok=True)
    failed = output.with_suffix(".failed.ipynb")
    partial = output.with_name(f".{output.stem}.partial.ipynb")
    failed.unlink(missing_ok=True)
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
                stdout_file=sys.stdout,
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


def _write_clean(executed: Path, target: Path) -> None:
    import nbformat

    from lib.run.cleaning import clean

    text = nbformat.writes(clean(nbformat.read(executed, as_version=4)))
    executed.write_text(text + "\n", encoding="utf-8")
    executed.replace(target)


def main(arguments: list[str] | None = None) -> int:
    """Run a notebook from the command line and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m lib.run", description="Run one notebook and keep a clean executed copy."
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
    options = parser.parse_args(arguments)
    notebook, output = options.notebook, options.output
    os.chdir(ROOT)
    try:
        if output == notebook or output.suffix != ".ipynb":
            raise NotebookError(
                f"the output is {output}; expected another .ipynb file than the notebook"
            )
        parameters = check_parameters(notebook, options.parameters)
        guard.start(guard.pipeline_ancestors())
    except (NotebookError, ProcessLookupError) as error:
        return _tell(error, 2)
    return _execute(notebook, output, parameters)


def _execute(notebook: Path, output: Path, parameters: dict[str, Scalar]) -> int:
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    # Sets of strings print in one order.
    os.environ.setdefault("PYTHONHASHSEED", "0")
    failed = f"executed so far: {output.with_suffix('.failed.ipynb')}"
    begin = time.monotonic()
    try:
        run_notebook(notebook, output, parameters)
    except PapermillExecutionError as error:
        print("\n".join(error.traceback), file=sys.stderr)
        return _tell(f"a cell of {notebook.name} failed with {error.ename}; {failed}", 1)
    except DeadKernelError:
        return _tell(f"the kernel of {notebook.name} died, perhaps for want of memory; {failed}", 1)
    except OSError as error:
        return _tell(f"cannot write {output} ({error}); nothing was left in its place", 1)
    except KeyboardInterrupt:
        return _tell(f"{notebook.name} was interrupted; {failed}", 130)
    print(f"lib.run: {notebook.name} in {time.monotonic() - begin:.1f} s", file=sys.stderr)
    return 0


def _tell(what: object, status: int) -> int:
    print(f"lib.run: {what}", file=sys.stderr)
    return status
