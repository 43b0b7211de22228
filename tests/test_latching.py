"""Networks that latch: how they are trained, frozen, fitted anew, measured and kept."""

import numpy as np
import pytest
import torch
from designs import one_job, train

from lib.probes.adjoint import adjoint_norms
from lib.probes.lyapunov import largest_exponent
from lib.results.schema import COMPLETED, DIVERGED, ResultsError, load
from lib.run.params import ParameterError, checked
from lib.training import latching as module
from lib.training.latching import SCHEMA, Latching
from lib.training.profile import load_profile

BASE = {
    "width": 4,
    "place": 2,
    "horizon": 4,
    "longer": (6, 9),
    "learning_rate": 0.02,
    "training_steps": 12,
    "batch_size": 8,
    "clip": 0.5,
    "tolerance": 0.01,
    "check_every": 4,
    "check_size": 20,
    "fit_size": 60,
    "test_size": 40,
    "probe_size": 5,
}


def _training(**changes):
    return one_job("latching", **BASE | changes)


def _run(job):
    return {name: np.asarray(value) for name, value in module.run(job, None, None).items()}


@pytest.fixture(scope="module")
def measured():
    return _run(_training())


# ------------------------------------------------------------------------------- one training


def test_a_training_is_measured_whether_or_not_it_learned(measured):
    assert measured["status"] == COMPLETED and measured["steps_completed"] == 12
    assert measured["error"].shape == (3,) and np.isfinite(measured["error"]).all()
    assert np.isfinite(measured["exponent"]).all()
    for name in ("states", "adjoints"):
        values = measured[name]
        assert values.shape == (3, 5, 9)
        for row, T in enumerate((4, 6, 9)):
            assert np.isfinite(values[row, :, :T]).all()
            assert np.isnan(values[row, :, T:]).all()
    assert (measured["states"][0, :, :4] <= 2).all()  # four neurons within -1..1


def test_replicates_differ():
    one, other = (module.start(_training(replicate=k)).cell.W for k in (0, 1))
    assert not torch.equal(one, other)
    torch.testing.assert_close(one @ one.T, torch.eye(4), atol=1e-6, rtol=0)


def test_an_easy_task_is_learned_and_the_training_then_ends():
    training = _training(
        place=3, horizon=4, longer=(), training_steps=3000, batch_size=64, check_size=500
    )
    found = _run(training)
    assert found["steps_completed"] < 3000
    assert found["error"][0] < 0.01


def test_a_loss_that_is_not_finite_ends_the_training_without_measurements(monkeypatch):
    plain, calls = module.cross_entropy, iter(range(100))
    monkeypatch.setattr(
        module, "cross_entropy", lambda *given: plain(*given) * (np.nan if next(calls) == 3 else 1)
    )
    found = _run(_training())
    assert found["status"] == DIVERGED and found["steps_completed"] == 3
    for name in ("error", "exponent", "states", "adjoints"):
        assert np.isnan(found[name]).all(), name


def test_the_output_layer_is_fitted_to_its_optimum():
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(400, 3, generator=generator, dtype=torch.float64)
    labels = (states @ torch.tensor([1.0, -2.0, 0.5]).double() + 0.3 > 0).double()
    flipped = torch.rand(400, generator=generator) < 0.1  # not separable
    labels = torch.where(flipped, 1 - labels, labels)
    layer = module.fit_output(states, labels)
    p = torch.sigmoid(layer(states)[:, 0])
    slope = (p - labels) @ states / 400 + 2 * module._PENALTY * layer.weight[0]
    assert slope.abs().max() < 1e-6
    assert abs((p - labels).mean().item()) < 1e-6
    assert not any(part.requires_grad for part in layer.parameters())


def test_adjoints_and_exponent_are_those_of_the_library(monkeypatch):
    """A second way to the numbers of one horizon: autograd through the whole sequence."""
    seen = {}
    monkeypatch.setattr(
        module,
        "adjoint_norms",
        lambda cell, u, loss: (
            seen.update(cell=cell, u=u, loss=loss) or adjoint_norms(cell, u, loss)
        ),
    )
    found = _run(_training(longer=()))
    cell, u = seen["cell"].double(), seen["u"].double()
    state, states = torch.zeros(5, 4, dtype=torch.float64, requires_grad=True), []
    for u_t in u:
        (state,) = cell.step(cell.weights(), (state,), u_t)
        states.append(state)
    gradients = torch.autograd.grad(seen["loss"](states[-1]), states)
    expected = torch.stack([g.norm(dim=1).log10() for g in gradients], dim=1)
    np.testing.assert_allclose(found["adjoints"][0], expected, atol=1e-4)
    lengths = torch.stack([x.norm(dim=1) for x in states], dim=1).detach()
    np.testing.assert_allclose(found["states"][0], lengths, rtol=1e-4)
    np.testing.assert_allclose(found["exponent"], largest_exponent(cell, u, start=2))


# ------------------------------------------------------------------------------- the dataset


@pytest.fixture(scope="module")
def designs():
    (design,) = load_profile("smoke").designs["latching"]
    return (design.at(training_steps=4, check_every=4, test_size=10, fit_size=10),)


def test_every_training_is_kept_and_the_best_is_shown(designs, monkeypatch, tmp_path):
    ds = train("latching", designs)
    assert ds.sizes["training"] == designs[0].replicates
    worst = ds["error"].max("horizon").values
    assert worst[int(ds["example"])] == worst.min()
    T = designs[0].horizon
    followed = ds["adjoint"].sel(horizon=T, time=slice(1, T)).median("sequence")
    kept = ds["adjoint_median"].sel(training=int(ds["example"]), horizon=T, time=slice(1, T))
    np.testing.assert_allclose(followed, kept, rtol=1e-6)
    path = SCHEMA.save(ds, tmp_path / "latching.nc")
    assert load(path).identical(ds)
    ds["exponent"][0, 0] = np.nan
    with pytest.raises(ResultsError, match="exponent: expected values wherever"):
        SCHEMA.validate(ds)


def test_diverged_trainings_stay_in_the_dataset(designs, monkeypatch):
    plain = module.start

    def spoilt(job):
        model = plain(job)
        if job.replicate == 0:
            with torch.no_grad():
                model.output.bias.fill_(np.nan)
        return model

    monkeypatch.setattr(module, "start", spoilt)
    ds = train("latching", designs)
    assert ds["status"].values.tolist() == [DIVERGED] + [COMPLETED] * (designs[0].replicates - 1)
    assert bool(ds["error"].isel(training=0).isnull().all())
    assert int(ds["example"]) != 0


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"place": 6}, "place is 6; expected it before the end of the sequence, 6"),
        ({"longer": [5]}, r"longer is \[5\]; expected lengths above the horizon, 6"),
        ({"longer": [9, 9]}, "each longer than the last"),
        ({"probe_size": 65}, "probe_size is 65; expected at most test_size, 64"),
        ({"tolerance": 0.5}, "less than 0.5"),
    ],
)
def test_a_design_that_makes_no_sense_is_refused(designs, change, complaint):
    section = {name: value for name, value in designs[0].values().items() if name != "replicate"}
    with pytest.raises(ParameterError, match=complaint):
        checked(Latching, section | {"horizon": 6, "test_size": 64} | change, "latching")
