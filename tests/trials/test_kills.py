"""Processes killed at any moment, and workers and schedulers that are lost: what was kept is whole, and the rest is made again."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import dask
import numpy as np
import pytest
from dask.distributed import LocalCluster

from lib.paths import ROOT
from lib.run.params import Jobs
from lib.training.jobs import Work, cluster, run_jobs
from lib.training.jobs.shards import read_shard, shard_path, write_shard

pytestmark = pytest.mark.trials
KIND = "kills, workers"

ROUNDS = 12
"""Shards that a writer goes round."""


def _arrays(i):
    rng = np.random.default_rng(i)
    return {"status": np.array(0, np.int8), "loss": rng.normal(size=(40, 40))}


def _write_for_ever(folder):
    while True:
        for i in range(ROUNDS):
            write_shard(folder, {"job": i}, _arrays(i))


def test_a_writer_killed_at_any_moment_leaves_whole_shards(trials, draw, tmp_path, capsys):
    for _ in trials.some(150):
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                _write_for_ever(tmp_path)
            os._exit(1)
        time.sleep(draw.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = {
            i: read_shard(tmp_path, {"job": i})
            for i in range(ROUNDS)
            if shard_path(tmp_path, {"job": i}).exists()
        }
        equal = all(
            kept is not None and np.array_equal(kept["loss"], _arrays(i)["loss"])
            for i, kept in found.items()
        )
        trials.accept("shards", lambda: (equal, capsys.readouterr().err), (True, "").__eq__)


# The jobs of a driver that is killed; defined there, so that workers are sent the function itself.
_DRIVER = """
import contextlib, sys, time
import dask
import numpy as np
from dask.distributed import Client
from lib.run.params import Jobs
from lib.training.jobs import Work, run, run_jobs

def job(i, resume):
    time.sleep(0.02)
    return {"status": np.int8(0), "loss": np.random.default_rng(i).normal(size=50)}

job.__module__ = "lib.run.files"  # whose fingerprint names the shards

@contextlib.contextmanager
def here(scheduler, workers):
    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None) as client:
        yield client

if __name__ == "__main__":
    if sys.argv[3] == "threads":
        run.connect = here
    jobs = [Work(run=job, arguments=(i,), identity={"i": i}, modules=()) for i in range(60)]
    found = run_jobs({"killed": jobs}, sys.argv[1], Jobs(scheduler="local", workers=2))
    np.save(sys.argv[2], np.stack([one["loss"] for one in found["killed"].results]))
"""


@pytest.mark.parametrize(("where", "kills"), [("threads", 10), ("processes", 4)])
def test_a_study_killed_again_and_again_comes_to_the_same_bytes(
    trials, draw, tmp_path, where, kills
):
    expected = np.stack([np.random.default_rng(i).normal(size=50) for i in range(60)])
    cache, out = tmp_path / "cache", tmp_path / "out.npy"
    script = tmp_path / "driver.py"
    script.write_text(_DRIVER)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    def start():
        command = [sys.executable, str(script), str(cache), str(out), where]
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
        )

    for k in trials.some(kills):
        # Fresh shards for every kill but the last ones, so that there is something to kill.
        for path in cache.glob("*.npz"):
            if draw.random() < 0.8:
                path.unlink()
        out.unlink(missing_ok=True)
        driver, kept = start(), len(list(cache.glob("*.npz")))
        wanted = kept + draw.randrange(1, 20)
        while driver.poll() is None and len(list(cache.glob("*.npz"))) < wanted:
            time.sleep(0.005)
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
        trials.accept(f"kill {k}", out.exists, bool(driver.returncode == 0).__eq__)
    driver = start()
    said = driver.communicate()[1]
    trials.accept("resumed", lambda: (driver.returncode, "Traceback" in said), (0, False).__eq__)
    trials.accept("bytes", lambda: np.load(out).tobytes(), expected.tobytes().__eq__)


def _slow(seconds, i, resume):
    time.sleep(seconds)
    return {"status": np.int8(0), "loss": np.random.default_rng(i).normal(size=50)}


_slow.__module__ = "lib.run.files"  # not found there, so that workers are sent the function itself


def _jobs(seconds, count=40):
    return [
        Work(run=_slow, arguments=(seconds, i), identity={"i": i}, modules=()) for i in range(count)
    ]


def test_workers_that_are_lost_are_replaced_and_nothing_is_lost(trials, draw, tmp_path):
    kills = len(trials.some(6))
    # Dask gives a job up that was on too many workers when they died, one that only waited there too.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": kills}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as local,
    ):
        where = Jobs(scheduler=local.scheduler_address, workers=0)
        killer = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _KILLER,
                where.scheduler,
                str(kills),
                str(tmp_path),
            ],
            stderr=subprocess.DEVNULL,
        )
        found = run_jobs({"workers": _jobs(0.5)}, tmp_path, where)["workers"].results
        killed = killer.wait()
    for i, one in enumerate(found):
        expected = np.random.default_rng(i).normal(size=50)
        trials.accept(i, lambda: one["loss"].tobytes(), expected.tobytes().__eq__)
    assert killed == 0, "the workers outlived their killer"


# Three jobs are done between two kills, so that there is something to lose.
_KILLER = """
import os, random, signal, sys, time
from pathlib import Path
from dask.distributed import Client
with Client(sys.argv[1]) as client:
    for kill in range(int(sys.argv[2])):
        while len(list(Path(sys.argv[3]).glob("*.npz"))) < 3 * kill:
            time.sleep(0.05)
        while not (pids := list(client.run(os.getpid, on_error="ignore").values())):
            time.sleep(0.05)
        os.kill(random.choice(pids), signal.SIGKILL)
"""


def _local_workers():
    """Return the processes of the local workers, those too that are just beginning."""
    return {p.pid for p in multiprocessing.active_children() if "Dask" in p.name}


def _strike(cache, how, seconds):
    """Send the local workers a signal once three jobs are done, and stop what comes in their place for so long."""
    while len(list(cache.glob("*.npz"))) < 3:
        time.sleep(0.02)
    first, stopped = _local_workers(), set()
    for worker in first:
        os.kill(worker, how)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not cache.with_suffix(".ended").exists():
        for worker in _local_workers() - first - stopped:
            stopped.add(worker)
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGSTOP)
        time.sleep(0.02)
    for worker in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)


def _struck(tmp_path, how, seconds, workers=1):
    cache = tmp_path / f"{how}"
    with ThreadPoolExecutor(1) as pool:
        strike = pool.submit(_strike, cache, how, seconds)
        try:
            where = Jobs(scheduler="local", workers=workers)
            return run_jobs({"struck": _jobs(0.2, 12)}, cache, where)["struck"].results
        finally:
            cache.with_suffix(".ended").touch()
            strike.result()


def _right(found):
    expected = [np.random.default_rng(i).normal(size=50).tobytes() for i in range(12)]
    return [one["loss"].tobytes() for one in found] == expected


@pytest.mark.parametrize(
    ("how", "paused", "workers"),
    [
        (signal.SIGKILL, 0, 2),
        (signal.SIGTERM, 0, 1),
        (signal.SIGKILL, 5, 1),  # longer than Dask waits before it lets a worker go
    ],
)
def test_local_workers_come_back_whatever_ended_them(
    trials, tmp_path, monkeypatch, how, paused, workers
):
    if paused:
        monkeypatch.setitem(cluster._LOCAL, "distributed.deploy.lost-worker-timeout", "2s")
        monkeypatch.setattr(cluster, "WORKERS", 20.0)
    what = f"{how.name}, replaced after {paused} s"
    trials.accept(what, lambda: _struck(tmp_path, how, paused, workers), _right)


def test_local_workers_that_never_come_back_are_told_in_a_sentence(
    trials, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(cluster, "WORKERS", 4.0)
    monkeypatch.setattr(cluster, "CLOSE", 5.0)
    trials.refuse("stopped", lambda: _struck(tmp_path, signal.SIGKILL, 300), ConnectionError)
    told = capsys.readouterr().err.count("no worker has been there")
    trials.accept("told", lambda: told, (1).__eq__)
    trials.accept("again", lambda: _struck(tmp_path, signal.SIGTERM, 0), _right)


_WORKER = "from distributed.cli.dask_worker import main; main()"
_STRANGER = f"import sys; sys.modules['lib'] = None; {_WORKER}"


def _process(tmp_path, *program):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "env": environment}
    said = ["--no-dashboard", "--scheduler-file", str(tmp_path / "scheduler.json")]
    return subprocess.Popen([sys.executable, *program, *said], **quiet)


def _worker(tmp_path, program=_WORKER):
    return _process(tmp_path, "-c", program, "--no-nanny", "--nthreads", "1")


@contextlib.contextmanager
def _scheduler(tmp_path, workers=0, program=_WORKER):
    """A scheduler and its workers, each a process; gives the address and the processes."""
    file = tmp_path / "scheduler.json"
    module = ["-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    processes = [_process(tmp_path, *module)]
    try:
        processes += [_worker(tmp_path, program) for _ in range(workers)]
        while not file.exists() or not file.read_text().endswith("}"):
            assert processes[0].poll() is None, "the scheduler did not start"
            time.sleep(0.1)
        yield file.read_text().partition('"address": "')[2].partition('"')[0], processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_scheduler_without_workers_is_told_in_a_sentence(trials, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "WORKERS", 3.0)
    with _scheduler(tmp_path) as (address, _):
        call = lambda: run_jobs(
            {"alone": _jobs(0)}, tmp_path / "cache", Jobs(scheduler=address, workers=0)
        )
        trials.refuse("no worker", call, ConnectionError)


def test_a_scheduler_that_is_lost_is_told_in_a_sentence_and_what_was_done_is_kept(trials, tmp_path):
    cache = tmp_path / "cache"
    with _scheduler(tmp_path, workers=2) as (address, processes):
        wait = f"import glob, os, time\nwhile len(glob.glob({str(cache / '*.npz')!r})) < 5: time.sleep(0.05)\n"
        killer = subprocess.Popen([sys.executable, "-c", f"{wait}os.kill({processes[0].pid}, 9)"])
        call = lambda: run_jobs({"lost": _jobs(0.3)}, cache, Jobs(scheduler=address, workers=0))
        trials.refuse("lost scheduler", call, ConnectionError)
        killer.wait()
    trials.accept("kept", lambda: len(list(cache.glob("*.npz"))), lambda kept: 5 <= kept < 40)


def test_a_worker_that_cannot_import_the_code_ends_which_is_told_and_another_goes_on(
    trials, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(cluster, "WORKERS", 20.0)
    with _scheduler(tmp_path, workers=1, program=_STRANGER) as (address, processes):
        where = Jobs(scheduler=address, workers=0)
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(run_jobs, {"code": _jobs(0)}, tmp_path / "cache", where)
            processes[1].wait()
            said = ""
            while "no worker has been there" not in said and not found.done():
                time.sleep(0.5)
                said += capsys.readouterr().err
            trials.accept("told", lambda: said.count("no worker has been there"), (1).__eq__)
            processes.append(_worker(tmp_path))
            trials.accept("done", lambda: len(found.result(600)["code"].results), (40).__eq__)
