"""The designs that are no rows: networks that latch, how they are trained, frozen, fitted anew, measured and kept; and experiment 2.2,
linear networks on the long time gap task."""

import numpy as np
import pytest
import torch
from designs import one_job, train
from refusals import refused
from toys import autograd_norms

from lib.cells import make_cell
from lib.probes.adjoint import adjoint_norms
from lib.probes.lyapunov import largest_exponent
from lib.results.latching import LATCHING
from lib.results.schema import COMPLETED, DIVERGED, ResultsError, load
from lib.run.params import ParameterError, checked
from lib.tasks.long_time_gap import draw_signs
from lib.training import latching as module
from lib.training.latching import Latching
from lib.training.linear_gaps import initial_networks

JOB = one_job("latching")
"""Four neurons on sequences of 6, 9 and 12 steps, of which 4 are followed."""
FEW = JOB.at(training_steps=4, check_every=4, test_size=10, fit_size=10)


def _run(job):
    return {name: np.asarray(value) for name, value in job.compute(None, None).items()}


@pytest.fixture(scope="module")
def measured():
    return _run(JOB)


def test_a_training_is_measured_whether_or_not_it_learned(measured):
    assert measured["status"] == COMPLETED and measured["steps_completed"] == JOB.training_steps
    assert measured["error"].shape == (3,) and np.isfinite(measured["error"]).all()
    assert np.isfinite(measured["exponent"]).all()
    for name in ("states", "adjoints"):
        assert measured[name].shape == (3, 4, 12)
        for values, T in zip(measured[name], (6, 9, 12), strict=True):
            assert np.isfinite(values[:, :T]).all() and np.isnan(values[:, T:]).all()
    assert (measured["states"][0, :, :6] <= 2).all()  # four neurons within -1..1


def test_replicates_differ():
    one, other = (module.start(JOB.at(replicate=k)).cell.W for k in (0, 1))
    assert not torch.equal(one, other)
    torch.testing.assert_close(one @ one.T, torch.eye(4), atol=1e-6, rtol=0)


def test_an_easy_task_is_learned_and_the_training_then_ends():
    easy = {"horizon": 4, "longer": (), "learning_rate": 0.02, "training_steps": 3000}
    found = _run(JOB.at(**easy, batch_size=64, clip=0.5, check_size=500))
    assert found["steps_completed"] < 3000
    assert found["error"][0] < 0.01


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

    def spied(cell, u, loss):
        seen.update(cell=cell, u=u, loss=loss)
        return adjoint_norms(cell, u, loss)

    monkeypatch.setattr(module, "adjoint_norms", spied)
    found = _run(JOB.at(longer=()))
    cell, u = seen["cell"].double(), seen["u"].double()
    expected, _ = autograd_norms(cell, u, lambda state: seen["loss"](*state))
    np.testing.assert_allclose(found["adjoints"][0], expected[1:].T, atol=1e-4)
    states, _ = cell(u, engine="reference")
    np.testing.assert_allclose(found["states"][0], states.detach().norm(dim=2).T, rtol=1e-4)
    np.testing.assert_allclose(found["exponent"], largest_exponent(cell, u, start=JOB.place))


def test_every_training_is_kept_and_the_best_is_shown(tmp_path):
    ds = train("latching", (FEW,))
    assert ds.sizes["training"] == FEW.replicates
    worst = ds["error"].max("horizon").values
    assert worst[int(ds["example"])] == worst.min()
    first = {"horizon": FEW.horizon, "time": slice(1, FEW.horizon)}
    kept = ds["adjoint_median"].sel(first).sel(training=int(ds["example"]))
    followed = ds["adjoint"].sel(first).median("sequence")
    np.testing.assert_allclose(followed, kept, rtol=1e-6)
    assert load(LATCHING.save(ds, tmp_path / "latching.nc")).identical(ds)
    ds["exponent"][0, 0] = np.nan
    with pytest.raises(ResultsError, match="exponent: expected values wherever"):
        LATCHING.validate(ds)


def test_a_training_whose_loss_is_not_finite_stays_in_the_dataset_without_measurements(monkeypatch):
    plain, calls = module.cross_entropy, iter(range(100))
    failing = lambda *given: plain(*given) * (np.nan if next(calls) == 3 else 1)  # noqa: E731
    monkeypatch.setattr(module, "cross_entropy", failing)
    ds = train("latching", (FEW,))
    assert ds["status"].values.tolist() == [DIVERGED] + [COMPLETED] * (FEW.replicates - 1)
    assert ds["steps_completed"].values.tolist() == [3] + [4] * (FEW.replicates - 1)
    for name in ("error", "exponent", "adjoint_median"):
        assert ds[name].isel(training=0).isnull().all(), name
    assert int(ds["example"]) != 0


def _checked(**change):
    section = {name: value for name, value in JOB.values().items() if name != "replicate"}
    return lambda: checked(Latching, section | change, "latching")


test_a_design_that_makes_no_sense_is_refused = refused(
    ParameterError,
    (r"expected the place before the end of the horizon, .* got 6, 6 and \[9", _checked(place=6)),
    (r"lengths above it, .* got 3, 6 and \[5\]", _checked(longer=[5])),
    ("each longer than the last", _checked(longer=[9, 9])),
    ("probe_size is 65; expected at most test_size, 64", _checked(probe_size=65)),
    ("less than 0.5", _checked(tolerance=0.5)),
)


TASK = {"place": 5, "time_steps": 7, "orthogonality": 0.0, "test_size": 500}
SMALL = one_job("linear_gaps", **TASK, networks=3, steps=300, batch_size=32, learning_rate=0.01)


@pytest.mark.parametrize("T", [1, 2, 75])
def test_emphasis_is_what_the_linear_cell_does_to_its_inputs(T):
    networks = initial_networks(SMALL)
    part = draw_signs(1, T, 6, np.random.default_rng(0))
    u = torch.from_numpy(part.inputs).double()
    with torch.no_grad():
        _, predictions = networks.losses(u[None, :, :, 0], torch.zeros(1, 6).double())
        for one in range(SMALL.networks):
            cell = make_cell("linear_rnn", 1, SMALL.width).double()
            cell.W.copy_(networks.W[one])
            cell.R.copy_(networks.R[one])
            cell.b.zero_()
            outputs, _ = cell(u.transpose(0, 1))
            torch.testing.assert_close(outputs[-1] @ networks.V[one, 0], predictions[one])


def test_replicates_learn_a_short_task_differ_and_do_not_depend_on_their_number():
    three, two = SMALL.compute(None, None), SMALL.at(networks=2).compute(None, None)
    assert (np.abs(three["emphasis"]).argmax(1) == SMALL.place - 1).all()
    assert (three["accuracy"] > 0.9).all() and (three["status"] == COMPLETED).all()
    np.testing.assert_allclose(three["emphasis"][:2], two["emphasis"], rtol=1e-9)
    assert not np.allclose(three["emphasis"][0], three["emphasis"][1])


def test_the_penalty_keeps_the_matrix_near_orthogonality_from_the_same_start():
    free, bound = SMALL, SMALL.at(orthogonality=1.0)
    starts = (list(initial_networks(job).parameters()) for job in (free, bound))
    assert all(map(torch.equal, *starts))
    assert (bound.compute(None, None)["departure"] < free.compute(None, None)["departure"]).all()


def test_a_diverged_network_is_recorded_and_leaves_the_others_alone(monkeypatch):
    expected, networks = SMALL.compute(None, None), initial_networks(SMALL)
    with torch.no_grad():
        networks.W[1] *= 1e200
    monkeypatch.setattr("lib.training.linear_gaps.initial_networks", lambda job: networks)
    arrays = SMALL.compute(None, None)
    assert arrays["status"].tolist() == [COMPLETED, DIVERGED, COMPLETED]
    assert np.isnan(arrays["emphasis"][1]).all() and np.isnan(arrays["loss"][1])
    np.testing.assert_allclose(arrays["emphasis"][[0, 2]], expected["emphasis"][[0, 2]], rtol=1e-9)
