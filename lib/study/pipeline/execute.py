"""Run notebooks from the repository root and keep a clean executed copy of each.

::

    python -m study.pipeline NOTEBOOK OUTPUT [-p name value]... [-s set results]...

A thin layer around papermill. It refuses parameters that the notebook does not have or whose values do not fit
the type of the default (papermill warns and goes on), and makes the copy reproducible (`study.pipeline.cleaning`): the same
inputs give the same bytes. The copy keeps stdout, which must not vary, and drops stderr, the place for
progress with times.

With ``-s`` the notebook is run for several sets of results at once, and ``{set}`` in OUTPUT is the name of each. What cells
print is shown live, but for ``-s`` and stages of DVC, where progress and warnings are enough.

Exit status: 0 done; 1 a cell failed, and what was executed is in ``OUTPUT`` with the suffix ``.failed.ipynb``;
2 the call itself was wrong and nothing ran; 130 interrupted. OUTPUT exists only whole. When this process, or the DVC
that started it, is killed, the kernels go too (`study.pipeline.guard`).
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

from study.paths import NOTEBOOKS, ROOT
from study.pipeline import guard, warm
from study.pipeline.files import write_whole
from study.pipeline.inputs import InputsChanged, unchanged_inputs
from study.pipeline.notebooks import NotebookError, Scalar, convert, read_parameters, read_title

SET = "{set}"
"""What stands for the name of a set of results in the path of the executed copy."""

STAGES = "LTD_STAGES"
"""Environment variable with the names of all stages of the pipeline, where `study.pipeline.repro` runs it."""

_LABEL = re.compile(r"[\w-]+")
_POLL = 0.2
"""Seconds between two looks at notebooks that are being ended."""


class Run(NamedTuple):
    """A notebook to execute, where its copy goes, and what it is given."""

    notebook: Path
    output: Path
    parameters: dict[str, Scalar]


class RunError(RuntimeError):
    """A notebook was not executed to its end; the message says why, and `status` is the exit status."""

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
    """Execute `runs`, some at once, in kernels of this guarded process; `after` is told each that is done. Return the exit status.

    The first that fails ends the others, and then no copy is kept.
    """
    warm.set_environment()
    warm.use_kernels()
    try:  # before there are threads, which share what is asked of warnings
        for notebook in dict.fromkeys(run.notebook for run in runs):
            _check(notebook)
    except RunError as error:
        return tell(error, error.status)

    def execute(run: Run) -> None:
        _execute(run, quiet=quiet)
        after(run)

    error: BaseException | None = None
    with ThreadPoolExecutor(at_once) as pool:
        left = {pool.submit(execute, run) for run in runs}
        try:
            done, left = wait(left, return_when=FIRST_EXCEPTION)
            error = next(filter(None, (future.exception() for future in done)), None)
        except KeyboardInterrupt:  # it does not reach kernels, in sessions of their own
            begun = [str(path) for run in runs if (path := _failed(run.output)).exists()]
            error = RunError(f"interrupted; executed so far: {', '.join(begun) or 'nothing'}", 130)
        pool.shutdown(wait=False, cancel_futures=True)
        while left := {one for one in left if not one.done()}:  # `wait` misses the cancelled
            guard.end_marked(os.environ[guard.MARK])
            wait(left, timeout=_POLL)
    if error is None:
        return 0
    for run in runs:
        run.output.unlink(missing_ok=True)
    if not isinstance(error, RunError):
        raise error
    return tell(error, error.status)


def _check(notebook: Path) -> None:
    """Raise a RunError where `notebook` is none."""
    import nbformat  # late: a wrong call is refused at once

    try:
        with warnings.catch_warnings(action="ignore"):  # cells without ids are valid still
            nbformat.validate(json.loads(notebook.read_text(encoding="utf-8")))
    except Exception as error:  # of what is no notebook at all it raises anything
        wrong = f"{error}".partition("\n")[0] or type(error).__name__
        said = f"{notebook} is no valid notebook ({wrong}); save it again from JupyterLab"
        raise RunError(said, 2) from None


def _execute(run: Run, *, quiet: bool) -> None:
    """Execute a notebook and write its clean copy; where a cell fails, what was executed of it stays beside that."""
    # Imported late: a wrong call is refused at once, and the guard stands before anything can be orphaned.
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.engines import NBClientEngine, papermill_engines
    from traitlets.config import Config
    from zmq import ZMQError

    from study.pipeline.cleaning import clean

    class Sparing(NBClientEngine):
        """Papermill's own, which would write the whole notebook twice for each cell: it also does twice a minute, and at the end."""

        @classmethod
        def execute_managed_notebook(cls, kept, kernel_name, **more):
            kept.cell_start = kept.cell_complete = lambda *_, **__: kept.autosave_cell()
            super().execute_managed_notebook(kept, kernel_name, **more)

    papermill_engines.register("sparing", Sparing)
    name, failed = run.notebook.name, _failed(run.output)
    try:
        failed.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            # Files, not ports: these are chosen before the kernel binds them, and where another process takes that of iopub
            # first the kernel stays alive and never answers.
            files = {"transport": "ipc", "ip": str(Path(folder, "kernel"))}
            papermill.execute_notebook(
                run.notebook,
                failed,
                parameters=run.parameters,
                engine_name="sparing",
                kernel_name="python3",
                language="python",
                config=Config(KernelManager=files),
                start_timeout=600,  # s: on a busy machine its packages load for long, and one that died is noticed at once
                # Not asked to end but killed: all is written, and a fork with these packages takes half a second to end by itself.
                shutdown_kernel="immediate",
                progress_bar=False,
                stdout_file=None if quiet else sys.stdout,
                stderr_file=sys.stderr,
                # Without its notices, in every run, on the unencrypted loopback and on being told to stop.
                extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
            )
        text = nbformat.writes(clean(nbformat.read(failed, as_version=4))) + "\n"
        write_whole(run.output, lambda partial: partial.write_text(text, encoding="utf-8"))
        failed.unlink()
    except papermill.PapermillExecutionError as error:
        print("\n".join(error.traceback), file=sys.stderr)
        raise RunError(
            f"a cell of {name} failed with {error.ename}; executed so far: {failed}"
        ) from None
    except DeadKernelError:
        said = f"the kernel of {name} died, perhaps for want of memory; executed so far: {failed}"
        raise RunError(said) from None
    except (RuntimeError, ZMQError) as error:
        said = f"the kernel of {name} did not start ({error}); run again, with a shorter TMPDIR where a name is too long"
        raise RunError(said) from None
    except OSError as error:
        failed.unlink(missing_ok=True)
        raise RunError(
            f"cannot write {run.output} ({error}); nothing is left in its place"
        ) from None


def _failed(output: Path) -> Path:
    return output.with_suffix(".failed.ipynb")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return what the command line asks for: a `notebook`, its `output`, `parameters` and `sets`."""
    parser = argparse.ArgumentParser(prog="python -m study.pipeline", description=main.__doc__)
    parser.add_argument("notebook", type=Path, help="the notebook, from the repository root")
    parser.add_argument("output", type=Path, help="the executed copy, from the repository root")
    for name, metavar, what in (
        ("parameters", ("NAME", "VALUE"), "a parameter of the notebook; may be repeated"),
        ("sets", ("SET", "RESULTS"), f"run for these results, SET is {SET}; may be repeated"),
    ):
        pairs = {"nargs": 2, "action": "append", "default": [], "metavar": metavar}
        parser.add_argument(f"-{name[0]}", dest=name, help=what, **pairs)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Run a notebook from the command line and return the exit status."""
    options = parse(arguments)
    os.chdir(ROOT)
    quiet = "DVC_STAGE" in os.environ
    begin = time.monotonic()
    try:
        by_set = planned(options)
    except NotebookError as error:
        return tell(error, 2)
    except (OSError, RuntimeError) as error:  # a name too long, a loop of links
        return tell(f"{error}; expected paths of files that can be there", 2)
    if quiet:
        _announce(os.environ["DVC_STAGE"], options.notebook)
    try:
        with unchanged_inputs():
            status = execute_all(
                list(by_set.values()), at_once=len(by_set), quiet=quiet or bool(options.sets)
            )
    except InputsChanged as error:
        return tell(error, 1)
    if status == 0 and not quiet:
        names = f" ({', '.join(by_set)})" if options.sets else ""
        tell(f"{options.notebook.name}{names} in {time.monotonic() - begin:.1f} s", 0)
    return status


def _announce(stage: str, notebook: Path) -> None:
    """Tell when a stage begins, and the notebook's question, which is its title."""
    stages = os.environ.get(STAGES, "").split()
    of = f" ({stages.index(stage) + 1} of {len(stages)})" if stage in stages else ""
    print(f"{time.strftime('%H:%M')} {stage}{of}: {read_title(notebook)}", flush=True)


def planned(options: argparse.Namespace) -> dict[str, Run]:
    """Return each run that is asked for, by its set of results; a NotebookError says what is wrong with one."""
    labels = [label for label, _ in options.sets]
    named = all(map(_LABEL.fullmatch, labels)) and len(set(labels)) == len(labels)
    if labels and not (named and SET in str(options.output)):
        raise NotebookError(
            f"sets of results are called {', '.join(labels)} and the output is {options.output}; expected different names of "
            f"letters, digits, '_' and '-', and {SET} in the output, as there is one for each"
        )
    runs = {}
    for label, results in options.sets or [("", None)]:
        given = [] if results is None else [["results", results], ["result_set", label]]
        output = Path(str(options.output).replace(SET, label))
        inside = output.resolve().is_relative_to(NOTEBOOKS)
        if inside or output.resolve() == options.notebook.resolve() or output.suffix != ".ipynb":
            raise NotebookError(
                f"the output is {output}; expected an .ipynb file that is not a source, outside {NOTEBOOKS}"
            )
        defaults, values = read_parameters(options.notebook), {}
        for name, text in [*options.parameters, *given]:
            if name not in defaults:
                known = ", ".join(defaults) or "none"
                raise NotebookError(f"{options.notebook} has no parameter {name!r}; it has {known}")
            if name in values:
                raise NotebookError(f"parameter {name} is given twice; give it once")
            values[name] = convert(name, text, defaults[name])
        runs[label] = Run(options.notebook, output, values)
    return runs


def tell(what: object, status: int) -> int:
    """Say `what` in one sentence, and return `status`."""
    print(f"study.pipeline: {what}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
