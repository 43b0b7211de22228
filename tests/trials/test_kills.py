"""Processes killed at any moment, and workers and schedulers that are lost: what was kept is whole, and the rest is made again."""

import contextlib
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import cloudpickle
import designs
import numpy as np
import psutil
import pytest
from study.config.jobs import Jobs
from study.paths import ROOT
from study.training import cluster
from study.training.jobs import run_jobs
from study.training.shards import read_shard, shard_path, write_shard

cloudpickle.register_pickle_by_value(designs)  # which schedulers and workers do not have
pytestmark = pytest.mark.trials

ROUNDS = 12
"""Shards that a writer goes round."""


def _loss(i):
    return np.random.default_rng(i).normal(size=50)


def test_a_writer_killed_at_any_moment_leaves_whole_shards(trials, draw, tmp_path, capsys):
    arrays = [{"status": np.int8(0), "loss": np.tile(_loss(i), 30)} for i in range(ROUNDS)]
    for _ in trials.some(150):
        if (child := os.fork()) == 0:
            with contextlib.suppress(BaseException):
                for i in itertools.cycle(range(ROUNDS)):
                    write_shard(tmp_path, {"job": i}, arrays[i])
            os._exit(1)
        time.sleep(draw.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        there = [i for i in range(ROUNDS) if shard_path(tmp_path, {"job": i}).exists()]
        found = [(i, read_shard(tmp_path, {"job": i}) or {"loss": None}) for i in there]
        equal = all(np.array_equal(one["loss"], arrays[i]["loss"]) for i, one in found)
        trials.accept("shards", lambda: (equal, capsys.readouterr().err), (True, "").__eq__)


def _slow(seconds, i, resume):
    time.sleep(seconds)
    return {"status": np.int8(0), "loss": np.random.default_rng(i).normal(size=50)}


_slow.__module__ = (
    "study.pipeline.files"  # not found there, so that workers are sent the function itself
)


def _jobs(seconds, count=12):
    return [designs.plain_job(_slow, (seconds, i), {"i": i}) for i in range(count)]


def _right(found):
    return all(np.array_equal(one["loss"], _loss(i)) for i, one in enumerate(found))


_DRIVER = """
import sys
sys.path.insert(0, "tests")
from trials.test_kills import _jobs, _right, run_jobs, Jobs
if __name__ == "__main__":
    found = run_jobs({"killed": _jobs(0.1, 40)}, sys.argv[1], Jobs(scheduler="local", workers=2))
    assert _right(found["killed"].results)
"""


@pytest.mark.parametrize("all_of_them", [False, True])
def test_a_study_killed_again_and_again_comes_to_its_end(trials, draw, tmp_path, all_of_them):
    cache, script, said = (tmp_path / name for name in ("cache", "driver.py", "said"))
    script.write_text(_DRIVER)
    done = lambda: len(list(cache.glob("[!.]*.npz")))  # what a kill leaves half written is hidden

    def start():
        command, environment = (
            [sys.executable, script, cache],
            os.environ | {"PYTHONPATH": str(ROOT / "lib")},
        )
        with said.open("w") as stderr:
            apart = {"cwd": ROOT, "env": environment, "start_new_session": True}
            return subprocess.Popen(command, stderr=stderr, **apart)

    for how in trials.some(3):
        how = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[how]
        driver, wanted = start(), done() + draw.randrange(1, 12)
        while driver.poll() is None and done() < wanted:
            time.sleep(0.01)
        workers = psutil.Process(driver.pid).children(recursive=True)
        os.killpg(driver.pid, how) if all_of_them else driver.send_signal(how)
        driver.wait()
        ended = lambda: psutil.wait_procs(workers, timeout=60)[1]
        trials.accept(f"{how.name}, nothing is left", ended, [].__eq__)
    driver = start()
    ended = driver.wait(), "Traceback" in said.read_text(), done()
    trials.accept("resumed", lambda: ended, (0, False, 40).__eq__)


def _local_workers():
    """Return the processes of the local workers, those too that are just beginning."""
    return {p.pid for p in multiprocessing.active_children() if "Dask" in p.name}


def _strike(cache, how, seconds):
    """Send the local workers a signal once three jobs are done, and stop what comes in their place for so long."""
    ended = cache.with_suffix(".ended")
    while len(list(cache.glob("*.npz"))) < 3 and not ended.exists():
        time.sleep(0.02)
    first, stopped = _local_workers(), set()
    for worker in first:
        os.kill(worker, how)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not ended.exists():
        for worker in _local_workers() - first - stopped:
            _send(worker, signal.SIGSTOP)
            stopped.add(worker)
        time.sleep(0.02)
    for worker in stopped:
        _send(worker, signal.SIGCONT)


def _send(worker, how):
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker, how)


def _struck(tmp_path, how, seconds, workers=1):
    cache = tmp_path / f"{how}"
    with ThreadPoolExecutor(1) as pool:
        strike = pool.submit(_strike, cache, how, seconds)
        try:
            where = Jobs(scheduler="local", workers=workers)
            return run_jobs({"struck": _jobs(0.2)}, cache, where)["struck"].results
        finally:
            cache.with_suffix(".ended").touch()
            strike.result()


@pytest.mark.parametrize(
    ("how", "paused", "workers"),
    [(signal.SIGKILL, 0, 2), (signal.SIGTERM, 0, 1), (signal.SIGKILL, 5, 1)],
)
def test_local_workers_come_back(trials, tmp_path, how, paused, workers):
    what = f"{how.name}, replaced after {paused} s"
    trials.accept(what, lambda: _struck(tmp_path, how, paused, workers), _right)


def test_local_workers_that_never_come_back_are_told(trials, tmp_path, monkeypatch):
    monkeypatch.setitem(cluster._LOCAL, "distributed.scheduler.no-workers-timeout", "12s")
    monkeypatch.setattr(cluster, "CLOSE", 5.0)
    trials.refuse("stopped", lambda: _struck(tmp_path, signal.SIGKILL, 300), ConnectionError)
    trials.accept("again", lambda: _struck(tmp_path, signal.SIGTERM, 0), _right)


_WORKER = "from distributed.cli.dask_worker import main; main()"


def _process(tmp_path, *program):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "lib"), "OMP_NUM_THREADS": "1"}
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "env": environment}
    said = ["--no-dashboard", "--scheduler-file", str(tmp_path / "scheduler.json")]
    return subprocess.Popen([sys.executable, *program, *said], **quiet)


@contextlib.contextmanager
def _scheduler(tmp_path, workers):
    """A scheduler and its workers, each a process; gives the address and the processes."""
    file = tmp_path / "scheduler.json"
    module = ["-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    processes = [_process(tmp_path, *module)]
    try:
        worker = ("-c", _WORKER, "--no-nanny", "--nthreads", "1")
        processes += [_process(tmp_path, *worker) for _ in range(workers)]
        while not file.exists() or not file.read_text().endswith("}"):
            assert processes[0].poll() is None, "the scheduler did not start"
            time.sleep(0.1)
        yield file.read_text().partition('"address": "')[2].partition('"')[0], processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_scheduler_that_is_lost_is_told_in_a_sentence_and_what_was_done_is_kept(trials, tmp_path):
    cache = tmp_path / "cache"
    with _scheduler(tmp_path, workers=2) as (address, processes):
        wait = f"import glob, os, time\nwhile len(glob.glob({str(cache / '*.npz')!r})) < 5: time.sleep(0.05)\n"
        killer = subprocess.Popen([sys.executable, "-c", f"{wait}os.kill({processes[0].pid}, 9)"])
        call = lambda: run_jobs({"lost": _jobs(0.3, 40)}, cache, Jobs(scheduler=address, workers=0))
        trials.refuse("lost scheduler", call, ConnectionError)
        killer.wait()
    trials.accept("kept", lambda: len(list(cache.glob("*.npz"))), lambda kept: 5 <= kept < 40)
