"""Processes killed at any moment, and lost workers and schedulers.

What was stored is whole, and the rest is computed again: every variable ends with equal bytes.
"""

import contextlib
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import cloudpickle
import designs
import numpy as np
import psutil
import pytest
from longrnn.cells import make_cell
from study.config.cluster import ClusterSettings
from study.config.network import Dropout
from study.config.recipe import Recipe
from study.paths import ROOT
from study.training import cluster
from study.training.batches import EpochBatches
from study.training.checkpoint import Checkpoint
from study.training.jobs import run_jobs
from study.training.loop import train
from study.training.model import Model
from study.training.recorder import Recorder, epoch_ends
from study.training.seeds import torch_seed
from study.training.shards import read_shard, shard_path, write_shard
from torch.nn import functional as F
from toys import norm, toy_task, weights

cloudpickle.register_pickle_by_value(designs)  # schedulers and workers cannot import it
pytestmark = pytest.mark.trials

SHARDS = 12
"""Shards that a writer writes again and again."""


def _kill_when(is_due, function):
    """Call a function in a forked process, and kill that when `is_due` says so.

    Return whether it was still running.
    """
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            function()
            status = 0
        os._exit(status)
    while not is_due():
        ended, _ = os.waitpid(child, os.WNOHANG)
        if ended:
            return False
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _after_seconds(seconds):
    """Return a function that says whether so many seconds are over."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def _after_saves(path, count):
    """Return a function that says whether a file was saved at least so many times."""
    times = set()

    def is_due():
        with contextlib.suppress(FileNotFoundError):
            times.add(path.stat().st_mtime_ns)
        return len(times) > count  # the first of them may be from an earlier process

    return is_due


def test_killed_writers_leave_whole_shards(trials, draw, tmp_path, capsys):
    arrays = [{"status": np.int8(0), "loss": np.tile(_random_loss(i), 30)} for i in range(SHARDS)]

    def write_forever():
        for i in itertools.cycle(range(SHARDS)):
            write_shard(tmp_path, {"job": i}, arrays[i])

    def count_damaged():
        damaged = 0
        for i in range(SHARDS):
            if shard_path(tmp_path, {"job": i}).exists():
                stored = read_shard(tmp_path, {"job": i})
                damaged += stored is None or not np.array_equal(stored["loss"], arrays[i]["loss"])
        return damaged, capsys.readouterr().err

    for number in trials.some(150):
        _kill_when(_after_seconds(draw.uniform(0, 0.03)), write_forever)
        trials.accept(f"kill {number}", count_damaged, (0, "").__eq__)


def _train_with_dropout(checkpoint):
    """Return the bytes of the weights after a run, and its records."""
    task = toy_task(n=60)
    recipe = Recipe(learning_rate=0.05, epochs=60, drops=(30,))
    batches = EpochBatches(task.train, 3, np.random.default_rng(1))
    recorder = Recorder(
        norm, epoch_ends(batches.steps_per_epoch, recipe.total_steps(batches.steps_per_epoch))
    )

    def objective(model, inputs, labels):
        return F.cross_entropy(model(inputs), labels)

    with torch_seed(np.random.SeedSequence(5)):
        model = Model(make_cell("gru", 1, 3), 3, dropout=Dropout(output_dropout=0.3))
        done = train(model, batches, objective, recipe, recorder=recorder, checkpoint=checkpoint)
    return weights(model).numpy().tobytes(), done.rows


def test_killed_run_resumes_with_the_same_bytes(trials, draw, tmp_path):
    expected = _train_with_dropout(Checkpoint(tmp_path / "whole.state", every=1e9))
    path = tmp_path / "killed.state"

    def run():
        _train_with_dropout(Checkpoint(path, every=0.0))  # saved after each of 1,200 steps

    for number in trials.some(8):
        is_due = _after_saves(path, draw.randrange(1, 30))
        trials.accept(f"kill {number}", partial(_kill_when, is_due, run), bool)
    checkpoint = Checkpoint(path, every=1e9)
    trials.accept("resumed", lambda: _train_with_dropout(checkpoint), expected.__eq__)
    trials.accept("from a checkpoint", lambda: checkpoint.resumed, bool)


def _slow(seconds, i, checkpoint):
    time.sleep(seconds)
    return {"status": np.int8(0), "loss": _random_loss(i)}


def _random_loss(i):
    return np.random.default_rng(i).normal(size=50)


# The functions are not found in this module, so that workers are sent the functions themselves.
_slow.__module__ = "study.pipeline.files"
_random_loss.__module__ = "study.pipeline.files"


def _jobs(seconds, count=12):
    return [designs.plain_job(_slow, (seconds, i), {"i": i}) for i in range(count)]


def _bytes_are_equal(results):
    return all(
        result["loss"].tobytes() == _random_loss(i).tobytes() for i, result in enumerate(results)
    )


def _count_shards(cache):
    """Return the number of results; what a kill leaves half written has a hidden name."""
    return len(list(cache.glob("[!.]*.npz")))


_DRIVER = """
import sys
sys.path.insert(0, "tests")
from trials.test_kills import _bytes_are_equal, _jobs, run_jobs, ClusterSettings
if __name__ == "__main__":
    settings = ClusterSettings(scheduler="local", workers=2)
    done = run_jobs({"killed": _jobs(0.05, 40)}, sys.argv[1], settings)["killed"]
    assert len(done.results) == 40
    assert _bytes_are_equal(done.results)
"""


def _start_driver(script, cache, errors):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "lib")}
    with errors.open("w") as stderr:
        return subprocess.Popen(
            [sys.executable, script, cache],
            cwd=ROOT,
            env=environment,
            stderr=stderr,
            start_new_session=True,
        )


@pytest.mark.parametrize("whole_group", [False, True])
def test_killed_studies_resume(trials, draw, tmp_path, whole_group):
    cache = tmp_path / "cache"
    script = tmp_path / "driver.py"
    errors = tmp_path / "errors"
    script.write_text(_DRIVER)
    kinds = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
    for number in trials.some(3):
        kind = kinds[number]
        wanted = _count_shards(cache) + draw.randrange(1, 12)
        driver = _start_driver(script, cache, errors)
        while driver.poll() is None and _count_shards(cache) < wanted:
            time.sleep(0.01)
        workers = psutil.Process(driver.pid).children(recursive=True)
        if whole_group:
            os.killpg(driver.pid, kind)
        else:
            driver.send_signal(kind)
        driver.wait()

        def orphans(processes=workers):
            return psutil.wait_procs(processes, timeout=60)[1]

        trials.accept(f"{kind.name}, no orphans", orphans, [].__eq__)
    driver = _start_driver(script, cache, errors)
    outcome = (driver.wait(), errors.read_text().count("Traceback"), _count_shards(cache))
    trials.accept("resumed", lambda: outcome, (0, 0, 40).__eq__)


def _local_workers():
    """Return the numbers of the local worker processes, those that are starting included."""
    return {p.pid for p in multiprocessing.active_children() if "Dask" in p.name}


def _send(worker, kind):
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker, kind)


def _strike(cache, kind, pause, workers):
    """Send the local workers a signal once three jobs are done; return how many there were.

    Workers that take their place are stopped for so many seconds.
    """
    ended = cache.with_suffix(".ended")
    while (_count_shards(cache) < 3 or len(_local_workers()) < workers) and not ended.exists():
        time.sleep(0.02)
    first = _local_workers()
    for worker in first:
        _send(worker, kind)
    stopped = set()
    end = time.monotonic() + pause
    while time.monotonic() < end and not ended.exists():
        for worker in _local_workers() - first - stopped:
            _send(worker, signal.SIGSTOP)
            stopped.add(worker)
        time.sleep(0.02)
    for worker in stopped:
        _send(worker, signal.SIGCONT)
    return len(first)


def _run_struck(tmp_path, kind, pause, workers=1):
    """Run jobs whose workers get a signal; return the results and the number of signals."""
    cache = tmp_path / kind.name
    with ThreadPoolExecutor(1) as pool:
        strike = pool.submit(_strike, cache, kind, pause, workers)
        try:
            settings = ClusterSettings(scheduler="local", workers=workers)
            results = run_jobs({"struck": _jobs(0.2)}, cache, settings)["struck"].results
        finally:
            cache.with_suffix(".ended").touch()
            struck = strike.result()
    return results, struck


@pytest.mark.parametrize(
    ("kind", "pause", "workers"),
    [(signal.SIGKILL, 0, 2), (signal.SIGTERM, 0, 1), (signal.SIGKILL, 5, 1)],
)
def test_killed_local_workers_are_replaced(trials, tmp_path, kind, pause, workers):
    def run():
        results, struck = _run_struck(tmp_path, kind, pause, workers)
        return struck, len(results), _bytes_are_equal(results)

    trials.accept(f"{kind.name}, replaced after {pause} s", run, (workers, 12, True).__eq__)


def test_local_workers_that_never_return_are_reported(trials, tmp_path, monkeypatch):
    monkeypatch.setitem(cluster._LOCAL, "distributed.scheduler.no-workers-timeout", "12s")
    monkeypatch.setattr(cluster, "CLOSE_SECONDS", 5.0)
    call = partial(_run_struck, tmp_path, signal.SIGKILL, 300)
    trials.refuse("stopped", call, ConnectionError)
    settings = ClusterSettings(scheduler="local", workers=1)

    def run_again():
        return run_jobs({"struck": _jobs(0.2)}, tmp_path / "SIGKILL", settings)["struck"].results

    trials.accept("again", run_again, _bytes_are_equal)


_WORKER = "from distributed.cli.dask_worker import main; main()"


def _start(tmp_path, *program):
    file = tmp_path / "scheduler.json"
    command = [sys.executable, *program, "--no-dashboard", "--scheduler-file", str(file)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "lib"), "OMP_NUM_THREADS": "1"}
    silent = subprocess.DEVNULL
    return subprocess.Popen(command, stderr=silent, stdout=silent, env=environment)


@contextlib.contextmanager
def _scheduler(tmp_path, workers):
    """A scheduler and its workers; gives the address and the processes, the scheduler first."""
    file = tmp_path / "scheduler.json"
    module = ("-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0")
    worker = ("-c", _WORKER, "--no-nanny", "--nthreads", "1")
    processes = [_start(tmp_path, *module)]
    try:
        for _ in range(workers):
            processes.append(_start(tmp_path, *worker))
        while not file.exists() or not file.read_text().endswith("}"):
            assert processes[0].poll() is None, "the scheduler did not start"
            time.sleep(0.1)
        yield file.read_text().partition('"address": "')[2].partition('"')[0], processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _kill_after(cache, shards, process):
    """Kill a process once there are so many results."""
    while _count_shards(cache) < shards:
        time.sleep(0.05)
    process.kill()


def test_lost_scheduler_keeps_finished_jobs(trials, tmp_path):
    cache = tmp_path / "cache"
    with _scheduler(tmp_path, workers=2) as (address, processes), ThreadPoolExecutor(1) as pool:
        kill = pool.submit(_kill_after, cache, 5, processes[0])
        settings = ClusterSettings(scheduler=address, workers=0)
        call = partial(run_jobs, {"lost": _jobs(0.3, 40)}, cache, settings)
        trials.refuse("lost scheduler", call, ConnectionError)
        kill.result()
    trials.accept("cached", lambda: _count_shards(cache), range(5, 40).__contains__)


def test_killed_remote_worker_loses_one_job(trials, tmp_path):
    cache = tmp_path / "cache"
    with _scheduler(tmp_path, workers=2) as (address, processes), ThreadPoolExecutor(1) as pool:
        kill = pool.submit(_kill_after, cache, 5, processes[2])
        settings = ClusterSettings(scheduler=address, workers=0)

        def run():
            return run_jobs({"lost": _jobs(0.2, 20)}, cache, settings)["lost"].results

        trials.accept("one worker left", run, _bytes_are_equal)
        kill.result()
