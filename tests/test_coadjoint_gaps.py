"""Figure 2.3's experiment: basic RNNs on the long time gap task under growing coadjoint penalties."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from lib.experiments import coadjoint_gaps
from lib.experiments.coadjoint_gaps import COADJOINT_GAPS, SCHEMA, Job, initial_model, run_job
from lib.probes import Diverged
from lib.probes.coadjoint import adjoint_states
from lib.results.schema import COMPLETED, DIVERGED
from lib.run.params import load_profile
from lib.training.jobs import run_experiment

SMALL = Job(
    kappa=0.0,
    replicate=0,
    width=8,
    time_steps=6,
    place=3,
    steps=300,
    batch_size=50,
    learning_rate=0.01,
    check_every=50,
    check_size=200,
    probe_size=5,
)


@pytest.fixture(scope="module")
def plain():
    return run_job(SMALL)


@pytest.fixture(scope="module")
def bound():
    return run_job(replace(SMALL, kappa=0.3))


def test_a_short_gap_is_learned_with_and_without_the_penalty(plain, bound):
    assert plain["accuracy"] == 1 and bound["accuracy"] == 1
    assert plain["status"] == bound["status"] == COMPLETED
    assert plain["completed_steps"] == SMALL.steps and plain["kept_step"] % SMALL.check_every == 0


def test_the_penalty_makes_the_adjoints_more_uniform(plain, bound):
    spread = [arrays["adjoint"].std(axis=1).mean() for arrays in (plain, bound)]
    assert spread[1] < 0.8 * spread[0]
    assert bound["penalty"] < plain["penalty"]


def test_norms_are_those_of_the_kept_network():
    # After no successful step the kept network is the initial one.
    job = replace(SMALL, steps=1, check_every=1, learning_rate=1e-12)
    arrays = run_job(job)
    initial, _, _, probe = job.seeds()
    model = initial_model(job, initial).double()
    u, labels = job.draw(job.probe_size, np.random.default_rng(probe))

    def losses(x):
        return torch.nn.functional.cross_entropy(model.output(x), labels, reduction="none")

    _, adjoints = adjoint_states(model.cell, u.double(), losses, engine="reference")
    states, _ = model.cell(u.double())
    np.testing.assert_allclose(10 ** arrays["adjoint"], adjoints.norm(dim=2).T, rtol=1e-5)
    np.testing.assert_allclose(arrays["state"], states.detach().norm(dim=2).T, rtol=1e-5)


def test_kappa_changes_neither_start_nor_sequences():
    one, other = SMALL.seeds(), replace(SMALL, kappa=7.0).seeds()
    assert [seed.entropy for seed in one] == [seed.entropy for seed in other]
    assert SMALL.seeds()[0].entropy != replace(SMALL, replicate=1).seeds()[0].entropy


def test_divergence_ends_the_training_and_is_recorded(monkeypatch):
    real, calls = coadjoint_gaps.coadjoint_loss, []

    def breaks_at_the_70th_call(*args, **kwargs):
        calls.append(1)
        if len(calls) == 70:
            raise Diverged("as a test")
        return real(*args, **kwargs)

    monkeypatch.setattr(coadjoint_gaps, "coadjoint_loss", breaks_at_the_70th_call)
    arrays = run_job(SMALL)
    # Call 1 looks at the untrained network, call 52 at the one after 50 steps.
    assert arrays["status"] == DIVERGED
    assert arrays["completed_steps"] == 67 and arrays["kept_step"] == 50
    assert np.isfinite(arrays["state"]).all()


def test_the_profile_s_dataset_is_whole(tmp_path):
    ds = run_experiment(COADJOINT_GAPS, "smoke", load_profile("smoke"), cache=tmp_path / "cache")
    assert (ds["status"] == COMPLETED).all()
    assert all(ds[name].notnull().all() for name in SCHEMA.variables)
    SCHEMA.load(SCHEMA.save(ds, tmp_path / "coadjoint_gaps.nc"))


def test_every_profile_has_backpropagation_and_the_text_s_horizon():
    for name in ("smoke", "quick", "real", "paper"):
        section = load_profile(name).coadjoint_gaps
        assert section.time_steps == 40 and 0 in section.kappas and len(section.kappas) > 1
