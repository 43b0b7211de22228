"""Experiment 2.3: the padded task, the methods of Table 2.1, and one attempt."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from lib.cells import make_cell
from lib.experiments.padding import training
from lib.experiments.padding.methods import (
    evaluate,
    initial_model,
    initialise,
    reservoir_features,
    training_step,
)
from lib.experiments.padding.training import Job, train
from lib.probes import Diverged
from lib.probes.coadjoint import soft_orthogonality
from lib.results.schema import COMPLETED, DIVERGED
from lib.run.params.padding import METHODS
from lib.tasks import Part, Task
from lib.tasks.padded_rows import pad_rows

JOB = Job(
    dataset="toy",
    padding=1,
    method="adjoint",
    width=12,
    initialisation="orthogonal",
    kappa=0.0,
    replicate=0,
    orthogonality=0.0,
    input_scale=0.1,
    learning_rate=0.01,
    epochs=6,
    batch_size=16,
    train_size=0,
    test_size=0,
    probe_size=0,
    adjoint_size=8,
    prepared="",
    engines=(),
)


def _job(method, **changes):
    weights = {"coadjoint": {"kappa": 0.1}, "constrained": {"orthogonality": 0.1}}
    return dataclasses.replace(JOB, method=method, **weights.get(method, {}) | changes)


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
    initialise(lstm, "orthogonal", 1.0)
    initialise(rnn, "glorot", 0.01)
    torch.testing.assert_close(lstm.W.T @ lstm.W, torch.eye(7))
    assert lstm.b.tolist() == [0.0] * 7 + [1.0] * 7 + [0.0] * 14
    assert rnn.W.abs().max() <= math.sqrt(6 / 80) < 1.05 * rnn.W.abs().max()
    assert rnn.R.abs().max() <= 0.01 * math.sqrt(6 / 90) < 1.05 * rnn.R.abs().max()
    assert not rnn.b.any()


def _gradients(method, model, inputs, labels, **weights):
    model.zero_grad()
    training_step(method, model, **weights)(inputs, labels)
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_a_step_s_gradient_is_that_of_the_method_s_objective():
    torch.manual_seed(0)
    model = initial_model("adjoint", 3, 6, 4, "orthogonal", 1.0).double()
    inputs = torch.rand(5, 7, 3, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 3, 1])
    x, states = torch.zeros(5, 6, dtype=torch.float64), []
    for u_t in inputs.unbind(1):
        x = torch.tanh(x @ model.cell.W.T + u_t @ model.cell.R.T + model.cell.b)
        states.append(x)
    each = F.cross_entropy(model.output(x), labels, reduction="none")
    adjoints = torch.autograd.grad(each.sum(), states, create_graph=True)
    norms = torch.stack([adjoint.norm(dim=1) for adjoint in adjoints])
    G = ((norms - norms.mean(0)) ** 2).sum(0)
    objectives = {
        "adjoint": each.mean(),
        "coadjoint": (each + 3.0 * G).mean(),
        "constrained": each.mean() + 2.0 * soft_orthogonality(model.cell.W),
    }
    for method, objective in objectives.items():
        expected = torch.autograd.grad(objective, model.parameters(), retain_graph=True)
        ours = _gradients(method, model, inputs, labels, kappa=3.0, orthogonality=2.0)
        for (name, gradient), other in zip(ours.items(), expected, strict=True):
            torch.testing.assert_close(
                gradient, other, msg=lambda text, n=name, m=method: f"{m} {n}: {text}"
            )


def test_a_reservoir_trains_its_output_alone(toy):
    torch.manual_seed(0)
    model = initial_model("reservoir", 3, 6, 2, "orthogonal", 0.1)
    data = pad_rows(toy, 1, np.random.default_rng(0))
    features = reservoir_features(model, data.train)
    inputs, labels = torch.from_numpy(data.train.inputs), torch.from_numpy(data.train.targets)
    torch.testing.assert_close(model.output(torch.from_numpy(features.inputs)), model(inputs))
    pieces = torch.from_numpy(features.inputs[:16]), labels[:16]
    assert set(_gradients("reservoir", model, *pieces)) == {"output.weight", "output.bias"}


def test_evaluation_is_cross_entropy_and_accuracy(toy):
    torch.manual_seed(0)
    model = initial_model("lstm", 3, 6, 2, "orthogonal", 1.0)
    part = pad_rows(toy, 1, np.random.default_rng(0)).test
    inputs, labels = torch.from_numpy(part.inputs[:20]), torch.from_numpy(part.targets[:20])
    with torch.no_grad():
        predicted = model(inputs)
    loss, accuracy = evaluate("lstm", model, part, 20)
    assert loss == pytest.approx(F.cross_entropy(predicted, labels).item(), rel=1e-5)
    assert accuracy == (predicted.argmax(1) == labels).double().mean().item()


@pytest.mark.parametrize("method", ["adjoint", "coadjoint", "constrained"])
def test_a_loss_that_is_not_finite_is_told(method):
    model = initial_model(method, 3, 6, 2, "orthogonal", 1.0)
    with torch.no_grad():
        model.output.bias[0] = math.nan
    with pytest.raises(Diverged):
        training_step(method, model, kappa=1.0)(torch.rand(4, 5, 3), torch.tensor([0, 1, 0, 1]))


# ---------------------------------------------------------------------------------------- attempt


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_the_toy(toy, method):
    rate = {"learning_rate": 0.1} if method == "reservoir" else {}
    found = train(_job(method, **rate), toy)
    assert found["status"] == COMPLETED
    assert found["epochs_completed"] == JOB.epochs
    assert found["accuracy"][1, -1] > 0.9, "the test part"
    assert found["loss"][0, -1] < 0.75 * math.log(2), "the training part"
    assert np.isfinite(found["adjoint_first"]) and np.isfinite(found["adjoint_last"])


def test_the_same_attempt_gives_the_same_bytes(toy):
    job = _job("coadjoint", epochs=2)
    first = train(job, toy)
    torch.manual_seed(99)
    train(dataclasses.replace(job, replicate=1), toy)
    second = train(job, toy)
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)


def test_methods_of_a_replicate_start_alike(toy):
    # No step changes anything at a learning rate this small: what is measured is the initial network.
    start = {"epochs": 1, "learning_rate": 1e-30}
    losses = [
        train(_job(method, **start), toy)["loss"][:, 0]
        for method in ("adjoint", "coadjoint", "constrained", "reservoir")
    ]
    for loss in losses[1:]:
        np.testing.assert_allclose(loss, losses[0], rtol=1e-6)
    other = train(_job("adjoint", **start, replicate=1), toy)["loss"][:, 0]
    assert abs(other - losses[0]).min() > 1e-6


def test_a_diverged_attempt_keeps_what_it_measured(toy, monkeypatch):
    steps = 0

    def failing(method, model, **weights):
        step = training_step(method, model, **weights)

        def after_two_epochs(inputs, labels):
            nonlocal steps
            steps += 1
            if steps > 2 * 16:
                raise Diverged("made up")
            step(inputs, labels)

        return after_two_epochs

    monkeypatch.setattr(training, "training_step", failing)
    found = train(_job("adjoint"), toy)
    assert found["status"] == DIVERGED
    assert found["epochs_completed"] == 2
    assert np.isfinite(found["loss"][:, :2]).all()
    assert np.isnan(found["accuracy"][:, 2:]).all()
    assert np.isnan(found["adjoint_first"])


def test_an_explosion_is_a_divergence_not_an_error(toy):
    found = train(_job("linear", learning_rate=1.0, padding=60, epochs=3), toy)
    assert found["status"] == DIVERGED
