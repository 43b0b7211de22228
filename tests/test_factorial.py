"""One attempt: its randomness, what it records, and how it ends if the loss diverges."""

import numpy as np
import pytest
import torch
from designs import fail_after, one_job
from longrnn.cells import make_cell
from study.config.network import Network
from study.results.factorial import MEASUREMENTS
from study.results.schema import COMPLETED, DIVERGED
from study.tasks import Split
from study.training.factorial import AUTHOR, network_of, train_attempts_on
from study.training.measures import measure_classifier
from study.training.model import Model, build_model, pick_device
from torch.nn import functional as F
from toys import autograd_norms, toy_task

CELLS = ("rnn", "lstm", "gru", "lipschitz", "antisymmetric", "exponential", "unicornn")
LEVELS = {"architecture": "rnn", "learning_rate": 0.01, "order": "permuted", "noise": "post"}


@pytest.fixture(scope="module")
def attempt():
    return one_job("factorial", **LEVELS, batch_size=24).config


def _train(attempt, data):
    (results,) = train_attempts_on(data, [attempt], [None])
    return results


@pytest.mark.parametrize("kind", ["pixels", "tokens"])
def test_attempts_do_not_depend_on_each_other(attempt, kind):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    actual = _train(attempt, toy_task(kind))
    assert torch.equal(torch.get_rng_state(), before)
    assert actual["status"] == COMPLETED and actual["epochs_completed"] == 2
    for name in MEASUREMENTS:
        assert actual[name].shape == (2, 2) and np.isfinite(actual[name]).all()
    torch.manual_seed(123)
    _train(attempt.copy_with(replicate=7), toy_task(kind))
    np.testing.assert_equal(_train(attempt, toy_task(kind)), actual)


def test_infinite_loss_ends_the_attempt(attempt, monkeypatch):
    fail_after(1, monkeypatch)  # the first epoch, of one batch
    actual = _train(attempt.copy_with(training_length=4), toy_task())
    assert actual["status"] == DIVERGED
    assert actual["epochs_completed"] == 1
    for name in MEASUREMENTS:
        assert np.isfinite(actual[name][:, 0]).all()
        assert np.isnan(actual[name][:, 1:]).all()


def _by_autograd(model, data):
    """Return loss, accuracy, and gradient norms at the first and last state, in float64."""
    inputs, labels = (torch.from_numpy(a) for a in (data.inputs, data.targets))
    u = model.double().cell_inputs(inputs.double())

    def logits(state):
        return model.output(model.head_inputs(state))

    def loss(state):
        return F.cross_entropy(logits(state), labels, reduction="sum")

    _, last = model.cell(u, engine="reference")
    right = (logits(last).argmax(1) == labels).double().mean().item()
    norms = autograd_norms(model.cell, u, loss)[model.read == "all"]
    return loss(last).item() / len(data), right, *(10 ** norms[[1, -1]]).sum(1).log10()


@pytest.mark.parametrize("author_s", [False, True])
def test_measuring_equals_plain_autograd_in_float64(attempt, author_s):
    """One network reads its output; the author's UnICORNN reads all four states."""
    torch.manual_seed(0)
    data = toy_task()
    model = Model(make_cell("gru", 1, 5), data.outputs)
    if author_s:
        model = _started(attempt, "unicornn")
        assert model.output.in_features == 4 * 6 and model.cell.states == 4
    ours = measure_classifier(model, data.test, batch_size=7)
    loss, accuracy, first, last = _by_autograd(model, data.test)
    assert ours["loss"] == pytest.approx(loss) and ours["accuracy"] == accuracy
    assert ours["adjoint_first"] == pytest.approx(first.item())
    if author_s:
        assert ours["adjoint_first"] == ours["adjoint_first_full"]
    else:
        assert ours["adjoint_last"] == pytest.approx(last.item())


def test_size_limits_the_measured_sequences():
    torch.manual_seed(0)
    data = toy_task()
    model = Model(make_cell("rnn", 1, 5), data.outputs)
    head = Split(data.test.inputs[:10], data.test.targets[:10])
    expected = measure_classifier(model, head, batch_size=10)
    assert measure_classifier(model, data.test, batch_size=4, size=10) == pytest.approx(expected)
    assert measure_classifier(model, head, batch_size=10, size=99) == measure_classifier(
        model, head, batch_size=10
    )
    model.output.bias.data.fill_(torch.nan)
    assert np.isnan([*measure_classifier(model, head, batch_size=10).values()]).all()


def test_a_gpu_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto").type == "cpu"
    with pytest.raises(ValueError, match="the setting device is 'cuda' but PyTorch sees no GPU"):
        pick_device("cuda")


def _started(attempt, architecture):
    torch.manual_seed(0)
    return build_model(
        toy_task(), network_of(attempt.copy_with(architecture=architecture, width=6))
    )


@pytest.mark.parametrize("architecture", CELLS)
def test_author_start_differs_and_trains(attempt, architecture):
    authors = _started(attempt, architecture)
    torch.manual_seed(0)
    texts = build_model(toy_task(), Network(cell=architecture, width=6))
    assert not torch.equal(texts.output.weight[:, :6], authors.output.weight[:, :6])
    assert not authors.output.bias.any()
    if architecture in AUTHOR:
        trains_state = AUTHOR[architecture].get("train_initial_state", False)
        assert (authors.cell.x0 is not None) == trains_state
    actual = _train(attempt.copy_with(architecture=architecture), toy_task())
    assert actual["status"] == COMPLETED and actual["classes"] == 3
    assert np.isfinite(actual["loss"]).all()
