"""Latching networks: what is measured of them, and that every run is kept."""

import numpy as np
import pytest
import torch
from designs import loaded, one_job, single_job, train
from longrnn.probes.adjoint import adjoint_norms
from longrnn.probes.lyapunov import largest_exponent
from refusals import refused
from study.config.latching import Latching
from study.config.section import ParameterError, parse_section
from study.results.datasets import load
from study.results.latching import LATCHING
from study.results.netcdf import ResultsError
from study.results.schema import COMPLETED, DIVERGED
from study.training import latching as module
from toys import autograd_norms


@pytest.fixture(scope="module")
def config():
    """Four neurons on sequences of 6, 9 and 12 steps, of which 4 are followed."""
    return one_job("latching").config


@pytest.fixture(scope="module")
def few_steps():
    """The design of all runs, each of which takes four steps."""
    (design,) = loaded("smoke").designs["latching"]
    return design.copy_with(training_steps=4, check_every=4, test_size=10, fit_size=10)


def _run(config, **changes):
    """Return what a run measures, with other settings."""
    results = single_job(config, **changes).train()
    return {name: np.asarray(value) for name, value in results.items()}


@pytest.fixture(scope="module")
def measured(config):
    return _run(config)


def test_runs_are_measured_even_without_learning(config, measured):
    assert measured["status"] == COMPLETED
    assert measured["steps_completed"] == config.training_steps
    assert measured["error"].shape == (3,) and np.isfinite(measured["error"]).all()
    assert np.isfinite(measured["exponent"]).all()
    for name in ("states", "adjoints"):
        assert measured[name].shape == (3, 4, 12)
        for values, T in zip(measured[name], (6, 9, 12), strict=True):
            assert np.isfinite(values[:, :T]).all() and np.isnan(values[:, T:]).all()
    assert (measured["states"][0, :, :6] <= 2).all()  # four neurons within -1..1


def test_replicates_differ(config):
    one, other = (
        module.initial_model(single_job(config, replicate=k).config).cell.W for k in (0, 1)
    )
    assert not torch.equal(one, other)
    torch.testing.assert_close(one @ one.T, torch.eye(4), atol=1e-6, rtol=0)


def test_easy_task_is_learned_and_ends_the_run(config):
    easy = {"horizon": 4, "longer": (), "learning_rate": 0.02, "training_steps": 3000}
    results = _run(config, **easy, batch_size=64, clip=0.5, check_size=500)
    assert results["steps_completed"] < 3000
    assert results["error"][0] < 0.01


def test_the_output_layer_is_fitted_to_its_optimum():
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(400, 3, generator=generator, dtype=torch.float64)
    labels = (states @ torch.tensor([1.0, -2.0, 0.5]).double() + 0.3 > 0).double()
    labels = torch.where(torch.rand(400, generator=generator) < 0.1, 1 - labels, labels)
    layer = module.fit_output(states, labels)
    p = torch.sigmoid(layer(states)[:, 0])
    assert ((p - labels) @ states / 400 + 2 * module._PENALTY * layer.weight[0]).abs().max() < 1e-6
    assert abs((p - labels).mean().item()) < 1e-6
    assert not any(part.requires_grad for part in layer.parameters())


def test_adjoints_and_exponent_equal_plain_autograd(config, monkeypatch):
    """Autograd goes through the whole sequence of one horizon."""
    seen = {}

    def spied(cell, u, loss):
        seen.update(cell=cell, u=u, loss=loss)
        return adjoint_norms(cell, u, loss)

    monkeypatch.setattr(module, "adjoint_norms", spied)
    results = _run(config, longer=())
    cell = seen["cell"].double()
    u = seen["u"].double()
    expected, _ = autograd_norms(cell, u, lambda state: seen["loss"](*state).sum())
    np.testing.assert_allclose(results["adjoints"][0], expected[1:].T, atol=1e-4)
    states, _ = cell(u, engine="reference")
    np.testing.assert_allclose(results["states"][0], states.detach().norm(dim=2).T, rtol=1e-4)
    exponent = largest_exponent(cell, u, start=config.place)
    np.testing.assert_allclose(results["exponent"], exponent)


def test_every_run_is_kept(few_steps, tmp_path):
    ds = train((few_steps,))
    assert ds.sizes["training"] == few_steps.replicates
    worst = ds["error"].max("horizon").values
    assert worst[int(ds["example"])] == worst.min()
    first = {"horizon": few_steps.horizon, "time": slice(1, few_steps.horizon)}
    kept = ds["adjoint_median"].sel(first).sel(training=int(ds["example"]))
    np.testing.assert_allclose(ds["adjoint"].sel(first).median("sequence"), kept, rtol=1e-6)
    assert load(LATCHING.save(ds, tmp_path / "latching.nc")).identical(ds)
    ds["exponent"][0, 0] = np.nan
    with pytest.raises(ResultsError, match="exponent: expected values for every run"):
        LATCHING.validate(ds)


def test_a_diverged_run_has_no_measurements(few_steps, monkeypatch):
    plain = module.cross_entropy
    calls = iter(range(100))

    def failing(*given):
        return plain(*given) * (np.nan if next(calls) == 3 else 1)

    monkeypatch.setattr(module, "cross_entropy", failing)
    ds = train((few_steps,))
    others = few_steps.replicates - 1
    assert ds["status"].values.tolist() == [DIVERGED] + [COMPLETED] * others
    assert ds["steps_completed"].values.tolist() == [3] + [4] * others
    for name in ("error", "exponent", "adjoint_median"):
        assert ds[name].isel(training=0).isnull().all(), name
    assert int(ds["example"]) != 0


def _checked(**change):
    """Return a function that checks the design of a configuration with a change."""

    def check(config):
        section = {
            name: value for name, value in config.flat_settings().items() if name != "replicate"
        }
        parse_section(Latching, section | change, "latching")

    return check


test_a_design_that_makes_no_sense_is_refused = refused(
    ParameterError,
    (r"expected place below horizon, .* got place 6, horizon 6 and longer \[9", _checked(place=6)),
    (r"longer above horizon .* horizon 6 and longer \[5\]", _checked(longer=[5])),
    ("in increasing order, got", _checked(longer=[9, 9])),
    ("probe_size is 65; expected at most test_size, 64", _checked(probe_size=65)),
    ("less than 0.5", _checked(tolerance=0.5)),
)
