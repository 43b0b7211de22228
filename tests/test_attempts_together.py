"""Attempts of the factorial experiment side by side: each as if it were alone, stored alone, and no other's concern."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from designs import PlainJob, one_job, study
from designs import factorial as smoke
from toys import toy_task

from lib.results.factorial import MEASUREMENTS
from lib.results.schema import COMPLETED
from lib.training import factorial
from lib.training import job as job_module
from lib.training import jobs as run
from lib.training.factorial import PLACES, train
from lib.training.resume import Resume

CELLS = ["lstm", "exponential", "unicornn"]
LEVELS = {"width": 16, "learning_rate": 0.01, "start": "author", "batch_size": 8, "together": 4}
OTHERS = [
    {"order": "permuted", "noise": "post"},
    {"order": "sequential", "noise": "uniform", "training_length": 1},
    {"order": "permuted", "noise": "uniform", "learning_rate": 0.1, "replicate": 3},
]


def attempts(architecture, **changes):
    levels = LEVELS | changes
    return [one_job("factorial", **levels | {"architecture": architecture} | o) for o in OTHERS]


@pytest.mark.parametrize("architecture", CELLS)
def test_attempts_side_by_side_are_those_alone_but_for_rounding(architecture):
    jobs, data = attempts(architecture), toy_task(n=16)
    alone = [train([job.at(together=1)], data, [None])[0] for job in jobs]
    beside = train(jobs, data, [None] * len(jobs))
    for job, one, two in zip(jobs, alone, beside, strict=True):
        assert (one["status"], one["epochs_completed"]) == (COMPLETED, job.training_length)
        assert (two["status"], two["epochs_completed"]) == (COMPLETED, job.training_length)
        for name in MEASUREMENTS:
            assert two[name].shape == (2, job.training_length)
            np.testing.assert_allclose(two[name], one[name], rtol=1e-4, atol=1e-4, err_msg=name)
    losses = np.array([one["loss"][0, 0] for one in alone])
    assert np.ptp(losses) > 2e-3, "attempts must differ by more than they may be off"
    assert abs(alone[0]["loss"][0, 1] - losses[0]) > 2e-3, "and have learned something"


SMALL = {"architecture": ("gru",), "width": (16,), "learning_rate": (0.01, 0.1), "batch_size": 8}
SMALL |= {"order": ("permuted",), "noise": ("none",), "replicates": 2}
SMALL |= {"train_size": 16, "together": 3}


def design(**changes):
    return smoke(**SMALL | changes)


def trained(where, prepared, cache, **changes):
    return study(where, prepared, cache, **SMALL | changes)


def shards(cache):
    return {path.name: path.read_bytes() for path in cache.glob("*.npz")}


@pytest.fixture(scope="module")
def whole(where, prepared, tmp_path_factory):
    """Three replicates of two rates, trained uninterrupted: six attempts, three in a pass."""
    cache = tmp_path_factory.mktemp("whole")
    return trained(where, prepared, cache, replicates=3), cache


def test_each_attempt_has_a_shard_of_its_own(where, prepared, whole, tmp_path, capsys):
    trained(where, prepared, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.npz")}
    assert len(before) == 4
    capsys.readouterr()
    ds = trained(where, prepared, tmp_path, replicates=3)
    told = capsys.readouterr().err
    assert "2 of 6 jobs to run" in told and "and 1 beside it" in told
    assert {path: path.stat().st_mtime_ns for path in before} == before
    expected, cache = whole
    assert ds.identical(expected), "in other company the same attempts came out otherwise"
    assert shards(tmp_path).keys() == shards(cache).keys()
    assert json.loads((tmp_path / "factorial.cost.json").read_text())["core_seconds"] > 0


def test_company_is_what_shapes_a_pass_and_no_part_of_a_name(prepared):
    def made(**changes):
        return next(design(**changes).jobs())

    one = made()
    name = one.name(prepared)
    for same in ({"learning_rate": (0.5,)}, {"training_length": (9,)}, {"order": ("sequential",)}):
        other = made(**same)
        assert other.batch_key == one.batch_key and other.name(prepared) != name
    assert made(noise=("post",)).batch_key == made(noise=("uniform",)).batch_key != one.batch_key
    others = [{"width": (32,)}, {"architecture": ("rnn",)}, {"batch_size": 4}, {"probe_size": 3}]
    assert len({made(**other).batch_key for other in others} | {one.batch_key}) == 5
    assert made(replicates=9).name(prepared) == name != made(together=4).name(prepared)
    alone = made(together=1)
    assert "together" not in name["levels"] and alone.name(prepared)["levels"] == name["levels"]
    assert alone.places == 1 and alone.name(prepared) != name
    said = [job.engines for job in (one, alone)]
    assert said == [{"gru": "reference, 3 places; probes numba-cpu"}, {"gru": "numba-cpu"}]


def test_the_machine_chooses_one_by_one_on_a_cpu_and_many_on_a_gpu(prepared, monkeypatch):
    job, alone = (next(design(together=k).jobs()) for k in (0, 1))
    assert job.name(prepared) == alone.name(prepared)
    for module in (job_module, factorial):
        monkeypatch.setattr(module, "pick_device", lambda _: torch.device("cuda"))
    assert job.places == PLACES
    engine = f"reference-cuda, {PLACES} places; probes library-cuda"
    assert job.engines == {"gru": engine}


def test_a_width_that_a_cpu_would_round_is_told_before_anything_is_trained(prepared):
    (wide,) = design(width=(20,), replicates=1, learning_rate=(0.1,)).jobs()
    with pytest.raises(ValueError, match="multiple of 16 side by side on a CPU, got 20; take such"):
        wide.name(prepared)


def _plain(title, size=1.0, key=""):
    return PlainJob(None, title=title, size=size, batch_key=key, places=2 if key else 1)


def test_calls_hold_a_batch_and_the_largest_of_every_group_is_first():
    one = [("b", 5), ("a", 4, "A"), ("c", 4, "B"), ("a", 3, "A"), ("d", 2, "A"), ("g", 3)]
    asked = [("one", job) for job in one] + [("two", ("e", 1)), ("two", ("f", 0.5))]
    jobs = [run._Asked(_plain(*job), group, {}, None) for group, job in asked]
    order = ["aa", "e", "b", "c", "g", "d", "f"]
    assert ["".join(j.job.title for j in call) for call in run._calls(jobs)] == order


def test_cut_off_apart_they_end_with_the_same_bytes(
    where, prepared, whole, tmp_path, monkeypatch, capsys
):
    jobs, saved = list(design(replicates=3).jobs())[:3], []

    def dying(self, total):
        # Of the second of three, at its second step: the first's is a step newer.
        if len(saved) == 4:
            raise KeyboardInterrupt
        saved.append(self.save())

    names = [job.name(prepared) for job in jobs]
    with monkeypatch.context() as patch, ThreadPoolExecutor() as other:
        patch.setattr(Resume, "save_if_due", dying)
        with pytest.raises(KeyboardInterrupt):
            other.submit(run.work, jobs, names, prepared, tmp_path).result()
    assert len(list(tmp_path.glob("*.state"))) == 3 and not shards(tmp_path)
    expected, cache = whole
    assert trained(where, prepared, tmp_path, replicates=3).identical(expected)
    told = capsys.readouterr().err
    assert {f"goes on from step {k}" in told for k in (1, 2)} == {True}
    assert shards(tmp_path).keys() == shards(cache).keys()
    assert not list(tmp_path.glob("*.state")), "states are forgotten with the results kept"
