"""Figure 2.3's experiment: basic RNNs on the long time gap task under growing coadjoint penalties."""

import numpy as np
import pytest
import torch
from designs import one_job, train

from lib.experiments import coadjoint_gaps, load_profile
from lib.experiments.coadjoint_gaps import SCHEMA, initial_model, run, seeds
from lib.probes import Diverged
from lib.probes.coadjoint import coadjoint_loss
from lib.results.schema import COMPLETED, DIVERGED
from lib.tasks.long_time_gap import draw_signs
from lib.training.model import tensors

SMALL = one_job(
    "coadjoint_gaps",
    kappa=0.0,
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


def run_job(job):
    return run(job, None, None)


@pytest.fixture(scope="module")
def plain():
    return run_job(SMALL)


@pytest.fixture(scope="module")
def bound():
    return run_job(SMALL.at(kappa=0.3))


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
    job = SMALL.at(steps=1, check_every=1, learning_rate=1e-12)
    arrays = run_job(job)
    initial, _, _, probe = seeds(job)
    model = initial_model(job, initial).double()
    part = draw_signs(job.place, job.time_steps, job.probe_size, np.random.default_rng(probe))
    inputs, labels = tensors(part)
    u = model.drive(inputs)

    def losses(x):
        return torch.nn.functional.cross_entropy(model.output(x), labels, reduction="none")

    seen = []
    keep = lambda adjoints: seen.append(adjoints.detach()) or adjoints.sum((0, 2))  # noqa: E731
    coadjoint_loss(model.cell, u.double(), losses, keep, kappa=0.0, engine="reference")
    (adjoints,), (states, _) = seen, model.cell(u.double())
    np.testing.assert_allclose(10 ** arrays["adjoint"], adjoints.norm(dim=2).T, rtol=1e-5)
    np.testing.assert_allclose(arrays["state"], states.detach().norm(dim=2).T, rtol=1e-5)


def test_kappa_changes_neither_start_nor_sequences():
    one, other = seeds(SMALL), seeds(SMALL.at(kappa=7.0))
    assert [seed.entropy for seed in one] == [seed.entropy for seed in other]
    assert seeds(SMALL)[0].entropy != seeds(SMALL.at(replicate=1))[0].entropy


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


def test_the_profile_s_dataset_is_whole(tmp_path, monkeypatch):
    ds = train("coadjoint_gaps", load_profile("smoke").designs["coadjoint_gaps"], monkeypatch)
    assert (ds["status"] == COMPLETED).all()
    assert all(ds[name].notnull().all() for name in SCHEMA.variables)
    SCHEMA.load(SCHEMA.save(ds, tmp_path / "coadjoint_gaps.nc"))


def test_every_profile_has_backpropagation_and_the_text_s_horizon():
    for name in ("smoke", "quick", "real", "paper"):
        (design,) = load_profile(name).designs["coadjoint_gaps"]
        assert design.time_steps == 40 and 0 in design.kappa and len(design.kappa) > 1
