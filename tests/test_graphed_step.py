"""Whole training steps in a CUDA graph: the same weights as plain steps, to the last bit.

A stand-in captures on a CPU. What only a GPU can show is in test_gpu.py.
"""

import math
import sys

import numpy as np
import pytest
import torch
from study.config.network import Network
from study.config.recipe import ParameterGroup, Recipe
from study.results.schema import COMPLETED
from study.training import graphed_objective, graphed_step, vmapped_pass
from study.training.batches import EpochBatches
from study.training.checkpoint import Checkpoint
from study.training.graphed_objective import with_graphs
from study.training.graphed_step import apply_gradients, step_obstacle
from study.training.loop import train
from study.training.model import build_model
from study.training.optimizers import build_optimizers
from study.training.recorder import Recorder, epoch_ends
from study.training.seeds import torch_seed
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from toys import norm, toy_task, weights

FUSED = {"optimizer": "adam", "options": {"fused": True}}
RMSPROP = {"optimizer": "rmsprop"}
SGD = {"optimizer": "sgd"}
MIXED = {**FUSED, "groups": (ParameterGroup(names="cell.*", factor=0.5, optimizer="rmsprop"),)}


class Captures:
    """A stand-in for `graphed_step.capture` that computes again instead of replaying.

    As with a graph, a capture changes no tensor, and a replay reads the batch where it was, takes
    the learning rates of the capture, and leaves `grad` alone. The memory of the batch is spoiled
    after each replay.
    """

    def __init__(self):
        self.captured = 0
        self.replayed = 0

    def __call__(self, run, *batch):
        step = run.__self__
        groups = [group for optimizer in step._optimizers for group in optimizer.param_groups]
        rates = [group["lr"] for group in groups]
        before = {id(part): (part, part.detach().clone()) for part in _tensors(step)}
        result = run(*batch).clone()
        assert all(id(part) in before for part in _tensors(step)), "the graph would create a state"
        with torch.no_grad():
            for part, values in before.values():
                part.copy_(values)
        result.fill_(math.nan)
        self.captured += 1

        def replay():
            self.replayed += 1
            gradients = [parameter.grad for parameter in step._parameters]
            current = [group["lr"] for group in groups]
            for group, rate in zip(groups, rates, strict=True):
                group["lr"] = rate
            result.copy_(run(*batch))
            for group, rate in zip(groups, current, strict=True):
                group["lr"] = rate
            for parameter, gradient in zip(step._parameters, gradients, strict=True):
                parameter.grad = gradient
            for part in batch:
                part.zero_()

        return replay, result


def _tensors(step):
    """Return what a step changes: parameters, and tensors of the optimizers' states."""
    tensors = list(step._parameters)
    for optimizer in step._optimizers:
        for state in optimizer.state.values():
            tensors += [part for part in state.values() if isinstance(part, torch.Tensor)]
    return tensors


@pytest.fixture
def captures(monkeypatch):
    monkeypatch.setattr(vmapped_pass, "GRAPH_DEVICES", ("cpu",))
    rmsprop = sys.modules["torch.optim.rmsprop"]
    monkeypatch.setattr(rmsprop, "_get_capturable_supported_devices", lambda: ["cpu"])
    captures = Captures()
    monkeypatch.setattr(graphed_step, "capture", captures)
    return captures


def _objective(model, inputs, labels):
    return F.cross_entropy(model(inputs), labels)


def _model(cell="lstm"):
    with torch_seed(np.random.SeedSequence(1)):
        return build_model(toy_task("tokens", 10), Network(cell=cell, width=16, embedding_width=2))


def _train(recipe, *, cell="lstm", size=4, checkpoint=None, stop_at=None):
    """Train a network on ten sequences; return it and the state of its run."""
    model = _model(cell)
    part = toy_task("tokens", 10).train
    batches = EpochBatches(part, size, np.random.default_rng(0))
    ends = epoch_ends(batches.steps_per_epoch, recipe.total_steps(batches.steps_per_epoch))
    stop = None if stop_at is None else lambda row: row["step"] >= stop_at
    recorder = Recorder(norm, ends, stop=stop)
    objective = with_graphs(_objective, model)
    return model, train(model, batches, objective, recipe, recorder=recorder, checkpoint=checkpoint)


@pytest.mark.parametrize("options", [FUSED, RMSPROP, SGD, MIXED], ids=["adam", "rms", "sgd", "two"])
def test_replayed_steps_train_as_plain_ones(options, captures, monkeypatch):
    recipe = Recipe(learning_rate=0.02, epochs=6, gradient_clip=0.5, drops=(3,), **options)
    graphed, state = _train(recipe)
    # Epochs have batches of 4, 4 and 2. The step with 4 is captured again when the rate drops.
    assert captures.captured == 3
    assert captures.replayed == state.step - 2 * graphed_step.PLAIN_STEPS
    monkeypatch.setenv(graphed_objective.SWITCH, "0")
    plain, expected = _train(recipe)
    assert state.status == expected.status == COMPLETED
    assert torch.equal(weights(graphed), weights(plain))
    assert state.rows == expected.rows


def test_a_run_resumes_with_a_graphed_step(captures, tmp_path):
    recipe = Recipe(learning_rate=0.02, epochs=6, **MIXED)
    whole, expected = _train(recipe)
    file = Checkpoint(tmp_path / "state", every=0)
    _train(recipe, checkpoint=file, stop_at=9)
    resumed, state = _train(recipe, checkpoint=Checkpoint(tmp_path / "state", every=0))
    assert torch.equal(weights(resumed), weights(whole))
    assert state.rows == expected.rows


def test_a_step_that_fails_to_be_captured_runs_plainly(captures, monkeypatch, capsys):
    def fail(*_, **__):
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    recipe = Recipe(learning_rate=0.02, epochs=4, **FUSED)
    graphed, _ = _train(recipe)
    monkeypatch.setattr(graphed_step, "capture", fail)
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", fail)
    plain, _ = _train(recipe)
    printed = capsys.readouterr().err
    assert printed.count("without a CUDA graph of whole steps, which is slower: operation") == 1
    assert torch.equal(weights(graphed), weights(plain))

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(graphed_step, "capture", full)
    with pytest.raises(torch.OutOfMemoryError):
        _train(recipe)


def test_batches_beyond_the_limit_of_shapes_take_plain_steps(captures, monkeypatch):
    monkeypatch.setattr(graphed_step, "MOST_SHAPES", 1)
    recipe = Recipe(learning_rate=0.02, epochs=6, **FUSED)
    graphed, state = _train(recipe)
    assert captures.captured == 1
    assert captures.replayed == 2 * 6 - graphed_step.PLAIN_STEPS, "the batches of four"
    monkeypatch.setenv(graphed_objective.SWITCH, "0")
    plain, expected = _train(recipe)
    assert torch.equal(weights(graphed), weights(plain))
    assert state.rows == expected.rows


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "fused"),
        ({"cosine": True, **FUSED}, "at every step"),
        (FUSED, ""),
        (RMSPROP, ""),
        (SGD, ""),
    ],
)
def test_steps_that_no_graph_can_hold_are_refused(options, reason, captures, monkeypatch):
    recipe = Recipe(learning_rate=0.02, epochs=1, **options)
    model = _model()
    optimizers, _ = build_optimizers(model, recipe, 1)
    obstacle = step_obstacle(with_graphs(_objective, model), optimizers, recipe)
    assert reason in obstacle
    assert bool(reason) == bool(obstacle)
    assert "pass" in step_obstacle(_objective, optimizers, recipe)


def test_capturable_optimizers_give_the_bits_of_the_others(captures, monkeypatch):
    for options in (FUSED, RMSPROP):
        recipe = Recipe(learning_rate=0.02, epochs=4, **options)
        monkeypatch.setattr(vmapped_pass, "GRAPH_DEVICES", ("cpu",))
        (capturable,), _ = build_optimizers(_model(), recipe, 1)
        monkeypatch.setattr(vmapped_pass, "GRAPH_DEVICES", ())
        (other,), _ = build_optimizers(_model(), recipe, 1)
        assert (capturable.defaults["capturable"], other.defaults["capturable"]) == (True, False)
        for _ in range(3):
            for optimizer in (capturable, other):
                for parameter in optimizer.param_groups[0]["params"]:
                    parameter.grad = parameter.detach().sin()
                optimizer.step()
        pairs = zip(*(part.param_groups[0]["params"] for part in (capturable, other)), strict=True)
        assert all(torch.equal(*pair) for pair in pairs)


def test_gradients_get_the_layout_of_their_parameter():
    parameter = torch.nn.Parameter(torch.zeros(3, 2))
    gradient = torch.arange(6.0).view(2, 3).T
    laid_out = graphed_step._laid_out_as(parameter, gradient)
    assert laid_out.is_contiguous() and torch.equal(laid_out, gradient)
    assert graphed_step._laid_out_as(parameter, laid_out) is laid_out
    assert graphed_step._laid_out_as(parameter, None) is None


class Reads(TorchDispatchMode):
    """Counts the operators that would make the host wait for a GPU."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.count += operator.overloadpacket.__name__ == "_local_scalar_dense"
        self.count += torch.Tag.data_dependent_output in operator.tags
        return operator(*args, **(kwargs or {}))


@pytest.mark.parametrize("options", [FUSED, RMSPROP, SGD], ids=["adam", "rmsprop", "sgd"])
def test_clipping_and_optimizers_read_no_value(options, captures):
    model = _model()
    optimizers, _ = build_optimizers(model, Recipe(learning_rate=0.02, epochs=1, **options), 1)
    (group,) = optimizers[0].param_groups
    if not group.get("fused"):
        group["foreach"] = True  # the default on a GPU
    with Reads() as reads:
        for _ in range(2):
            for parameter in model.parameters():
                parameter.grad = torch.ones_like(parameter)
            apply_gradients(group["params"], optimizers, 0.5)
    assert reads.count == 0
