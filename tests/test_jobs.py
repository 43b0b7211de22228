"""A study that is interrupted, extended, killed or scaled out ends with the same dataset."""

import contextlib
import errno
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import dask
import designs
import numpy as np
import pytest
import torch
from dask.distributed import Client, LocalCluster, Security
from designs import (
    copy_to_edit,
    edit,
    factorial,
    first_attempt,
    make_run,
    plain_job,
    single_job,
    study,
)
from distributed.client import _get_global_client
from processes import python
from study.config.cluster import ClusterSettings
from study.paths import ROOT
from study.pipeline import fingerprint
from study.pipeline.files import write_text
from study.results import factorial as results
from study.results.schema import COMPLETED, DIVERGED
from study.training import cache_key as keys
from study.training import cluster, progress, sealed
from study.training.cache_key import cache_key, code_fingerprint
from study.training.checkpoint import Checkpoint
from study.training.jobs import run_jobs
from study.training.profile import Profile
from study.training.progress import PendingJob, Progress
from study.training.shards import SECONDS, read_shard, shard_path, write_shard
from study.training.state import RunState
from study.training.worker import JobError, run_batch

SMALL = {"architecture": ("rnn", "unicornn"), "width": (3,), "learning_rate": (0.01,)}
SMALL |= {"start": "paper", "order": ("sequential",), "noise": ("none", "post"), "replicates": 2}
LOCAL = ClusterSettings(scheduler="local", workers=1)


def run_study(cluster_settings, prepared, cache):
    return study(cluster_settings, prepared, cache, **SMALL)


def test_a_finished_study_runs_nothing_again(shared_cluster, prepared, tmp_path, monkeypatch):
    whole = run_study(shared_cluster, prepared, tmp_path / "whole")
    assert (results.FACTORIAL.validate(whole)["status"] == COMPLETED).all()
    assert whole["time_steps"].sel(dataset="digits", noise="none").item() == 64
    assert whole["parameters"].sel(architecture="rnn", width=3, dataset="digits").item() == 15
    run_study(LOCAL, prepared, tmp_path)  # other processes come to the same
    monkeypatch.setattr("study.training.jobs.connect", lambda *_: pytest.fail("connected again"))
    again = run_study(shared_cluster, prepared, tmp_path)
    assert again.identical(whole)
    first = results.FACTORIAL.save(whole, tmp_path / "a" / "same.nc").read_bytes()
    assert results.FACTORIAL.save(again, tmp_path / "b" / "same.nc").read_bytes() == first


def test_costs_are_stored_for_each_group_and_profile(shared_cluster, prepared, tmp_path):
    profile = Profile("smoke", shared_cluster, {"factorial": (factorial(**SMALL),)})
    folders = {"out": tmp_path / "out", "cache": tmp_path, "prepared": prepared}
    first = profile.train(["factorial"], **folders)["factorial"]
    assert first.jobs == first.trained == len(list(tmp_path.glob("*.npz")))
    assert first.core_seconds > 0
    stored = tmp_path / "factorial.smoke.cost.json"
    assert json.loads(stored.read_text()) == first.cost
    again = profile.train(["factorial"], **folders)["factorial"]
    assert again.trained == 0
    assert json.loads(stored.read_text()) == first.cost, "cached results cost as much"


def test_shard_is_found_by_its_key_only(tmp_path, capsys):
    written = write_shard(tmp_path, {"job": 1, "code": 2}, {"loss": np.zeros(3)})
    assert read_shard(tmp_path, {"code": 2, "job": 1})["loss"].tolist() == [0, 0, 0]
    renamed = written.rename(shard_path(tmp_path, {"job": 2}))
    assert read_shard(tmp_path, {"job": 2}) is None
    assert f"{renamed.name} is damaged (its content is not what" in capsys.readouterr().err
    assert read_shard(tmp_path, {"job": 2}) is None, "it was put aside"


def test_a_failing_disk_does_not_condemn_a_shard(tmp_path, monkeypatch):
    def fail(path):
        raise TimeoutError

    written = write_shard(tmp_path, {"job": 1}, {"loss": np.zeros(3)})
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", fail)
        with pytest.raises(TimeoutError):
            read_shard(tmp_path, {"job": 1})
    assert list(tmp_path.iterdir()) == [written]
    assert read_shard(tmp_path, {"job": 1})["loss"].tolist() == [0, 0, 0]


def test_a_damaged_shard_that_another_process_is_faster_to_set_aside(tmp_path, monkeypatch):
    path = write_shard(tmp_path, {"job": 1}, {"loss": np.zeros(3)})
    path.write_bytes(path.read_bytes()[:-1])
    set_aside = sealed.set_aside

    def second(path):
        set_aside(path)  # by the other process
        return set_aside(path)

    monkeypatch.setattr(sealed, "set_aside", second)
    assert read_shard(tmp_path, {"job": 1}) is None
    assert [file.name for file in tmp_path.iterdir()] == [f"{path.stem}.damaged"]


def test_a_shard_that_another_process_has_just_removed_is_missing(tmp_path, monkeypatch, capsys):
    path = write_shard(tmp_path, {"job": 1}, {"loss": np.zeros(3)})

    def lexists(_):
        path.unlink()  # by the other process, after this one has looked
        return True

    monkeypatch.setattr(sealed, "os", SimpleNamespace(path=SimpleNamespace(lexists=lexists)))
    assert read_shard(tmp_path, {"job": 1}) is None
    assert not capsys.readouterr().err


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full_disk(path, content):
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(OSError, match=r"No space left .*; make room and run again: '.*\.npz'"):
        write_shard(tmp_path, {"job": 1}, {})
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def read_only_folder():
    """A folder in which this process can't write, even if the tests run as root."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:  # others can't enter the parents of `tmp_path`
        Path(folder).chmod(0o555)
        if user == 0:
            os.seteuid(65534)  # nobody; root may write to any folder
        try:
            yield Path(folder)
        finally:
            os.seteuid(user)


@pytest.mark.parametrize("cache", ["", "new"])
def test_a_read_only_cache_is_refused_before_the_first_job(read_only_folder, monkeypatch, cache):
    monkeypatch.setattr("study.training.jobs.connect", lambda *_: pytest.fail("a job would start"))
    folder = read_only_folder / cache
    expected = rf"Permission denied; let this user write there and run again: '{folder}'$"
    with pytest.raises(PermissionError, match=expected):
        run_jobs({"test": [plain_job(_counts)]}, folder, LOCAL)
    with pytest.raises(PermissionError, match="Permission denied; let this .*json'$"):
        write_text(folder / "cost.json", "{}")
    assert list(read_only_folder.iterdir()) == []


def test_a_full_disk_ends_training_and_keeps_finished_jobs(shared_cluster, tmp_path, monkeypatch):
    jobs = [plain_job(_counts, (0, tmp_path / f"tries{i}"), {"i": i}) for i in range(3)]
    cache = tmp_path / "cache"
    write_bytes = Path.write_bytes

    def write_on_a_small_disk(path, content):
        write_bytes(path, content[: len(content) // 2])
        if len(list(cache.glob("[!.]*.npz"))) == 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_bytes(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write_on_a_small_disk)
        with pytest.raises(OSError, match=r"No space left .*; make room and run again: '.*\.npz'$"):
            run_jobs({"test": jobs}, cache, shared_cluster)
    (stored,) = cache.iterdir()
    assert stored.suffix == ".npz", "nothing else, such as half a file, is left"
    again = run_jobs({"test": jobs}, cache, shared_cluster)["test"]
    assert (again.jobs, again.trained) == (3, 2)


def test_training_goes_on_if_a_checkpoint_does_not_fit_on_the_disk(tmp_path, monkeypatch, capsys):
    checkpoint = Checkpoint(tmp_path / "a.state", "LEM, replicate 0", every=0.0)
    state = RunState(step=1)
    checkpoint.track(torch.nn.Linear(1, 1), [], SimpleNamespace(state=dict), state)
    checkpoint.save_if_due(total_steps=3)
    saved = (tmp_path / "a.state").read_bytes()

    def full_disk(path, content):
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    state.step = 2
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full_disk)
        checkpoint.save_if_due(total_steps=3)
    warning = "LEM, replicate 0: its state is not saved ([Errno 28] No space left on device; make "
    assert warning in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.state"]
    assert (tmp_path / "a.state").read_bytes() == saved, "the earlier checkpoint stays"
    checkpoint.save_if_due(total_steps=3)
    assert (tmp_path / "a.state").read_bytes() != saved, "it is tried again"


def test_shard_names_follow_what_results_depend_on(prepared, tmp_path):
    def name(folder=prepared, **changes):
        return cache_key(first_attempt(**SMALL | changes), folder)

    assert name(replicates=7) == name(), "how many others there are changes no attempt"
    assert name(batch_size=16) != name() and name(sigmoid=True) != name()
    assert "code" in name()
    assert " ".join(name()["versions"]) == "numpy torch numba scipy scikit-learn"
    assert name()["engines"].keys() == {"rnn"}
    shutil.copy(prepared / "digits.nc", tmp_path)
    assert name(tmp_path) == name(), "where the file lies changes nothing"
    content = (tmp_path / "digits.nc").read_bytes()
    assert name()["data"] == {"digits": hashlib.sha256(content).hexdigest()}
    (tmp_path / "digits.nc").write_bytes(content + b"\0")
    assert name(tmp_path) != name()


EDITS = [
    ("longrnn/cells/lstm.py", "Take one step.", "Take one step of the equations above.", set()),
    ("longrnn/cells/lstm.py", "torch.tanh(g)", "0.999 * torch.tanh(g)", {"lstm"}),
    ("longrnn/cells/irnn.py", "if weights.form == 8", "if weights.form != 8", set()),
    ("study/training/seeds.py", 'digest(), "big")', 'digest(), "little")', {"lstm", "linear_rnn"}),
    ("study/training/progress.py", "QUIET = 5.0", "QUIET = 6.0", set()),
    ("study/config/file.py", "import ", "import os\nimport ", set()),
]
"""File, text, replacement, and architectures that must be trained again.

Changes of prose and of the runner retrain nothing.
"""


def test_edit_renames_shards_of_its_users_only(tmp_path, monkeypatch):
    copy_to_edit(tmp_path, monkeypatch, "lib")
    names = ("lstm", "linear_rnn")
    jobs = [first_attempt(**SMALL | {"architecture": (name,)}) for name in names]
    modules = []
    plain = keys._fingerprint

    def noted(names):
        modules.append(names)
        return plain(names)

    monkeypatch.setattr(keys, "_fingerprint", noted)
    expected = [code_fingerprint(job) for job in jobs]

    def codes():
        options = {"root": tmp_path, "without": keys.WITHOUT_EFFECT}
        return [fingerprint.fingerprint(names, **options) for names in modules]

    before = codes()
    assert before == expected
    for file, old, new, changed in EDITS:
        edit(tmp_path / "lib" / file, old, new)
        after = codes()
        others = {name for name, one, two in zip(names, before, after, strict=True) if one != two}
        assert others == changed, file
        before = after


def test_time_left_is_estimated_per_group(monkeypatch, capsys):
    clock = iter([2.5, 5.5, 10.4, 10.5, 20.5, 31.5])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    groups = [("a", 1), ("a", 9), ("a", 5), ("b", 1000), ("b", 1)]
    jobs = [
        PendingJob(plain_job(None, relative_cost=size), group, {}, None) for group, size in groups
    ]
    without_cost = PendingJob(plain_job(None, relative_cost=7), "b", {}, {})  # as a shard may be
    lines = Progress([*jobs, without_cost])
    expected = [  # no line for the second: it comes too soon after the first
        (1, 18.0, 1, "job 2/6, 1 attempts diverged, 0:00:03 elapsed, more than 0:00:06 left"),
        (2, 10.0, 1, None),
        (4, 3.0, 0, "job 4/6, 2 attempts diverged, 0:00:08 elapsed, about 0:25:01 left"),
        (3, 3.0, 0, "about 0:00:01 left"),
        (0, 1.0, 0, "0:00:29 elapsed; x"),
    ]
    for k, seconds, diverged, _ in expected:
        jobs[k].result = {SECONDS: seconds, "status": np.full(diverged, DIVERGED)}
        jobs[k].ran_now = True
        lines.report("x", 2)
    output = capsys.readouterr().err.splitlines()
    for line, message in zip(
        output, filter(None, (message for *_, message in expected)), strict=True
    ):
        assert message in line


def _counts(failures, path, resume):
    """Fail so many times; each try adds a line to the file at `path`."""
    with path.open("a") as file:
        file.write("tried\n")
    if len(path.read_text().splitlines()) <= failures:
        raise OSError("the disk is away")
    return {"status": 0, "value": 7}


@pytest.mark.parametrize(("failures", "tries"), [(0, 1), (1, 2), (2, 3), (9, 3)])
def test_failed_job_is_retried_twice_and_named(shared_cluster, tmp_path, failures, tries, capsys):
    path = tmp_path / "tries"
    good = plain_job(_counts, (0, tmp_path / "good"), {"i": 1})
    bad = plain_job(_counts, (failures, path), pass_key="x", pass_size=2)
    neighbor = replace(good, levels={"i": 2}, pass_key="x", pass_size=2)
    study = partial(run_jobs, {"test": [bad, neighbor, good]}, tmp_path, shared_cluster)
    if failures < tries:
        assert [one["value"] for one in study()["test"].results] == [7, 7, 7]
    else:
        with pytest.raises(JobError, match="2 of 3 jobs failed, .* test: job: OSError: the disk"):
            study()
        assert len(list(tmp_path.glob("*.npz"))) == 1
        at_once = "test: job, and 1 more failed (OSError: the disk is away); the other jobs go on\n"
        assert at_once in capsys.readouterr().err
    assert len(path.read_text().splitlines()) == tries


def _diverges(resume):
    small = torch.full((1,), 1e-38) * 1e-3
    return {"status": np.array([DIVERGED, COMPLETED, DIVERGED]), "small": small.item()}


def test_jobs_flush_denormals_and_count_diverged_attempts(shared_cluster, tmp_path, capsys):
    actual = run_jobs({"test": [plain_job(_diverges)]}, tmp_path, shared_cluster)["test"]
    assert actual.results[0]["small"] == 0
    assert (actual.jobs, actual.trained, actual.diverged, actual.resumed) == (1, 1, 2, 0)
    output = capsys.readouterr().err
    assert "1 of 1 jobs to run" in output and "job 1/1, 2 attempts diverged" in output


def test_job_of_two_groups_runs_once(shared_cluster, tmp_path):
    path = tmp_path / "runs"
    same = plain_job(_counts, (0, path), {"i": 0})
    other = replace(same, levels={"i": 1})
    groups = {"a": [same, other, same], "b": [replace(same, title="x")]}
    actual = run_jobs(groups, tmp_path, shared_cluster)
    assert len(path.read_text().splitlines()) == 2
    values = []
    for group in actual.values():
        values.append([result["value"] for result in group.results])
    assert values == [[7] * 3, [7]]
    assert [(one.jobs, one.trained) for one in actual.values()] == [(2, 2), (1, 1)]
    again = run_jobs({"b": [same]}, tmp_path, shared_cluster)["b"]
    assert again == replace(actual["b"], trained=0) and again.jobs == 1


def test_cost_before_a_kill_counts(tmp_path):
    def spend(resume):
        until = time.process_time() + 0.2
        while time.process_time() < until:
            pass
        return resume.seconds

    cut = Checkpoint(tmp_path / "a.state", runs_in_pass=2)
    assert 0.1 <= spend(cut) < 0.2 and not cut.resumed
    state = torch.nn.Linear(1, 1), [], SimpleNamespace(state=dict, restore=id), RunState(step=1)
    cut.track(*state)
    cut.resume()
    cut.save()
    again = Checkpoint(tmp_path / "a.state")
    again.track(*state)
    again.resume()
    assert spend(again) >= 0.3 and again.resumed


# An aligned array fits into the memory of a freed one only after that has merged with its
# neighbors, which takes about ten rounds.
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
    done = python("-c", FRESH_PAGES, env=os.environ | cluster._ENVIRONMENT)
    assert int(done.stdout) < 2_000  # pages; 24,414 where 100 MB are new each time


def test_worker_with_other_code_is_refused(prepared, tmp_path):
    job = first_attempt(**SMALL)
    with pytest.raises(JobError, match="code of this worker is .*, but 0123 in the process"):
        run_batch([job], [cache_key(job, prepared) | {"code": "0123"}], prepared, tmp_path)


def test_worker_with_another_device_is_refused(prepared, tmp_path):
    here, other = ("cuda", "cpu") if torch.cuda.is_available() else ("cpu", "cuda")
    job = replace(first_attempt(**SMALL), device=other)  # as a driver with other hardware plans it
    with pytest.raises(JobError, match=f"device of this worker is {here}, but {other} in the"):
        run_batch([job], [cache_key(job, prepared)], prepared, tmp_path)


def test_worker_with_other_instructions_is_refused(prepared, tmp_path):
    job = first_attempt(**SMALL)
    key = cache_key(job, prepared) | {"instructions": {"MKL_CBWR": "AVX2"}}
    with pytest.raises(JobError, match="instructions of this worker is not set, but {'MKL_CBWR'"):
        run_batch([job], [key], prepared, tmp_path)


DROPOUT = {
    "width": 6, "learning_rate": 0.01, "batch_size": 8, "records": 2, "steps": 40,
    "test_draws": 16, "output_dropout": 0.5,
}  # fmt: skip


@pytest.fixture(scope="module")
def dropout_jobs():
    """Return four jobs that draw dropout masks from PyTorch's generator."""
    task = {"task": "adding", "time_steps": 6}
    rates = (0.1, 0.2, 0.3, 0.4)
    runs = [make_run(f"LEM {dt}", "lem", task, dt=dt, **DROPOUT) for dt in rates]
    return [single_job(run) for run in runs]


def test_a_worker_with_two_threads_is_refused(dropout_jobs, tmp_path):
    quiet = {"processes": False, "dashboard_address": None}
    scheduler = LocalCluster(n_workers=0, protocol="tcp://", **quiet)
    with scheduler, contextlib.ExitStack() as stack:
        address = scheduler.scheduler_address
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny"]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        worker = subprocess.Popen([*command, "--nthreads", "2", "--no-dashboard"], **silent)
        stack.callback(worker.wait)
        stack.callback(worker.kill)
        advice = f"has 2 threads, which would share .*`{cluster.worker_command(address)}`, once"
        with pytest.raises(ConnectionError, match=advice):
            run_jobs(
                {"test": dropout_jobs}, tmp_path, ClusterSettings(scheduler=address, workers=0)
            )
        assert not list(tmp_path.glob("*.npz"))


def test_the_printed_command_starts_one_worker_without_a_memory_limit():
    local = "tcp://127.0.0.1:8786"
    printed = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert printed.count(f" {cluster.worker_command(local)} &\n") == 2
    on_slurm = cluster.worker_command('"tcp://$(hostname):8786"')
    assert f"\nsrun {on_slurm} &\n" in printed

    scheduler = LocalCluster(
        n_workers=0, protocol="tcp://", processes=False, dashboard_address=None
    )
    with scheduler, Client(scheduler) as client, contextlib.ExitStack() as stack:
        command = shlex.split(cluster.worker_command(scheduler.scheduler_address))
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        worker = subprocess.Popen([sys.executable, "-m", *command], **silent)
        stack.callback(worker.wait)
        stack.callback(worker.terminate)
        client.wait_for_workers(1, timeout=60)
        (started,) = client.scheduler_info()["workers"].values()
        assert started["nthreads"] == 1
        assert started["memory_limit"] == 0


def test_jobs_in_two_threads_draw_their_own_dropout(dropout_jobs, tmp_path):
    def losses(job):
        (result,) = run_batch([job], [cache_key(job, None)], None, tmp_path)
        return result["test_loss"].tolist()

    expected = [losses(job) for job in dropout_jobs]
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(losses, dropout_jobs)) == expected


def _visible_device(resume):
    time.sleep(0.5)  # so that the other job goes to the other worker
    return {"status": 0, "device": np.array(os.environ[cluster.VISIBLE_DEVICES])}


def test_each_gpu_has_its_own_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "visible_devices", lambda: ["4", "7"])
    for module in (designs, sys.modules[__name__]):  # which workers cannot import
        cloudpickle.register_pickle_by_value(module)
    jobs = [plain_job(_visible_device, levels={"i": i}) for i in range(4)]
    one_per_gpu = ClusterSettings(scheduler="local", workers="auto")
    trained = run_jobs({"test": jobs}, tmp_path, one_per_gpu)["test"]
    assert {str(result["device"]) for result in trained.results} == {"4", "7"}


def test_a_worker_that_joins_later_is_refused_as_well():
    options = {"processes": False, "protocol": "tcp://", "dashboard_address": None}
    with LocalCluster(n_workers=1, threads_per_worker=2, **options) as late, Client(late) as client:
        check = client.submit(cluster.check_this_worker)
        assert isinstance(check.exception(), ConnectionError)
        assert "has 2 threads, which would share PyTorch's random" in str(check.exception())


def test_missing_data_and_silent_schedulers_are_named(prepared, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="'digits' is not prepared: .*run notebook 00 first"):
        run_study(LOCAL, tmp_path, tmp_path / "cache")
    monkeypatch.setattr(cluster, "ANSWER_TIMEOUT", "200ms")
    with pytest.raises(ConnectionError, match="no Dask scheduler answers at tcp://127.0.0.1:1"):
        run_study(ClusterSettings(scheduler="tcp://127.0.0.1:1", workers=1), prepared, tmp_path)


def test_local_workers_are_counted_and_refuse_strangers():
    with cluster.connect("local", 2) as client:
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:") and len(client.nthreads()) == 2
        with pytest.raises(ConnectionError, match="uses TLS, and Dask's config.* no") as secured:
            cluster.connect(address, 0).__enter__()
        with pytest.raises(ConnectionError, match="no Dask scheduler answers") as plain:
            cluster.connect(address.replace("tls", "tcp"), 0).__enter__()
    assert address in str(secured.value) and plain
    # The errors keep their frames alive: no client may be left in them, through which the next file
    # would be written.
    assert _get_global_client() is None


def test_scheduler_with_certificates_is_reached(tmp_path):
    made = Security.temporary()
    secured = {"protocol": "tls://", "security": made, "dashboard_address": None}
    secured["threads_per_worker"] = 1
    names = ("ca-file", "client.key", "client.cert")
    parts = (made.tls_ca_file, made.tls_client_key, made.tls_client_cert)
    named = {f"distributed.comm.tls.{name}": part for name, part in zip(names, parts, strict=True)}
    job = plain_job(_counts, (0, tmp_path / "runs"))
    with LocalCluster(n_workers=1, processes=False, **secured) as remote, dask.config.set(named):
        with_tls = ClusterSettings(scheduler=remote.scheduler_address, workers=0)
        assert with_tls.scheduler.startswith("tls://")
        actual = run_jobs({"test": [job]}, tmp_path, with_tls)
    assert actual["test"].results[0]["value"] == 7
