"""`python -m study.pipeline`: what it refuses and keeps, and that nothing outlives it."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from resource import RLIMIT_FSIZE, setrlimit
from typing import NamedTuple
from unittest.mock import Mock

import nbformat
import papermill
import psutil
import pytest
from processes import python
from small_notebooks import plain_notebook
from study.paths import NOTEBOOKS, ROOT
from study.pipeline import execute, fork_server, runs
from study.pipeline.cleaning import clean
from study.pipeline.notebooks import NotebookError, convert, read_parameters

PARAMETERS = 'count = 1\nrate = 0.1\nflag = False\nname = "x"'


class Server(NamedTuple):
    """A process to fork from."""

    process: psutil.Process
    environment: dict[str, str]
    """The environment of a process that asks it for a fork."""


@contextlib.contextmanager
def _serving():
    """Start a process to fork from, which only processes with its environment use."""
    # A shell lets its background jobs ignore interrupts, and their child processes inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with fork_server.serving() as process:
        signal.signal(signal.SIGINT, before)
        socket = os.environ.pop(fork_server.SOCKET)
        yield Server(psutil.Process(process.pid), os.environ | {fork_server.SOCKET: socket})


@pytest.fixture(scope="module")
def server():
    """A process to fork from for all tests: each start imports its packages."""
    with _serving() as server:
        yield server


@pytest.fixture(scope="module", params=["by itself", "forked"])
def environment(request):
    """The environment of runs that start each by itself, or in forks of a server."""
    if request.param == "forked":
        return request.getfixturevalue("server").environment
    return dict(os.environ)


def _notebook(path, *code, parameters=PARAMETERS, **more):
    nbformat.write(plain_notebook(parameters, *code, **more), path)
    return path


def _run(notebook, output, *arguments, **options):
    return python("-m", "study.pipeline", notebook, output, *arguments, **options)


def _outputs(path):
    cells = nbformat.read(path, as_version=4).cells
    return [output for cell in cells for output in cell.get("outputs", [])]


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_parameters_have_types_and_injected_ones_win(tmp_path):
    path = _notebook(tmp_path / "a.ipynb", "count = 2", parameters=f"{PARAMETERS}\nlow: int = -1")
    actual = read_parameters(path)
    assert actual == {"count": 1, "rate": 0.1, "flag": False, "name": "x", "low": -1}
    assert [type(value) for value in actual.values()] == [int, float, bool, str, int]
    executed = nbformat.read(path, as_version=4)
    executed.cells[2].metadata["tags"] = ["injected-parameters"]
    nbformat.write(executed, path)
    assert read_parameters(path) == actual | {"count": 2}


def _cell(source="", **wrong):
    cell = {"cell_type": "code", "source": source, "metadata": {"tags": ["parameters"]}} | wrong
    return json.dumps({"nbformat": 4, "cells": [cell]})


@pytest.mark.parametrize(
    ("complaint", "contents"),
    [
        ("is not a whole Jupyter notebook", [
            "", "null", "{}", "[" * 100_000, '{"nbformat": 4, "cells": 3}',
            '{"nbformat": 4, "cells": [3]}', '{"nbformat": 3, "cells": []}', _cell(3),
            _cell([None]), _cell(metadata=[]), _cell(metadata={"tags": [["x"]]}),
            _cell(cell_type=3),
        ]),
        ("expected one truth value, number or text", [_cell(f"a = {value}") for value in (
            "None", "[1]", "{}", "{[]: 1}", "{**{}}", "1 + n", "1j", "f()", "b'x'", "1e999",
            "-1e999", "...", "x", "not True", "f'{1}'",
        )]),
        ("expected only lines such as", [_cell(line) for line in (
            "import os", "a, b = 1, 2", "a += 1", "a.b = 1", "a = b = 1", "a: int", "pass",
        )]),
        ("the parameters cell is not valid Python", [_cell(line) for line in (
            "%magic", "a = '", "a = 1 2", "a = 0777", "a = '\0'", f"a = {'9' * 5000}",
            f"a = {'[' * 150}",
        )]),
        # Python 3.13 parses this, but can't evaluate it.
        ("is not valid Python|is a deeply nested expression", [_cell(f"a = {'-' * 3000}1")]),
    ],
)  # fmt: skip
def test_malformed_notebooks_and_parameters_are_refused(tmp_path, complaint, contents):
    for content in contents:
        (tmp_path / "a.ipynb").write_text(content, "utf-8")
        with pytest.raises(NotebookError, match=complaint) as refusal:
            read_parameters(tmp_path / "a.ipynb")
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("default", "texts"),
    [
        (True, ["True", "1", ""]),
        (3, ["1.0", "0x1", "1_0", " 1", "+1", "٣", "true", "9" * 5000]),
        (0.5, ["inf", "NaN", "1e999", "1 ", "true", '"1"', "9" * 400, "[" * 100_000]),
    ],
)
def test_values_of_another_type_are_refused(default, texts):
    for text in texts:
        with pytest.raises(NotebookError, match=f"parameter p is .*as its default {default}$"):
            convert("p", text, default)


SOURCE = "21_parameter_counts.ipynb"
_SETS = "results = 'x'\nresult_set = 'y'\nfolder = '.'"


@pytest.mark.parametrize(
    ("notebook", "output", "arguments", "message"),
    [
        ("a", "out.ipynb", "-p cuont 1", "no parameter 'cuont'; it has count, rate, flag, name"),
        ("a", "out.ipynb", "-p count many", "count is 'many'; expected a whole number"),
        ("a", "out.ipynb", "-p count 1 -p count 2", "count is given twice"),
        ("untagged", "out.ipynb", "", "has no cell tagged 'parameters'"),
        ("missing", "out.ipynb", "", "missing.ipynb; expected its path from the repository root"),
        ("x" * 300, "out.ipynb", "", "expected paths of files that can exist"),
        ("outputs", "out.ipynb", "", "is not a valid notebook"),
        ("sets", "out.ipynb", "-s one 1.nc", "and {set} in the output"),
        ("sets", "{set}.ipynb", "-s one 1.nc -s one 2.nc", "are called one, one"),
        ("sets", "{set}.ipynb", "-s ../x 1.nc", "sets of results are called ../x"),
        ("a", "x/../a.ipynb", "", "is not a source"),
        ("a", f"{ROOT}/data/../notebooks/{SOURCE}", "", "is not a source"),
        ("a", "link/out.ipynb", "", "is not a source"),
        ("a", "out.txt", "", "expected an .ipynb file"),
        ("a", "~/../a.ipynb", "", "is not a source"),
    ],
)
def test_a_wrong_call_is_refused(
    tmp_path, monkeypatch, capsys, notebook, output, arguments, message
):
    monkeypatch.chdir(tmp_path)
    for name in ("PYTHONHASHSEED", "PYTHONWARNINGS", "JUPYTER_PATH", "COLUMNS", "LINES"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(papermill, "execute_notebook", None)
    _notebook(tmp_path / "a.ipynb")
    _notebook(tmp_path / "sets.ipynb", parameters=_SETS)
    _notebook(tmp_path / "untagged.ipynb", tags=())
    (tmp_path / "link").symlink_to(NOTEBOOKS)
    whole = (tmp_path / "a.ipynb").read_text()
    (tmp_path / "outputs.ipynb").write_text(whole.replace('"outputs": []', '"outputs": 3'))
    before = _names(tmp_path)
    source = (NOTEBOOKS / SOURCE).read_bytes()
    if not output.startswith("~"):
        output = str(tmp_path / output)
    given = [str(tmp_path / f"{notebook}.ipynb"), output]
    assert execute.main([*given, *shlex.split(arguments)]) == 2
    printed = capsys.readouterr().err
    assert message in printed and len(printed.splitlines()) == 1
    assert _names(tmp_path) == before and (NOTEBOOKS / SOURCE).read_bytes() == source


def test_a_name_inside_notebooks_is_not_found_at_the_root(monkeypatch, capsys):
    monkeypatch.chdir(NOTEBOOKS)
    assert execute.main([SOURCE, "out.ipynb"]) == 2
    assert f"no notebook at {ROOT / SOURCE}; expected its path" in capsys.readouterr().err


def test_a_link_to_itself_is_refused(tmp_path, capsys):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    notebook = _notebook(tmp_path / "sets.ipynb", parameters=_SETS)
    output = tmp_path / "loop" / "{set}.ipynb"
    # Python 3.13 notices the loop only when the copy is written.
    assert execute.main([str(notebook), str(output), "-s", "one", "1.nc"]) in (1, 2)
    printed = capsys.readouterr().err
    assert f"{tmp_path}/loop" in printed and len(printed.splitlines()) == 1


_VARIES = (
    "import sys, time\nfor i in range(20):\n    print(i, flush=True); time.sleep(0.01)\n"
    "print(time.time(), file=sys.stderr)",
    "import numpy as np, xarray as xr\nxr.Dataset({'a': ('x', np.arange(3))})",
    "import pandas as pd\npd.DataFrame({'a': [1]}).style",
    "object()",
    "print({'b', 'a', 'c', 'd', 'e'})",
    "import os; print(os.getcwd() + '/data')",
    # Another process might take a port first.
    "print('by', get_ipython().kernel.parent.transport)",
    "print(count, rate, flag, name)",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2])",
)


@pytest.mark.notebook
def test_equal_inputs_give_equal_bytes_forked_or_not(server, tmp_path):
    notebook = _notebook(tmp_path / "a.ipynb", *_VARIES)
    given = ["-p", "count", "3", "-p", "rate", "1e-5", "-p", "flag", "true", "-p", "name", "no"]
    first = _run(notebook, tmp_path / "1.ipynb", *given)
    second = _run(notebook, tmp_path / "2.ipynb", *given, env=server.environment)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    content = (tmp_path / "1.ipynb").read_bytes()
    assert content == (tmp_path / "2.ipynb").read_bytes()
    assert str(ROOT).encode() not in content
    assert b"3 1e-05 True no" in content and b"image/png" in content and b"by ipc" in content
    # Shown live: both streams; kept: stdout alone.
    assert "3 1e-05 True no" in first.stdout
    streams = [one for one in _outputs(tmp_path / "1.ipynb") if one.output_type == "stream"]
    assert {stream.name for stream in streams} == {"stdout"}
    assert _names(tmp_path) == ["1.ipynb", "2.ipynb", "a.ipynb"]
    nbformat.validate(nbformat.read(tmp_path / "1.ipynb", as_version=4))


def test_a_stage_announces_its_number_and_question(monkeypatch, capsys):
    monkeypatch.setenv(execute.STAGES, "code prepare analyze@a report")
    for stage, place in (("analyze@a", " (3 of 4)"), ("another", "")):
        execute._announce(stage, NOTEBOOKS / SOURCE)
        title = rf"\d\d:\d\d {re.escape(stage + place)}: \w.*\?\n"
        assert re.fullmatch(title, capsys.readouterr().err)


def test_cleaning_numbers_random_ids_and_merges_output():
    one = "3f2b7c9e-0000-4abc-8def-0123456789ab"
    two = "aaaaaaaa-0000-4abc-8def-0123456789ab"
    html = f'<i id="x-{one}"></i><b for="x-{one}"></b><i id="{two}"></i><td id="T_0a1b2_row0"></td>'

    def printed(text, name="stdout"):
        return nbformat.v4.new_output("stream", name=name, text=text)

    shown = nbformat.v4.new_output("display_data", data={"text/html": html})
    outputs = [printed("a"), printed("10 s left", "stderr"), printed("b"), shown, printed("c")]
    cell = nbformat.v4.new_code_cell("1", outputs=outputs, metadata={"papermill": {"duration": 1}})
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"papermill": {"start_time": "now"}})
    cell = clean(notebook).cells[0]
    stream, display, last = cell.outputs
    assert (stream.text, last.text) == ("ab", "c")
    ids = display.data["text/html"].split('"')[1::2]
    assert ids[0] == ids[1] != f"x-{one}"
    assert ids[2] not in (two, ids[0].removeprefix("x-"))
    assert ids[3] == "T_00002_row0"
    assert "papermill" not in cell.metadata and "papermill" not in notebook.metadata


@pytest.mark.notebook
def test_a_failing_cell_leaves_the_partial_notebook(server, tmp_path):
    notebook = _notebook(tmp_path / "a.ipynb", "print('before')", "1 / 0", "print('after')")
    done = _run(notebook, tmp_path / "out.ipynb", env=server.environment)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr
    assert "out.failed.ipynb" in done.stderr.splitlines()[-1]
    assert _names(tmp_path) == ["a.ipynb", "out.failed.ipynb"]
    kinds = [output.output_type for output in _outputs(tmp_path / "out.failed.ipynb")]
    assert kinds == ["stream", "error"]
    # Corrected and run again, it leaves no trace of the failure.
    _notebook(tmp_path / "a.ipynb", "print('before')")
    done = _run(notebook, tmp_path / "out.ipynb", env=server.environment)
    assert done.returncode == 0, done.stderr
    assert _names(tmp_path) == ["a.ipynb", "out.ipynb"]
    # If it fails later, the earlier copy stays.
    earlier = (tmp_path / "out.ipynb").read_bytes()
    _notebook(tmp_path / "a.ipynb", "1 / 0")
    done = _run(notebook, tmp_path / "out.ipynb", env=server.environment)
    assert done.returncode == 1
    assert (tmp_path / "out.ipynb").read_bytes() == earlier
    assert _names(tmp_path) == ["a.ipynb", "out.failed.ipynb", "out.ipynb"]


@pytest.mark.notebook
@pytest.mark.parametrize(
    ("code", "before", "message"),
    [
        ("import os; os.kill(os.getpid(), 9)", None, "the kernel of a.ipynb died"),
        ("print('x' * 300_000)", lambda: setrlimit(RLIMIT_FSIZE, (200_000,) * 2), "cannot write"),
    ],
)
def test_dead_kernels_and_full_disks_print_one_sentence(tmp_path, code, before, message):
    done = _run(_notebook(tmp_path / "a.ipynb", code), tmp_path / "out.ipynb", preexec_fn=before)
    assert done.returncode == 1 and message in done.stderr.splitlines()[-1]
    assert not (tmp_path / "out.ipynb").exists()


TWO_SETS = ("-s", "one", "1.nc", "-s", "two", "2.nc")


def _until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.05)


def _numbers(path):
    """Return the process numbers in a file; none if it doesn't exist."""
    if not path.exists():
        return []
    return [int(word) for word in path.read_text().split()]


def _alive(process):
    """Return whether a process runs, and does not only wait to be collected."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


_WAITS = """
import os, time
from dask.distributed import LocalCluster
options = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
with LocalCluster(**options) as cluster:
    worker = cluster.workers[0].process.pid
    with open(began, "a") as file:
        file.write(f"{os.getpid()} {worker} ")
    time.sleep(3600)
"""


@pytest.fixture
def interruptible():
    """Let what this process starts be interrupted, even if a shell runs it in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.notebook
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("killed", "sets"),
    [(signal.SIGKILL, ()), (signal.SIGTERM, ()), (signal.SIGINT, TWO_SETS), ("DVC", ())],
)
def test_a_killed_run_ends_its_kernels_and_workers(environment, tmp_path, killed, sets):
    began = tmp_path / "began"
    notebook = _notebook(
        tmp_path / "beat.ipynb", _WAITS, parameters=f"began = {str(began)!r}\n{_SETS}"
    )
    output = str(tmp_path / "out.ipynb")
    expected = 2
    if sets:
        output = str(tmp_path / "{set}.ipynb")
        expected = 4
    command = [sys.executable, "-m", "study.pipeline", str(notebook), output, *sets]
    how = killed
    if killed == "DVC":  # dvc.stage.run: a shell in an environment that names the stage
        how = signal.SIGKILL
        stage = environment | {"DVC_STAGE": "beat"}
        shell = f"{shlex.join(command)!r}, shell=True, env={stage!r}"
        command = [sys.executable, "-c", f"import subprocess; subprocess.Popen({shell}).wait()"]
    with (tmp_path / "stderr").open("w") as stderr:
        run = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=stderr)
    try:
        _until(lambda: len(_numbers(began)) == expected, 120, "each kernel and its worker")
        processes = [psutil.Process(number) for number in _numbers(began)]
        run.send_signal(how)
        # Before the run is collected: it may stay a zombie for long.
        _until(lambda: not any(map(_alive, processes)), 180, "the kernels and workers to end")
        if how == signal.SIGINT:
            assert run.wait(60) == 130
            message = (tmp_path / "stderr").read_text().splitlines()[-1]
            assert message.startswith("study.pipeline: interrupted; executed so far: ")
            assert message.endswith("; run it again; finished training runs are kept")
    finally:
        run.kill()
        run.wait()
    kept = {path.name for path in tmp_path.glob("[!.]*.ipynb") if ".failed" not in path.name}
    assert kept == {"beat.ipynb"}


def test_the_server_ends_with_its_starter():
    starter = """
from study.pipeline import fork_server
with fork_server.serving() as server:
    print(server.pid, flush=True)
    input()
"""
    options = {"cwd": ROOT, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", starter], **options) as program:
        server = psutil.Process(int(program.stdout.readline()))
        program.kill()
    _until(lambda: not _alive(server), 60, "the server to end")


_CLIENT = """
import sys
from study.pipeline import fork_server
sys.exit(fork_server.run(sys.argv[1:]))
"""


def _start_waiting(server, mark):
    """Start a caller of a server whose fork waits; return both."""
    code = f"open({str(mark)!r}, 'w').write(str(__import__('os').getpid())); import time"
    waits = ["timeit", "-n1", "-r1", "-s", code, "time.sleep(600)"]
    command = [sys.executable, "-c", _CLIENT, *waits]
    caller = subprocess.Popen(command, cwd=ROOT, env=server.environment)
    _until(lambda: mark.exists() and mark.read_text(), 60, "the fork")
    return caller, psutil.Process(int(mark.read_text()))


@pytest.mark.parametrize("killed", [["caller"], ["fork"], ["fork", "caller"]], ids=" and ".join)
def test_a_fork_and_its_caller_end_together(server, tmp_path, killed):
    caller, fork = _start_waiting(server, tmp_path / "pid")
    processes = {"fork": fork, "caller": caller}
    for name in killed:
        processes[name].kill()
    assert caller.wait(20) != 0
    _until(lambda: not _alive(fork), 20, "the fork to end")
    assert _alive(server.process)
    _until(lambda: not server.process.children(), 20, "its supervisor to end")


def test_forks_and_callers_end_with_the_server(tmp_path):
    with _serving() as server:
        caller, fork = _start_waiting(server, tmp_path / "pid")
        server.process.kill()
        assert caller.wait(20) != 0
        _until(lambda: not _alive(fork), 20, "the fork to end")
        _until(lambda: not _alive(server.process), 20, "the server to end")


def test_a_fork_gets_streams_folder_and_environment(server, tmp_path):
    code = (
        "import os, sys; print(os.getcwd(), len(os.environ['LONG0'])); print('x', file=sys.stderr)"
    )
    command = ["timeit", "-n1", "-r1", "-s", code, "pass"]
    long = {f"LONG{number}": "x" * 60_000 for number in range(5)}  # more than a datagram holds
    done = subprocess.run(
        [sys.executable, "-c", _CLIENT, *command],
        cwd=tmp_path,
        env=server.environment | long,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith(f"{tmp_path} 60000\n")
    assert (done.stderr, done.returncode) == ("x\n", 0)


def test_the_files_of_another_clone_are_left_alone(tmp_path):
    """As in the copy in which ``dvc exp run --temp`` works, if an environment has this package."""
    entry = tmp_path / "lib" / "study" / "pipeline" / "__main__.py"
    entry.parent.mkdir(parents=True)
    entry.touch()
    folder = tmp_path / "notebooks"
    folder.mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT / "lib")}
    done = python("-m", "study.pipeline", "code", cwd=folder, env=environment)
    assert done.returncode == 2
    assert f"this folder belongs to {tmp_path}, but Python finds the package" in done.stderr


@pytest.mark.notebook
def test_without_its_server_a_run_starts_by_itself(tmp_path):
    notebook = _notebook(tmp_path / "a.ipynb", "print(1)")
    environment = os.environ | {fork_server.SOCKET: str(tmp_path / "gone")}
    done = _run(notebook, tmp_path / "out.ipynb", env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.notebook
def test_a_long_temporary_folder_works(tmp_path):
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    notebook = _notebook(tmp_path / "a.ipynb", "print(1)")
    environment = os.environ | {"TMPDIR": str(folder)}
    done = _run(notebook, tmp_path / "out.ipynb", env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.notebook
def test_the_terminal_does_not_change_a_copy(server, tmp_path):
    code = "import shutil; print(shutil.get_terminal_size())"
    notebook = _notebook(tmp_path / "a.ipynb", code)
    for columns in ("40", "200"):
        output = tmp_path / f"{columns}.ipynb"
        done = _run(notebook, output, env=server.environment | {"COLUMNS": columns})
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "40.ipynb").read_bytes() == (tmp_path / "200.ipynb").read_bytes()


@pytest.mark.notebook
def test_sets_run_at_once_with_their_results(server, tmp_path):
    # Each waits for the other, so that one after the other would never end.
    code = (
        "import time; from pathlib import Path\nPath(folder, result_set).write_text(results)\n"
        "while len(list(Path(folder).glob('set-*'))) < 2: time.sleep(0.05)"
    )
    notebook = _notebook(tmp_path / "a.ipynb", code, parameters=_SETS)
    given = ["-p", "folder", str(tmp_path), "-s", "set-one", "1.nc", "-s", "set-two", "2.nc"]
    output = tmp_path / "out" / "{set}.ipynb"
    done = _run(notebook, output, *given, env=server.environment)
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"set-{name}").read_text() for name in ("one", "two")] == ["1.nc", "2.nc"]
    assert _names(tmp_path / "out") == ["set-one.ipynb", "set-two.ipynb"]


@pytest.mark.notebook
def test_a_failing_set_ends_the_others(environment, tmp_path):
    code = "import time\nif results == 'bad': 1 / 0\nif results == 'slow': time.sleep(3000)"
    notebook = _notebook(tmp_path / "a.ipynb", code, parameters=_SETS)
    given = ["-s", "one", "bad", "-s", "two", "slow"]
    done = _run(notebook, tmp_path / "{set}.ipynb", *given, timeout=500, env=environment)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr
    assert str(tmp_path / "one.failed.ipynb") in done.stderr
    assert not (tmp_path / "one.ipynb").exists() and not (tmp_path / "two.ipynb").exists()


def test_runs_that_had_not_begun_are_cancelled(tmp_path, monkeypatch):
    begun = []
    killed = threading.Event()

    def execute(run, *, quiet):
        begun.append(run.output.stem)
        if len(begun) > 1:  # it may begin before the failure of the first is noticed
            assert killed.wait(60)
        raise runs.RunError("it failed", 1)

    monkeypatch.setattr(runs, "_kill_kernels", killed.set)
    monkeypatch.setattr(runs, "_check", Mock())
    monkeypatch.setattr(runs, "_execute", execute)
    planned = [runs.Run(tmp_path, tmp_path / f"{name}.ipynb", {}) for name in "abcd"]
    assert runs.execute_all(planned, at_once=1) == 1
    assert begun in (["a"], ["a", "b"])
