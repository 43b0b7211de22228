"""Execute notebooks with papermill, several at once, and keep a clean copy of each.

The same inputs give the same bytes (`study.pipeline.cleaning`). The copy contains stdout, which
must not vary, but not stderr, which is for progress and times. If this process is killed, or the
DVC that started it, the kernels end as well.
"""

import contextlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

import psutil

from study.pipeline.files import write_text
from study.pipeline.instructions import InstructionError
from study.pipeline.notebooks import Scalar
from study.pipeline.processes import set_environment, socket_folder, use_our_kernel

KERNEL = "study.pipeline.kernel"
"""The module that our kernels run."""
_ENGINE = "sparing"
"""Name under which papermill knows our engine."""
_POLL_SECONDS = 0.2
"""Time between two attempts to kill the kernels of an interrupted run."""
_KERNEL_START_SECONDS = 600
"""Time limit for a kernel to start.

It is long, because packages load slowly on a busy machine. A kernel that dies is noticed at once.
"""


class Run(NamedTuple):
    """A notebook to execute, the path of its executed copy, and the values of its parameters."""

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
        The notebooks. If one fails, the others are killed. If a notebook is not executed to its
        end, its earlier copy stays, and the `failed_copy` next to it shows that it is out of date.
    at_once
        Number of notebooks that run at the same time.
    quiet
        Whether to hide the stdout of cells.
    after
        Called in a thread with each finished run.

    Returns
    -------
    int
        The exit status.
    """
    try:
        set_environment()
    except InstructionError as refusal:
        return report_status(refusal, 2)
    use_our_kernel()
    try:
        # Checked before threads start, because threads share the filters of warnings.
        for notebook in dict.fromkeys(run.notebook for run in runs):
            _check(notebook)
        error = _execute_in_threads(runs, at_once, quiet, after)
    except RunError as refusal:
        return report_status(refusal, refusal.status)
    if error is None:
        return 0
    if not isinstance(error, RunError):
        raise error
    return report_status(error, error.status)


def _execute_in_threads(
    runs: Sequence[Run], at_once: int, quiet: bool, after: Callable[[Run], None]
) -> BaseException | None:
    """Execute notebooks, kill all kernels, and return an error if there was one."""

    def execute(run: Run) -> None:
        _execute(run, quiet=quiet)
        after(run)

    error: BaseException | None = None
    with ThreadPoolExecutor(at_once) as pool:
        futures: set[Future] = {pool.submit(execute, run) for run in runs}
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                error = error or future.exception()
        except KeyboardInterrupt:  # it does not reach kernels, which have sessions of their own
            copies = [failed_copy(run.output) for run in runs]
            started = [str(copy) for copy in copies if copy.exists()]
            error = RunError(
                f"interrupted; executed so far: {', '.join(started) or 'nothing'}; "
                "run it again; finished training runs are kept",
                130,
            )
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
    import nbformat  # imported here, so that an invalid command is refused at once

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

    If the run fails, the part that was executed stays next to the copy, see `failed_copy`.
    """
    # Imported here, so that an invalid command is refused at once.
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError
    from zmq import ZMQError

    from study.pipeline.cleaning import clean

    name = run.notebook.name
    failed = failed_copy(run.output)
    try:
        failed.parent.mkdir(parents=True, exist_ok=True)
        _papermill(run, failed, quiet=quiet)
        text = nbformat.writes(clean(nbformat.read(failed, as_version=4))) + "\n"
        write_text(run.output, text)
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
        raise RunError(
            f"cannot write {run.output} ({error}); make room or choose another path, and run again"
        ) from None


def _papermill(run: Run, output: Path, *, quiet: bool) -> None:
    """Execute a notebook with papermill into `output`."""
    import papermill
    from traitlets.config import Config

    _register_engine()
    stdout_file = None
    if not quiet:
        stdout_file = sys.stdout
    with socket_folder() as folder:
        # Sockets are files instead of ports. A port is chosen before the kernel binds it, and if
        # another process binds it first, the kernel stays alive and never answers.
        transport = {"transport": "ipc", "ip": str(Path(folder, "kernel"))}
        papermill.execute_notebook(
            run.notebook,
            output,
            parameters=run.parameters,
            engine_name=_ENGINE,
            kernel_name="python3",
            language="python",
            config=Config(KernelManager=transport),
            start_timeout=_KERNEL_START_SECONDS,
            # A kernel that is asked to end takes half a second. It can be killed at once, because
            # everything is written by then.
            shutdown_kernel="immediate",
            progress_bar=False,
            stdout_file=stdout_file,
            stderr_file=sys.stderr,
            # Otherwise every kernel warns about its unencrypted connection and about the request to
            # end.
            extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
        )


def _register_engine() -> None:
    """Register an engine that saves less often than papermill's own."""
    from papermill.engines import NBClientEngine, papermill_engines

    class SparingEngine(NBClientEngine):
        """Papermill's engine without its two saves per cell.

        It still saves every 30 s, and at the end.
        """

        @classmethod
        def execute_managed_notebook(cls, nb_man, kernel_name, **options):
            nb_man.cell_start = lambda *_, **__: nb_man.autosave_cell()
            nb_man.cell_complete = lambda *_, **__: nb_man.autosave_cell()
            super().execute_managed_notebook(nb_man, kernel_name, **options)

    papermill_engines.register(_ENGINE, SparingEngine)


def failed_copy(output: Path) -> Path:
    """Return the path of a notebook's copy while it runs; it stays there if a cell fails.

    Parameters
    ----------
    output
        Path of the finished copy.

    Returns
    -------
    Path
        In the same folder, with the suffix ``.failed.ipynb``.
    """
    return output.with_suffix(".failed.ipynb")


def report_status(message: object, status: int) -> int:
    """Print a message in one line to stderr.

    Parameters
    ----------
    message
        The message.
    status
        The exit status that it explains.

    Returns
    -------
    int
        `status`.
    """
    print(f"study.pipeline: {message}", file=sys.stderr)
    return status
