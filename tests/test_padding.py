"""Experiment 2.3: the padded task, the methods of Table 2.1, and one attempt."""

import math

import numpy as np
import pytest
import torch
from designs import one_job
from torch.nn import functional as F

from lib.cells import make_cell
from lib.experiments import padding as module
from lib.experiments.padding import (
    CELLS,
    initial_model,
    initialise,
    last_states,
    objective,
    train,
)
from lib.probes import Diverged
from lib.probes.coadjoint import soft_orthogonality
from lib.results.schema import COMPLETED, DIVERGED
from lib.tasks import Part, Task
from lib.tasks.padded_rows import pad_rows

EPOCHS = 6


def _job(method, *, rate=0.01, **changes):
    weights = {"coadjoint": {"kappa": 0.1}, "constrained": {"orthogonality": 0.1}}
    base = {
        "dataset": "toy",
        "padding": 1,
        "width": 12,
        "initialisation": "orthogonal",
        "kappa": 0.0,
        "orthogonality": 0.0,
        "input_scale": "0.1",
        "learning_rates": {method: rate},
        "epochs": EPOCHS,
        "batch_size": 16,
        "probe_size": 0,
        "adjoint_size": 8,
    }
    return one_job("padding", method=method, **base | weights.get(method, {}) | changes)


def _train(job, images):
    """Train on images with the job's rows of noise behind them."""
    noise = module.seeds(job)[0]
    return train(job, pad_rows(images, job.padding, np.random.default_rng(noise)))


def _images(n, seed):
    """Images of 3 x 3 pixels, dark above and bright below or the other way round."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    images = rng.random((n, 3, 3), dtype=np.float32) * 0.3
    images[np.arange(n), 2 * labels] += 0.7
    return Part(images.reshape(n, 9, 1), labels)


@pytest.fixture
def toy():
    return Task(
        name="toy",
        kind="pixels",
        target="class",
        outputs=2,
        vocabulary_size=0,
        noise_inputs=0,
        train=_images(256, 0),
        test=_images(64, 1),
    )


# ------------------------------------------------------------------------------------------- task


def test_rows_are_time_steps_and_noise_follows_them():
    pixels = np.arange(8, dtype=np.float32).reshape(2, 4, 1)
    part = Part(pixels, np.array([0, 1]))
    data = pad_rows(
        Task(
            name="x",
            kind="pixels",
            target="class",
            outputs=2,
            vocabulary_size=0,
            noise_inputs=0,
            train=part,
            test=part,
        ),
        2,
        np.random.default_rng(3),
    )
    assert data.train.inputs.shape == (2, 6, 2)
    np.testing.assert_array_equal(data.train.inputs[:, :2], [[[0, 1], [2, 3]], [[4, 5], [6, 7]]])
    noise = np.random.default_rng(3)
    drawn = [noise.random((4, 2), dtype=np.float32) for _ in range(4)]
    np.testing.assert_array_equal(data.train.inputs[:, 2:], drawn[:2])
    np.testing.assert_array_equal(data.test.inputs[:, 2:], drawn[2:])
    assert data.features == 2


def test_no_padding_is_the_image_alone(toy):
    data = pad_rows(toy, 0, np.random.default_rng(0))
    np.testing.assert_array_equal(data.test.inputs, toy.test.inputs.reshape(-1, 3, 3))


@pytest.mark.parametrize("shape", [(4, 8, 1), (4, 9, 3)])
def test_what_is_no_square_image_is_refused(shape):
    part = Part(np.zeros(shape, np.float32), np.zeros(4, int))
    with pytest.raises(ValueError, match="expected square images of one channel"):
        pad_rows(
            Task(
                name="x",
                kind="pixels",
                target="class",
                outputs=2,
                vocabulary_size=0,
                noise_inputs=0,
                train=part,
                test=part,
            ),
            1,
            np.random.default_rng(0),
        )


def test_a_negative_padding_is_refused(toy):
    with pytest.raises(ValueError, match="expected a padding of 0 or more"):
        pad_rows(toy, -1, np.random.default_rng(0))


# ---------------------------------------------------------------------------------------- methods


def test_initial_weights_are_tensorflow_s():
    torch.manual_seed(0)
    lstm, rnn = make_cell("lstm", 5, 7), make_cell("rnn", 50, 40)
    initialise(lstm, "orthogonal", "1", 9)
    initialise(rnn, "glorot", "0.01", 9)
    torch.testing.assert_close(lstm.W.T @ lstm.W, torch.eye(7))
    assert lstm.b.tolist() == [0.0] * 7 + [1.0] * 7 + [0.0] * 14
    assert rnn.W.abs().max() <= math.sqrt(6 / 80) < 1.05 * rnn.W.abs().max()
    assert rnn.R.abs().max() <= 0.01 * math.sqrt(6 / 90) < 1.05 * rnn.R.abs().max()
    assert not rnn.b.any()
    initialise(rnn, "glorot", "1/T", 500)
    assert rnn.R.std().item() == pytest.approx(1 / 500, rel=0.05)


def _sizes(features, classes):
    part = Part(np.zeros((1, 1, features), np.float32), np.zeros(1, int))
    return Task(name="sizes", kind="pixels", target="class", outputs=classes, train=part, test=part)


def _model(method, features, width, classes, scale="1"):
    task = _sizes(features, classes)
    return initial_model(_job(method, width=width, input_scale=scale), task), task


def test_a_step_s_gradient_is_that_of_the_method_s_objective():
    torch.manual_seed(0)
    model, task = _model("adjoint", 3, 6, 4)
    model = model.double()
    inputs = torch.rand(5, 7, 3, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 3, 1])
    (x,), states = model.cell.initial_state(5), []
    for u_t in inputs.unbind(1):
        x = torch.tanh(x @ model.cell.W.T + u_t @ model.cell.R.T + model.cell.b)
        states.append(x)
    each = F.cross_entropy(model.output(x), labels, reduction="none")
    adjoints = torch.autograd.grad(each.sum(), states, create_graph=True)
    norms = torch.stack([adjoint.norm(dim=1) for adjoint in adjoints])
    G = ((norms - norms.mean(0)) ** 2).sum(0)
    expected = {
        "adjoint": each.mean(),
        "coadjoint": (each + 3.0 * G).mean(),
        "constrained": each.mean() + 2.0 * soft_orthogonality(model.cell.W),
    }
    for method, value in expected.items():
        model.zero_grad()
        objective(_job(method, kappa=3.0, orthogonality=2.0), task)(
            model, inputs, labels
        ).backward()
        others = torch.autograd.grad(value, model.parameters(), retain_graph=True)
        for (name, parameter), other in zip(model.named_parameters(), others, strict=True):
            torch.testing.assert_close(
                parameter.grad, other, msg=lambda text, n=name, m=method: f"{m} {n}: {text}"
            )


def test_a_reservoir_trains_its_output_alone(toy):
    torch.manual_seed(0)
    data = pad_rows(toy, 1, np.random.default_rng(0))
    job = _job("reservoir", epochs=2)
    model = initial_model(job, data)
    features = last_states(model, data.train)
    inputs = torch.from_numpy(data.train.inputs)
    torch.testing.assert_close(model.output(torch.from_numpy(features.inputs)), model(inputs))
    for method, frozen in (("adjoint", set()), ("fixed_w", {"cell.W"})):
        fixed = initial_model(_job(method), data).named_parameters()
        assert {name for name, p in fixed if not p.requires_grad} == frozen
    # The output layer does learn.
    found = _train(_job("reservoir", rate=0.1), toy)
    assert found["loss"][0, -1] < found["loss"][0, 0]


@pytest.mark.parametrize("method", ["adjoint", "coadjoint", "constrained"])
def test_a_loss_that_is_not_finite_is_a_divergence(toy, method, monkeypatch):
    def spoilt(job, task):
        model = initial_model(job, task)
        with torch.no_grad():
            model.output.bias[0] = math.nan
        return model

    monkeypatch.setattr(module, "initial_model", spoilt)
    found = _train(_job(method), toy)
    assert found["status"] == DIVERGED and found["epochs_completed"] == 0
    assert np.isnan(found["loss"]).all()


# ---------------------------------------------------------------------------------------- attempt


@pytest.mark.parametrize("method", CELLS)
def test_every_method_learns_the_toy(toy, method):
    found = _train(_job(method, rate=0.1 if method == "reservoir" else 0.01), toy)
    assert found["status"] == COMPLETED
    assert found["epochs_completed"] == EPOCHS
    assert found["accuracy"][1, -1] > 0.9, "the test part"
    assert found["loss"][0, -1] < 0.75 * math.log(2), "the training part"
    assert np.isfinite(found["adjoint_first"]) and np.isfinite(found["adjoint_last"])


def test_the_same_attempt_gives_the_same_bytes(toy):
    job = _job("coadjoint", epochs=2)
    first = _train(job, toy)
    torch.manual_seed(99)
    _train(job.at(replicate=1), toy)
    second = _train(job, toy)
    for name, value in first.items():
        assert np.asarray(value).tobytes() == np.asarray(second[name]).tobytes(), name


def test_methods_of_a_replicate_start_alike(toy):
    # No step changes anything at a learning rate this small: what is measured is the initial network.
    start = {"epochs": 1, "rate": 1e-30}
    losses = [
        _train(_job(method, **start), toy)["loss"][:, 0]
        for method in ("adjoint", "coadjoint", "constrained", "reservoir")
    ]
    for loss in losses[1:]:
        np.testing.assert_allclose(loss, losses[0], rtol=1e-6)
    other = _train(_job("adjoint", **start).at(replicate=1), toy)["loss"][:, 0]
    assert abs(other - losses[0]).min() > 1e-6


def test_a_diverged_attempt_keeps_what_it_measured(toy, monkeypatch):
    steps = 0

    def failing(job, task):
        plain = objective(job, task)

        def after_two_epochs(model, inputs, labels):
            nonlocal steps
            steps += 1
            if steps > 2 * 16:
                raise Diverged("made up")
            return plain(model, inputs, labels)

        return after_two_epochs

    monkeypatch.setattr(module, "objective", failing)
    found = _train(_job("adjoint"), toy)
    assert found["status"] == DIVERGED
    assert found["epochs_completed"] == 2
    assert np.isfinite(found["loss"][:, :2]).all()
    assert np.isnan(found["accuracy"][:, 2:]).all()
    assert np.isnan(found["adjoint_first"])


def test_an_explosion_is_a_divergence_not_an_error(toy):
    found = _train(_job("linear", rate=1.0, padding=60, epochs=3), toy)
    assert found["status"] == DIVERGED
