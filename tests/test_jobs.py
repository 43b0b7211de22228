"""The study: interrupted, extended, killed and scaled out, it comes to the same dataset."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from dask.distributed import Client, LocalCluster

from lib.experiments import EXPERIMENTS, load_profile
from lib.results import factorial as results
from lib.run.params import Jobs
from lib.tasks.sources import prepare
from lib.training.jobs import run_jobs
from lib.training.jobs.run import JobError
from lib.training.jobs.shards import read_shard, shard_path, write_shard

EXPERIMENT = EXPERIMENTS["factorial"]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    prepare("digits", folder)
    return folder


def _design(**changes):
    (design,) = load_profile("smoke").designs["factorial"]
    small = {
        "architecture": ("rnn", "unicornn"),
        "width": (3,),
        "learning_rate": (0.01,),
        "order": ("sequential",),
        "noise": ("none", "post"),
        "replicates": 2,
    }
    return design.at(**small | changes)


def run_study(scheduler, prepared, cache, **changes):
    where = Jobs(scheduler=scheduler, workers=1)
    designs = (_design(**changes),)
    return EXPERIMENT.train("factorial", "smoke", designs, where, cache=cache, prepared=prepared)


@pytest.fixture(scope="session")
def scheduler():
    """Address of a cluster that the tests share: starting one takes longer than a small study."""
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        memory_limit=0,
    ) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="session")
def whole(prepared, tmp_path_factory):
    """A small study, run uninterrupted in local processes."""
    return run_study("local", prepared, tmp_path_factory.mktemp("cache"))


def _same(a, b):
    assert a.identical(b)


def test_the_dataset_is_complete_and_follows_the_schema(whole):
    results.validate(whole)
    assert (whole["status"] == results.COMPLETED).all()
    assert whole["time_steps"].sel(dataset="digits", noise="none").item() == 64
    assert whole["parameters"].sel(architecture="rnn", width=3, dataset="digits").item() == 15
    assert whole["classes"].values.tolist() == [10]


def test_saving_gives_the_same_bytes_twice(whole, tmp_path):
    first = results.save(whole, tmp_path / "a.nc").read_bytes()
    assert results.save(whole, tmp_path / "b.nc").read_bytes() == first


def test_a_finished_study_runs_nothing(whole, scheduler, prepared, tmp_path, monkeypatch):
    run_study(scheduler, prepared, tmp_path)
    monkeypatch.setattr("lib.training.jobs.run.connect", lambda *_: pytest.fail("connected again"))
    _same(run_study(scheduler, prepared, tmp_path), whole)


def test_an_extended_study_runs_only_what_is_new(scheduler, prepared, tmp_path):
    run_study(scheduler, prepared, tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.npz")}
    extended = run_study(scheduler, prepared, tmp_path, replicates=3)
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.npz")}
    assert extended.sizes["replicate"] == 3
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) * 3 // 2


def _altered(content):
    """Return a whole shard whose values are not those that were written."""
    with np.load(io.BytesIO(content)) as shard:
        arrays = {name: shard[name] for name in shard.files}
    arrays["loss"] = arrays["loss"] * 1.01
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"PK\x03\x04 not a zip",
        lambda whole: whole[: len(whole) // 2],
        _altered,
    ],
    ids=["empty", "no zip", "cut", "altered"],
)
def test_a_damaged_shard_is_run_again(whole, scheduler, prepared, tmp_path, damage, capsys):
    run_study(scheduler, prepared, tmp_path)
    shard = min(tmp_path.glob("*.npz"))
    content = shard.read_bytes()
    shard.write_bytes(damage(content))
    _same(run_study(scheduler, prepared, tmp_path), whole)
    assert f"shard {shard.name} cannot be trusted" in capsys.readouterr().err
    assert shard.with_suffix(".damaged").exists()


def test_a_shard_of_another_job_is_not_trusted(tmp_path, capsys):
    path = write_shard(tmp_path, {"job": 1}, {"status": np.zeros(1)})
    path.rename(shard_path(tmp_path, {"job": 2}))
    assert read_shard(tmp_path, {"job": 2}) is None
    assert "another job's results" in capsys.readouterr().err


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full_disk(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_shard(tmp_path, {"job": 1}, {})
    assert list(tmp_path.iterdir()) == []


def test_shard_names_follow_what_results_depend_on(prepared):
    def name(**changes):
        return EXPERIMENT.work(next(_design(**changes).jobs()), prepared).name()

    assert name(replicates=7) == name(), "how many others there are changes no attempt"
    assert name(batch_size=16) != name()
    assert name(start="author") != name()
    assert {"code", "versions"} <= set(name()) and name()["versions"].keys() == {"torch", "numba"}
    assert name()["job"]["engines"].keys() == {"rnn"}


def test_a_worker_with_other_code_is_refused_by_name(prepared, tmp_path):
    from lib.training.jobs.run import work

    job = EXPERIMENT.work(next(_design().jobs()), prepared)
    with pytest.raises(JobError, match="this worker has other code, .* instead of 0123"):
        work(job, job.name() | {"code": "0123"}, tmp_path)


def test_a_job_that_fails_is_named_and_the_others_are_kept(prepared, tmp_path):
    design = _design(architecture=("rnn",), noise=("none",))
    jobs = [EXPERIMENT.work(job, prepared) for job in design.jobs()]
    broken = replace(
        jobs[0], arguments=(None, prepared), identity={"broken": 1}, title="the bad one"
    )
    with pytest.raises(
        JobError, match="1 of 2 jobs of test failed, .* the bad one: AttributeError"
    ):
        run_jobs("test", [broken, jobs[1]], tmp_path, Jobs(scheduler="local", workers=1))
    assert len(list(tmp_path.glob("*.npz"))) == 1


def test_a_data_set_that_is_not_prepared_is_named(tmp_path):
    with pytest.raises(ValueError, match="'digits' is not prepared: .*run notebook 00 first"):
        run_study("local", tmp_path, tmp_path / "cache")


def test_a_scheduler_that_does_not_answer_is_named(prepared, tmp_path, monkeypatch):
    monkeypatch.setattr("lib.training.jobs.cluster.TIMEOUT", "1s")
    with pytest.raises(ConnectionError, match="no Dask scheduler answers at tcp://127.0.0.1:1"):
        run_study("tcp://127.0.0.1:1", prepared, tmp_path)


_DRIVER = """
import sys
from lib.experiments import EXPERIMENTS, load_profile
from lib.run.params import Jobs
if __name__ == "__main__":
    (design,) = load_profile("smoke").designs["factorial"]
    design = design.at(architecture=("rnn", "gru"))
    where = Jobs(scheduler="local", workers=2)
    experiment = EXPERIMENTS["factorial"]
    ds = experiment.train("factorial", "smoke", (design,), where, prepared=sys.argv[1], cache=sys.argv[2])
    experiment.schema.save(ds, sys.argv[3])
"""


@pytest.mark.slow
def test_a_study_killed_in_the_middle_resumes_to_the_same_bytes(prepared, tmp_path):
    def start(cache, out):
        command = [sys.executable, "-c", _DRIVER, str(prepared), str(cache), str(out)]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    assert start(tmp_path / "uninterrupted", tmp_path / "a.nc").wait() == 0
    cache = tmp_path / "killed"
    driver = start(cache, tmp_path / "b.nc")
    while len(list(cache.glob("*.npz"))) < 3:
        assert driver.poll() is None, "the study ended before it could be killed"
        time.sleep(0.05)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    kept = len(list(cache.glob("*.npz")))
    assert not (tmp_path / "b.nc").exists()
    assert start(cache, tmp_path / "b.nc").wait() == 0
    assert len(list(cache.glob("*.npz"))) > kept
    assert (tmp_path / "b.nc").read_bytes() == (tmp_path / "a.nc").read_bytes()


@pytest.mark.slow
def test_a_worker_of_a_remote_scheduler_is_killed_and_nothing_is_lost(whole, prepared, tmp_path):
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    scheduler_file = tmp_path / "scheduler.json"
    processes = [
        subprocess.Popen(
            [*dask, "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
             "--scheduler-file", str(scheduler_file)],
            stderr=subprocess.DEVNULL,
            env=environment,
        )
    ]  # fmt: skip
    try:
        for _ in range(2):
            worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny"]
            arguments = [
                "--nthreads",
                "1",
                "--no-dashboard",
                "--scheduler-file",
                str(scheduler_file),
            ]
            processes.append(
                subprocess.Popen([*worker, *arguments], stderr=subprocess.DEVNULL, env=environment)
            )
        with Client(scheduler_file=str(scheduler_file), timeout="60s") as client:
            client.wait_for_workers(2, timeout=60)
            address = client.scheduler.address
        cache = tmp_path / "cache"

        def kill_one():
            while len(list(cache.glob("*.npz"))) < 2:
                time.sleep(0.02)
            processes[-1].kill()

        killer = threading.Thread(target=kill_one)
        killer.start()
        ds = run_study(address, prepared, cache)
        killer.join()
        _same(ds, whole)
        assert len(list(cache.glob("*.npz"))) == whole["status"].size
        assert processes[-1].wait() != 0
    finally:
        for process in processes:
            process.kill()
            process.wait()
