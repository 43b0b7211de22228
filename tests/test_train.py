"""One attempt: its randomness, what it records, and how it ends when the loss does not stay finite."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from lib.cells import Cell, _cell, make_cell
from lib.experiments.factorial.training import Attempt, measure, pick_device, train_attempt
from lib.results.factorial import COMPLETED, DIVERGED, MEASUREMENTS
from lib.run.params import load_profile
from lib.tasks import Part, Task
from lib.training.model import Classifier

ATTEMPT = Attempt("rnn", 4, 0.01, 2, "toy", "permuted", "post", 0)


@pytest.fixture
def settings():
    return load_profile("smoke").study


def _toy(kind="pixels", n=24, steps=6):
    rng = np.random.default_rng(0)

    def part():
        if kind == "tokens":
            return Part(rng.integers(0, 9, (n, steps)), rng.integers(0, 3, n))
        inputs = rng.random((n, steps, 1), dtype=np.float32)
        return Part(inputs, rng.integers(0, 3, n))

    vocabulary = 9 if kind == "tokens" else 0
    return Task(
        name="toy",
        kind=kind,
        target="class",
        outputs=3,
        vocabulary_size=vocabulary,
        noise_inputs=5,
        train=part(),
        test=part(),
    )


@pytest.mark.parametrize("kind", ["pixels", "tokens"])
def test_an_attempt_records_every_epoch(settings, kind):
    record = train_attempt(ATTEMPT, _toy(kind), settings)
    assert record.status == COMPLETED
    assert record.epochs_completed == 2
    assert record.measurements.shape == (len(MEASUREMENTS), 2, 2)
    assert np.isfinite(record.measurements).all()


def test_the_same_attempt_gives_the_same_bytes(settings):
    first, second = (train_attempt(ATTEMPT, _toy(), settings) for _ in range(2))
    assert first.measurements.tobytes() == second.measurements.tobytes()


def test_an_attempt_does_not_depend_on_what_ran_before(settings):
    alone = train_attempt(ATTEMPT, _toy(), settings)
    torch.manual_seed(123)
    train_attempt(dataclasses.replace(ATTEMPT, replicate=7), _toy(), settings)
    after = train_attempt(ATTEMPT, _toy(), settings)
    assert alone.measurements.tobytes() == after.measurements.tobytes()


@pytest.mark.parametrize(
    "level", [{"replicate": 1}, {"learning_rate": 0.02}, {"noise": "none"}, {"width": 5}]
)
def test_every_level_has_its_own_random_numbers(level):
    other = dataclasses.replace(ATTEMPT, **level)
    ours = [seed.generate_state(2).tolist() for seed in ATTEMPT.seeds()]
    theirs = [seed.generate_state(2).tolist() for seed in other.seeds()]
    assert all(a != b for a, b in zip(ours, theirs, strict=True))


def test_training_leaves_the_global_generator_alone(settings):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    train_attempt(ATTEMPT, _toy(), settings)
    assert torch.equal(torch.get_rng_state(), before)


def test_training_learns_what_can_be_learned(settings):
    # The label is in the last input: any recurrent network that trains at all finds it.
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 256)
    inputs = rng.random((256, 4, 1), dtype=np.float32)
    inputs[:, -1, 0] = labels
    part = Part(inputs, labels)
    data = Task(
        name="toy",
        kind="pixels",
        target="class",
        outputs=2,
        vocabulary_size=0,
        noise_inputs=5,
        train=part,
        test=part,
    )
    attempt = Attempt("lstm", 8, 0.05, 8, "toy", "sequential", "none", 0)
    record = train_attempt(attempt, data, settings.model_copy(update={"probe_size": 0}))
    accuracy = record.measurements[MEASUREMENTS.index("accuracy"), 1]
    assert accuracy[-1] > 0.95


class _Explosive(Cell):
    """Finite in the first epoch, then not: its weight grows with every call of `weights`."""

    name = "explosive, for this test"
    calls = 0

    @staticmethod
    def step(weights, state, u):
        return (state[0] + u @ weights.T,)

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.W = torch.nn.Parameter(torch.zeros(hidden_size, input_size))

    def weights(self):
        type(self).calls += 1
        return self.W + (math.inf if type(self).calls > 4 else 0.0)


def test_a_loss_that_is_not_finite_ends_the_attempt_with_its_epoch(settings, monkeypatch):
    # In the registry for this test alone: others go through all cells there.
    monkeypatch.setitem(_cell._REGISTRY, _Explosive.name, _Explosive)
    # One batch and two probes an epoch make three calls; the second epoch's batch is the fifth call or later.
    attempt = dataclasses.replace(ATTEMPT, architecture=_Explosive.name, training_length=4)
    _Explosive.calls = 0
    record = train_attempt(attempt, _toy(), settings)
    assert record.status == DIVERGED
    assert record.epochs_completed == 1
    assert np.isfinite(record.measurements[:, :, 0]).all()
    assert np.isnan(record.measurements[:, :, 1:]).all()


def test_measuring_equals_plain_autograd_in_float64(settings):
    torch.manual_seed(0)
    data = _toy()
    model = Classifier(make_cell("gru", 1, 5), data.outputs)
    ours = measure(model, data.test, batch_size=7)
    model = model.double()
    inputs, labels = (torch.from_numpy(a) for a in (data.test.inputs, data.test.targets))
    u = model.drive(inputs.double())
    states, state, weights = [], model.cell.initial_state(len(labels)), model.cell.weights()
    for u_t in u.unbind(0):
        state = model.cell.step(weights, state, u_t)
        states.append(state[0])
    logits = model.output(states[-1])
    first, last = torch.autograd.grad(
        F.cross_entropy(logits, labels, reduction="sum"), [states[0], states[-1]]
    )
    assert ours["loss"] == pytest.approx(F.cross_entropy(logits, labels).item())
    assert ours["accuracy"] == (logits.argmax(1) == labels).double().mean().item()
    assert ours["adjoint_first"] == pytest.approx(first.norm(dim=1).sum().log10().item())
    assert ours["adjoint_last"] == pytest.approx(last.norm(dim=1).sum().log10().item())


def test_only_the_first_sequences_are_measured_where_a_size_is_given():
    torch.manual_seed(0)
    data = _toy()
    model = Classifier(make_cell("rnn", 1, 5), data.outputs)
    head = Part(data.test.inputs[:10], data.test.targets[:10])
    assert measure(model, data.test, batch_size=4, size=10) == pytest.approx(
        measure(model, head, batch_size=10)
    )
    assert measure(model, head, batch_size=10, size=99) == measure(model, head, batch_size=10)


def test_a_gpu_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto").type == "cpu"
    with pytest.raises(ValueError, match="the setting device is 'cuda' but PyTorch sees no GPU"):
        pick_device("cuda")
