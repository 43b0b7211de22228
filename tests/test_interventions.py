"""Interventions on adjoint states leave the forward pass unchanged."""

import numpy as np
import pytest
import torch
from designs import one_job
from longrnn.cells import make_cell, unroll
from study.results.schema import COMPLETED, DIVERGED
from study.tasks.data import Split, Task
from study.tasks.located_rows import located_rows, row_steps
from study.training.adjoint_treatments import AdjointPath, AdjointTreatment, unroll_treated
from study.training.treated_networks import TreatedNetworks

T = 7
BATCH = 3
WIDTH = 5
FEATURES = 2


def _run(cell, inputs, *treatments):
    """Return the last states of copies of one network, and the states before the sequence."""
    runs = len(treatments)
    before = tuple(
        torch.zeros(runs, BATCH, WIDTH, dtype=torch.double, requires_grad=True)
        for _ in range(cell.states)
    )
    path = AdjointPath(treatments, T, inputs, torch.Generator().manual_seed(0))
    weights = cell.weights()

    def step(state, u):
        return cell.step(weights, state, u)

    after = unroll_treated(step, before, inputs[:, None].expand(T, runs, BATCH, FEATURES), path)
    return after, before


def _norm(adjoints):
    return torch.stack([a.square().sum(-1) for a in adjoints if a is not None]).sum(0).sqrt()


@pytest.fixture(params=["lstm", "unicornn", "lipschitz"])
def cell(request):
    torch.manual_seed(0)
    return make_cell(request.param, FEATURES, WIDTH).double()


@pytest.fixture
def inputs():
    return torch.randn(
        T, BATCH, FEATURES, dtype=torch.double, generator=torch.Generator().manual_seed(1)
    )


def test_forward_pass_is_unchanged(cell, inputs):
    kinds = ("plain", "scaled", "renormalized", "random_signs")
    after, _ = _run(cell, inputs, *[AdjointTreatment(kind, -3.0) for kind in kinds])
    state = tuple(torch.zeros(BATCH, WIDTH, dtype=torch.double) for _ in range(cell.states))
    _, expected = unroll(cell.step, cell.weights(), state, inputs)
    for part, wanted in zip(after, expected, strict=True):
        torch.testing.assert_close(part, wanted.expand_as(part), rtol=0, atol=1e-14)


def test_plain_treatment_is_backpropagation(cell, inputs):
    after, _before = _run(cell, inputs, AdjointTreatment())
    treated = torch.autograd.grad(after[cell.readout].sum(), list(cell.parameters()))
    state = tuple(torch.zeros(BATCH, WIDTH, dtype=torch.double) for _ in range(cell.states))
    outputs, _ = unroll(cell.step, cell.weights(), state, inputs, readout=cell.readout)
    expected = torch.autograd.grad(outputs[-1].sum(), list(cell.parameters()))
    for gradient, wanted in zip(treated, expected, strict=True):
        torch.testing.assert_close(gradient, wanted)


def test_dose_is_added_to_the_metric(cell, inputs):
    after, before = _run(cell, inputs, AdjointTreatment(), AdjointTreatment("scaled", -4.0))
    first = _norm(torch.autograd.grad(after[cell.readout].sum(), before))
    torch.testing.assert_close(first[1].log10(), first[0].log10() - 4)


@pytest.mark.parametrize("kind", ["renormalized", "random_signs"])
def test_norms_are_kept(cell, inputs, kind):
    after, before = _run(cell, inputs, AdjointTreatment(kind))
    loss = after[cell.readout].sum()
    first = torch.autograd.grad(loss, before, retain_graph=True)
    last = torch.autograd.grad(loss, after, allow_unused=True)
    torch.testing.assert_close(_norm(first), _norm(last))


def test_random_signs_change_directions_only(cell, inputs):
    after, before = _run(
        cell, inputs, AdjointTreatment("renormalized"), AdjointTreatment("random_signs")
    )
    kept, signed = torch.autograd.grad(after[cell.readout].sum(), before)[0].unbind(0)
    assert not torch.allclose(kept.abs(), signed.abs())


@pytest.mark.parametrize(
    ("location", "steps"),
    [("beginning", [0, 1, 2]), ("end", [7, 8, 9]), ("everywhere", [0, 4, 9])],
)
def test_rows_of_an_image_are_at_the_given_location(location, steps):
    assert row_steps(3, 10, location).tolist() == steps
    pixels = np.arange(36, dtype=np.float32).reshape(4, 9, 1) / 36
    part = Split(pixels, np.arange(4))
    data = Task(name="a", kind="pixels", target="class", outputs=4, train=part, test=part)
    made = located_rows(data, np.random.default_rng(0), time_steps=10, location=location, noise=0.0)
    standard = data.standardized().train.inputs.reshape(4, 3, 3)
    np.testing.assert_array_equal(made.train.inputs[:, steps], standard)
    others = np.delete(made.train.inputs, steps, axis=1)
    assert not others.any()


def test_adam_computes_exact_square_roots_if_pinned(prepared, monkeypatch):
    monkeypatch.setenv("LTD_REPRODUCIBLE", "1")
    fused = []

    class Adam(torch.optim.Adam):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            fused.append(self.defaults["fused"])

    monkeypatch.setattr(torch.optim, "Adam", Adam)
    one_job("interventions").train(prepared)
    assert fused == [True]


def test_run_whose_last_step_breaks_it_diverges_and_has_no_accuracy(prepared, monkeypatch):
    train = TreatedNetworks.train

    def train_and_break(self, split):
        losses = train(self, split)
        with torch.no_grad():
            next(iter(self.parameters.values()))[0] = np.nan
        return losses

    monkeypatch.setattr(TreatedNetworks, "train", train_and_break)
    arrays = one_job("interventions").train(prepared)
    others = np.ones(arrays["status"].shape, bool)
    others[0, 0] = False  # the first replicate of the first treatment is broken
    assert arrays["status"][0, 0] == DIVERGED
    assert (arrays["status"][others] == COMPLETED).all()
    for name in ("test_accuracy", "validation_accuracy", "train_loss"):
        np.testing.assert_array_equal(np.isfinite(arrays[name]), others, name)
    for name in ("own_metric", "treated_metric"):
        assert np.isfinite(arrays[name][..., 0]).all(), name
        np.testing.assert_array_equal(np.isfinite(arrays[name][..., 1]), others, name)
