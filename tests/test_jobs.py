"""The study: interrupted, extended, killed and scaled out, it comes to the same dataset."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import dask
import numpy as np
import pytest
import torch
from dask.distributed import Client, LocalCluster, Security
from designs import train_on

from lib.results import factorial as results
from lib.results.schema import COMPLETED, DIVERGED
from lib.run import fingerprint as fingerprints
from lib.run.params import Jobs
from lib.tasks.sources import prepare
from lib.training.jobs import Work, cluster, progress, run, run_jobs
from lib.training.jobs.run import JobError
from lib.training.jobs.shards import read_shard, write_shard
from lib.training.outcome import Fit
from lib.training.profile import DESIGNS, load_profile
from lib.training.resume import Resume

EXPERIMENT = DESIGNS["factorial"]
(SMOKE,) = load_profile("smoke").designs["factorial"]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    prepare("digits", folder)
    return folder


def _design(**changes):
    small = {
        "architecture": ("rnn", "unicornn"),
        "width": (3,),
        "learning_rate": (0.01,),
        "order": ("sequential",),
        "noise": ("none", "post"),
        "replicates": 2,
        "start": "text",
    }
    return SMOKE.at(**small | changes)


def run_study(scheduler, prepared, cache, **changes):
    where = Jobs(scheduler=scheduler, workers=1)
    designs = (_design(**changes),)
    return train_on(where, "factorial", designs, cache=cache, prepared=prepared)


@pytest.fixture(scope="session")
def whole(scheduler, prepared, tmp_path_factory):
    """A small study, run uninterrupted."""
    return run_study(scheduler, prepared, tmp_path_factory.mktemp("cache"))


def test_a_finished_study_is_whole_and_runs_nothing_again(
    whole, scheduler, prepared, tmp_path, monkeypatch
):
    assert (results.validate(whole)["status"] == COMPLETED).all()
    assert whole["time_steps"].sel(dataset="digits", noise="none").item() == 64
    assert whole["parameters"].sel(architecture="rnn", width=3, dataset="digits").item() == 15
    run_study("local", prepared, tmp_path)  # other processes come to the same
    (path,) = tmp_path.glob("*.cost.json")
    cost = json.loads(path.read_text())
    assert cost["jobs"] == len(list(tmp_path.glob("*.npz"))) and cost["core_seconds"] > 0
    monkeypatch.setattr("lib.training.jobs.run.connect", lambda *_: pytest.fail("connected again"))
    again = run_study(scheduler, prepared, tmp_path)
    assert again.identical(whole)
    assert json.loads(path.read_text()) == cost, "what was found in shards cost as much"
    first = results.save(whole, tmp_path / "a.nc").read_bytes()
    assert results.save(again, tmp_path / "b.nc").read_bytes() == first


def test_an_extended_study_runs_only_what_is_new(scheduler, prepared, tmp_path):
    run_study(scheduler, prepared, tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.npz")}
    extended = run_study(scheduler, prepared, tmp_path, replicates=3)
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.npz")}
    assert extended.sizes["replicate"] == 3
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) * 3 // 2


def _altered(path):
    """Leave a whole shard whose values are not those that were written."""
    with np.load(path) as shard:
        arrays = {name: shard[name] for name in shard.files}
    np.savez_compressed(path, **arrays | {"loss": arrays["loss"] * 1.01 + 1})


def _folder(path):
    path.unlink()
    path.mkdir()
    (path / "inside").touch()


def _bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as container:
        container.writestr("loss.npy", bytes(600 * 2**20))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda path: path.write_bytes(b""), "zip"),
        (lambda path: path.write_bytes(path.read_bytes()[:-99]), "zip"),
        (_altered, "its content is not what was written"),
        (_folder, "Is a directory"),
        (_bomb, "it unpacks to 629,145,600 bytes, expected at most"),
        (lambda path: path.unlink() or path.symlink_to("nowhere"), "No such file"),
        (lambda path: path.with_suffix(".damaged").mkdir() or _folder(path), "Is a directory"),
        (lambda path: write_shard(path.parent, {"job": 2}, {}).rename(path), "another job's results"),
        (lambda path: _pickle(path), "Object arrays cannot be loaded"),
    ],
)  # fmt: skip
def test_a_shard_that_cannot_be_trusted_is_put_aside(tmp_path, damage, why, capsys):
    path = write_shard(tmp_path, {"job": 1, "code": 2}, {"loss": np.zeros(3)})
    damage(path)
    assert read_shard(tmp_path, {"code": 2, "job": 1}) is None
    assert re.search(rf"{path.name} cannot be trusted \(.*{why}", capsys.readouterr().err)
    assert not os.path.lexists(path) and list(tmp_path.glob("*.damaged*"))
    assert not (tmp_path / "touched").exists()
    write_shard(tmp_path, {"job": 1, "code": 2}, {"loss": np.zeros(3)})
    assert read_shard(tmp_path, {"code": 2, "job": 1}) is not None, "in any order"


class _Touches:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def _pickle(path):
    with np.load(path) as shard:
        arrays = {name: shard[name] for name in shard.files}
    np.savez_compressed(
        path, **arrays | {"loss": np.array(_Touches(path.with_name("touched")), object)}
    )


def test_a_damaged_shard_is_run_again(whole, scheduler, prepared, tmp_path, capsys):
    run_study(scheduler, prepared, tmp_path)
    shard = min(tmp_path.glob("*.npz"))
    _altered(shard)
    assert run_study(scheduler, prepared, tmp_path).identical(whole)
    assert f"shard {shard.name} cannot be trusted" in capsys.readouterr().err


def test_the_runner_s_own_code_names_no_shard(monkeypatch):
    reached = {
        "lib/cells/rnn.py": "1",
        "lib/training/jobs/progress.py": "2",
        "lib/run/params.py": "3",
    }
    monkeypatch.setattr(fingerprints, "reached", lambda *_, **__: reached)
    run._code.cache_clear()
    before = run._code(("lib.any",))
    for path, changes in zip(reached, (True, False, False), strict=True):
        run._code.cache_clear()
        monkeypatch.setitem(reached, path, "another")
        assert (run._code(("lib.any",)) != before) == changes
        monkeypatch.setitem(reached, path, str(list(reached).index(path) + 1))
    run._code.cache_clear()


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full_disk(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    named = r"No space left on device; make room and run again: '.*\.npz'"
    with pytest.raises(OSError, match=named):
        write_shard(tmp_path, {"job": 1}, {})
    monkeypatch.setattr("lib.training.jobs.shards.MOST", 100)
    with pytest.raises(ValueError, match="a job returned 104 bytes; expected at most 100, return"):
        write_shard(tmp_path, {"job": 1}, {"loss": np.zeros(13)})
    assert list(tmp_path.iterdir()) == []


def test_shard_names_follow_what_results_depend_on(prepared, tmp_path):
    def name(folder=prepared, **changes):
        return EXPERIMENT.work(next(_design(**changes).jobs()), folder).name()

    assert name(replicates=7) == name(), "how many others there are changes no attempt"
    assert name(batch_size=16) != name() and name(start="author") != name()
    assert name()["versions"].keys() == {"torch", "numba"} and "code" in name()
    assert name()["job"]["engines"].keys() == {"rnn"}
    shutil.copy(prepared / "digits.nc", tmp_path)
    assert name(tmp_path) == name(), "where the file lies changes nothing"
    content = (tmp_path / "digits.nc").read_bytes()
    assert name()["job"]["data"] == {"digits": hashlib.sha256(content).hexdigest()}
    (tmp_path / "digits.nc").write_bytes(content + b"\0")
    assert name(tmp_path) != name()


def test_the_time_left_is_learned_from_jobs_done_in_each_group(monkeypatch, capsys):
    clock = iter([2.5, 5.5, 10.4, 10.5, 20.5, 31.5])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    study = progress.Progress()
    for group, size in [("a", 1), ("a", 9), ("a", 5), ("b", 1000), ("b", 1)]:
        study.add(group, size, None)
    study.add("b", 7, 0.0)  # a shard that says no cost
    study.begin()
    for group, size, seconds, diverged in [
        ("a", 9, 18.0, 1),
        ("a", 5, 10.0, 1),  # too soon after the last line
        ("b", 1, 3.0, 0),
        ("b", 1000, 3.0, 0),
        ("a", 1, 1.0, 0),
    ]:
        study.done(group, size, seconds, diverged)
        study.report("x", 2)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "5 of 6 jobs to run" and len(told) == 5
    for line, said in zip(
        told[1:],
        [
            "job 2/6, 1 attempts diverged, 0:00:03 gone, more than 0:00:06 left",
            "job 4/6, 2 attempts diverged, 0:00:08 gone, about 0:25:01 left",
            "about 0:00:01 left",
            "0:00:29 gone; x",
        ],
        strict=True,
    ):
        assert said in line


def test_without_any_job_done_nothing_is_said_of_the_time_left(capsys):
    study = progress.Progress()
    study.add("a", 2, None)
    study.report("x", 2)
    assert "gone; x" in capsys.readouterr().err


@contextlib.contextmanager
def _in_this_process(scheduler, workers):
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as here:
        _CLIENTS[:] = [here]
        yield here


_CLIENTS = []


class _Plain(Work):
    """A job of a test, which is no code of `lib`."""

    code = "0" * 16


def _fails(count, path, resume):
    """Fail so many times; a line in the file at `path` tells of every try."""
    with path.open("a") as file:
        file.write("tried\n")
    if len(path.read_text().splitlines()) <= count:
        raise OSError("the disk is away")
    return {"status": 0}


@pytest.mark.parametrize(("failures", "tries"), [(0, 1), (1, 2), (2, 3), (9, 3)])
def test_a_job_that_fails_is_tried_twice_more(tmp_path, monkeypatch, failures, tries):
    monkeypatch.setattr("lib.training.jobs.run.connect", _in_this_process)
    path = tmp_path / "tries"
    job = _Plain(run=_fails, arguments=(failures, path), identity={}, modules=())
    study = partial(run_jobs, {"test": [job]}, tmp_path, Jobs(scheduler="local", workers=1))
    if failures < tries:
        assert study()["test"].results[0]["status"] == 0
    else:
        with pytest.raises(JobError, match="the first was test: job: OSError: the disk is away"):
            study()
    assert len(path.read_text().splitlines()) == tries


def _diverges(resume):
    small = torch.full((1,), 1e-38) * 1e-3
    return {"status": np.array([DIVERGED, COMPLETED, DIVERGED]), "small": small.item()}


def test_a_job_flushes_denormals_and_its_diverged_attempts_are_counted(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("lib.training.jobs.run.connect", _in_this_process)
    job = _Plain(run=_diverges, arguments=(), identity={}, modules=())
    found = run_jobs({"test": [job]}, tmp_path, Jobs(scheduler="local", workers=1))["test"]
    assert found.results[0].keys() == {"status", "small"} and found.results[0]["small"] == 0
    assert (found.jobs, found.trained, found.diverged, found.resumed) == (1, 1, 2, 0)
    assert "job 1/1, 2 attempts diverged" in capsys.readouterr().err


def _counts(path, resume):
    with path.open("a") as file:
        file.write("ran\n")
    return {"status": 0, "value": 7}


def test_a_training_of_two_groups_runs_once_and_each_group_has_its_result_and_cost(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("lib.training.jobs.run.connect", _in_this_process)
    path = tmp_path / "runs"
    same = _Plain(run=_counts, arguments=(path,), identity={"i": 0}, modules=())
    other = replace(same, identity={"i": 1})
    where = Jobs(scheduler="local", workers=1)
    found = run_jobs({"a": [same, other, same], "b": [replace(same, title="x")]}, tmp_path, where)
    assert len(path.read_text().splitlines()) == 2
    assert [len(one.results) for one in found.values()] == [3, 1]
    assert [(one.jobs, one.trained) for one in found.values()] == [(2, 2), (1, 1)]
    assert all(result["value"] == 7 for one in found.values() for result in one.results)
    again = run_jobs({"b": [same]}, tmp_path, where)["b"]
    assert (again.jobs, again.trained, again.cost) == (1, 0, found["b"].cost)


def test_what_a_job_cost_before_it_was_cut_off_counts(tmp_path):
    def spend(resume):
        until = time.process_time() + 0.2
        while time.process_time() < until:
            pass
        return resume.seconds

    cut = Resume(tmp_path / "a.state", beside=2)
    assert 0.1 <= spend(cut) < 0.2 and not cut.resumed
    state = torch.nn.Linear(1, 1), {}, SimpleNamespace(state=dict, restore=id), Fit(0, 1, [])
    cut.save(*state)
    again = Resume(tmp_path / "a.state")
    again.load(*state)
    assert spend(again) >= 0.3 and again.resumed


# An aligned array fits into a freed one's place only after that has merged with its neighbours, which takes about ten rounds.
FRESH_PAGES = """
import resource, threading, torch

def least():
    for _ in range(40):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(25_000_000)
        found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

found = []
thread = threading.Thread(target=least)
thread.start()
thread.join()
print(min(found))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the memory allocator is glibc's")
def test_a_worker_keeps_the_memory_of_large_arrays():
    environment = os.environ | cluster._ENVIRONMENT
    command = [sys.executable, "-c", FRESH_PAGES]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2_000  # pages; 24,414 where 100 MB are new each time


def test_a_worker_with_other_code_is_refused_by_name(prepared, tmp_path):
    from lib.training.jobs.run import work

    job = EXPERIMENT.work(next(_design().jobs()), prepared)
    with pytest.raises(JobError, match="this worker has other code, .* instead of 0123"):
        work([job], [job.name() | {"code": "0123"}], tmp_path)


def test_a_job_that_fails_is_named_and_the_others_are_kept(prepared, tmp_path, scheduler):
    design = _design(architecture=("rnn",), noise=("none",))
    jobs = [EXPERIMENT.work(job, prepared) for job in design.jobs()]
    broken = replace(
        jobs[0], arguments=(None, prepared), identity={"broken": 1}, title="the bad one"
    )
    with pytest.raises(JobError, match="1 of 2 jobs failed, .* test: the bad one: AttributeError"):
        run_jobs({"test": [broken, jobs[1]]}, tmp_path, Jobs(scheduler=scheduler, workers=1))
    assert len(list(tmp_path.glob("*.npz"))) == 1


def test_a_data_set_that_is_not_prepared_is_named(tmp_path):
    with pytest.raises(ValueError, match="'digits' is not prepared: .*run notebook 00 first"):
        run_study("local", tmp_path, tmp_path / "cache")


def test_a_scheduler_that_does_not_answer_is_named(prepared, tmp_path, monkeypatch):
    monkeypatch.setattr("lib.training.jobs.cluster.TIMEOUT", "1s")
    with pytest.raises(ConnectionError, match="no Dask scheduler answers at tcp://127.0.0.1:1"):
        run_study("tcp://127.0.0.1:1", prepared, tmp_path)


def test_workers_that_are_gone_are_missed_after_a_stated_time(monkeypatch, capsys):
    monkeypatch.setattr(cluster, "WORKERS", 0.06)
    # Told after six looks without a worker, once: not of the first five, once of each of the others.
    looks = iter("0000010000001000000001")

    def nthreads():
        workers = next(looks, "end")
        if workers == "end":
            ended.set()
        return {} if workers == "0" else {"one": 1}

    ended = threading.Event()
    cluster._watch(SimpleNamespace(nthreads=nthreads), "dask worker tcp://a:1", ended)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert told[0] == (
        "no worker has been there for 0 s; what is done is kept, and the rest waits for `dask worker tcp://a:1`"
    )


def test_local_processes_admit_no_stranger_and_are_counted():
    with cluster.connect("local", 2) as client:
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:") and run._workers(client) == 2
        with pytest.raises(ConnectionError, match=f"{address} speaks TLS, and Dask's config.* no"):
            cluster.connect(address, 0).__enter__()
        with pytest.raises(ConnectionError, match="no Dask scheduler answers"):
            cluster.connect(address.replace("tls", "tcp"), 0).__enter__()
    assert run._workers(client) == 0


def test_a_scheduler_with_certificates_of_dask_s_configuration_is_reached(tmp_path):
    made = Security.temporary()
    secured = {"protocol": "tls://", "security": made, "dashboard_address": None}
    names = ("ca-file", "client.key", "client.cert")
    parts = (made.tls_ca_file, made.tls_client_key, made.tls_client_cert)
    named = {f"distributed.comm.tls.{name}": part for name, part in zip(names, parts, strict=True)}
    job = _Plain(run=_counts, arguments=(tmp_path / "runs",), identity={}, modules=())
    with LocalCluster(n_workers=1, processes=False, **secured) as remote, dask.config.set(named):
        where = Jobs(scheduler=remote.scheduler_address, workers=0)
        assert where.scheduler.startswith("tls://")
        found = run_jobs({"test": [job]}, tmp_path, where)
    assert found["test"].results[0]["value"] == 7


def _is_lost(resume):
    """Be left alone by the scheduler, as a client is told (`Client._reconnect`)."""
    [client] = _CLIENTS
    client.loop.add_callback(lambda: [future.cancel("lost") for future in client.futures.values()])
    time.sleep(1)
    return {"status": 0}


def test_a_scheduler_that_is_lost_is_told_with_what_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("lib.training.jobs.run.connect", _in_this_process)
    job = _Plain(run=_is_lost, arguments=(), identity={}, modules=())
    with pytest.raises(ConnectionError, match="was lost, with 1 of 1 jobs to do; the others"):
        run_jobs({"test": [job]}, tmp_path, Jobs(scheduler="tcp://host:1", workers=1))


_DRIVER = """
import sys
from pathlib import Path
from lib.training.profile import DESIGNS, load_profile
from lib.run.params import Jobs
if __name__ == "__main__":
    (design,) = load_profile("smoke").designs["factorial"]
    design = design.at(architecture=("rnn", "gru"))
    where = Jobs(scheduler="local", workers=2)
    sys.path.insert(0, "tests")
    from designs import train_on
    ds = train_on(where, "factorial", (design,), prepared=Path(sys.argv[1]), cache=sys.argv[2])
    DESIGNS["factorial"].schema(ds).save(ds, sys.argv[3])
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
