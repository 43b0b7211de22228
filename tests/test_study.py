"""The study: interrupted, extended, killed and scaled out, it comes to the same dataset."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from dask.distributed import Client, LocalCluster

from lib.experiments.factorial import STUDY
from lib.experiments.factorial.plan import plan_blocks, training_settings
from lib.results import factorial as results
from lib.run.params import load_profile
from lib.tasks.sources import prepare
from lib.training.jobs import run_experiment
from lib.training.jobs.shards import read_shard, shard_path, write_shard


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    prepare("digits", folder)
    return folder


def _profile(scheduler="local", **study):
    profile = load_profile("smoke")
    where = profile.jobs.model_copy(update={"scheduler": scheduler, "workers": 1})
    small = {
        "architectures": ("rnn", "unicornn"),
        "widths": (3,),
        "learning_rates": (0.01,),
        "orders": ("sequential",),
        "noises": ("none", "post"),
        "replicates": 2,
        "attempts_per_block": 1,
    }
    study = profile.study.model_copy(update=small | study)
    return profile.model_copy(update={"jobs": where, "study": study})


def run_study(profile, prepared, cache):
    return run_experiment(STUDY, "smoke", profile, cache=cache, prepared=prepared)


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
def profile(scheduler):
    return _profile(scheduler=scheduler)


@pytest.fixture(scope="session")
def whole(prepared, tmp_path_factory):
    """A small study, run uninterrupted in local processes."""
    return run_study(_profile(), prepared, tmp_path_factory.mktemp("cache"))


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


def test_blocks_are_a_matter_of_scheduling_alone(whole, scheduler, prepared, tmp_path):
    one_block = _profile(attempts_per_block=8, scheduler=scheduler)
    _same(run_study(one_block, prepared, tmp_path), whole)


def test_a_finished_study_runs_nothing(whole, profile, prepared, tmp_path, monkeypatch):
    run_study(profile, prepared, tmp_path)
    monkeypatch.setattr("lib.training.jobs.run.connect", lambda *_: pytest.fail("connected again"))
    _same(run_study(profile, prepared, tmp_path), whole)


def test_an_extended_study_runs_only_what_is_new(profile, scheduler, prepared, tmp_path):
    run_study(profile, prepared, tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.npz")}
    extended = run_study(_profile(replicates=3, scheduler=scheduler), prepared, tmp_path)
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.npz")}
    assert extended.sizes["replicate"] == 3
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) * 3 // 2


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 not a zip", None])
def test_a_damaged_shard_is_run_again(whole, profile, prepared, tmp_path, damage, capsys):
    run_study(profile, prepared, tmp_path)
    shard = min(tmp_path.glob("*.npz"))
    content = shard.read_bytes()
    shard.write_bytes(content[: len(content) // 2] if damage is None else damage)
    _same(run_study(profile, prepared, tmp_path), whole)
    assert f"shard {shard.name} cannot be read" in capsys.readouterr().err


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
    def identity(**changes):
        return plan_blocks(_profile(**changes), prepared)[0].identity()

    assert identity(scheduler="tcp://a:1") == identity()
    assert identity(batch_size=16) != identity()
    assert identity(flush_denormals=False) != identity()
    study = _profile().study
    assert "learning_rates" not in training_settings(study)


def test_an_unknown_architecture_is_named_before_anything_runs(prepared, tmp_path):
    with pytest.raises(ValueError, match="unknown architecture 'lstn'"):
        run_study(_profile(architectures=("lstn",)), prepared, tmp_path)


def test_a_data_set_that_is_not_prepared_is_named(tmp_path):
    with pytest.raises(ValueError, match="'digits' is not prepared: .*run notebook 00 first"):
        run_study(_profile(), tmp_path, tmp_path / "cache")


def test_a_scheduler_that_does_not_answer_is_named(prepared, tmp_path, monkeypatch):
    monkeypatch.setattr("lib.training.jobs.cluster.TIMEOUT", "1s")
    profile = _profile(scheduler="tcp://127.0.0.1:1")
    with pytest.raises(ConnectionError, match="no Dask scheduler answers at tcp://127.0.0.1:1"):
        run_study(profile, prepared, tmp_path)


_DRIVER = """
import sys
from pathlib import Path
from lib.run.params import load_profile
from lib.training.jobs import run_experiment
from lib.experiments.factorial import STUDY
profile = load_profile("smoke")
small = {"architectures": ("rnn", "gru"), "attempts_per_block": 1}
study = profile.study.model_copy(update=small)
jobs = profile.jobs.model_copy(update={"workers": 2})
profile = profile.model_copy(update={"jobs": jobs, "study": study})
ds = run_experiment(STUDY, "smoke", profile, prepared=sys.argv[1], cache=sys.argv[2])
from lib.results.factorial import save
save(ds, Path(sys.argv[3]))
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
        profile = _profile(scheduler=address)

        def kill_one():
            while len(list(cache.glob("*.npz"))) < 2:
                time.sleep(0.02)
            processes[-1].kill()

        killer = threading.Thread(target=kill_one)
        killer.start()
        ds = run_study(profile, prepared, cache)
        killer.join()
        _same(ds, whole)
        assert len(list(cache.glob("*.npz"))) == whole["status"].size
        assert processes[-1].wait() != 0
    finally:
        for process in processes:
            process.kill()
            process.wait()
