"""Training: what is recorded, what ends it, what is refused, and equal bits after a kill."""

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from longrnn.cells import make_cell
from refusals import refused
from study.config.network import Dropout, Network
from study.config.recipe import Recipe
from study.config.section import ParameterError, parse_section
from study.results.schema import DIVERGED
from study.tasks import Split, Task
from study.training.batches import EpochBatches
from study.training.checkpoint import Checkpoint
from study.training.loop import train
from study.training.measures import penalized_loss
from study.training.memory import STATE_ARRAYS, check_memory
from study.training.model import Model, _drop_features, build_model
from study.training.objectives import make_objective
from study.training.recorder import Recorder, epoch_ends
from study.training.run_data import RunData, reduce_to_head
from study.training.scores import evaluate, predictions, task_loss
from study.training.seeds import seeds, torch_seed
from study.training.state import RunState
from torch.nn import functional as F
from toys import norm, toy_task, weights


def _part(n=10, steps=4, seed=0):
    rng = np.random.default_rng(seed)
    return Split(rng.random((n, steps, 1), dtype=np.float32), rng.integers(0, 2, n))


def _model(seed=0, **more):
    with torch_seed(np.random.SeedSequence(seed)):
        return Model(make_cell("gru", 1, 3), 2, **more)


def _objective(model, inputs, labels):
    return F.cross_entropy(model(inputs), labels)


def _train(model, recipe, *, recorder=None, objective=_objective, keep=None, **more):
    batches = EpochBatches(_part(), 3, np.random.default_rng(1))
    if recorder is None:
        recorded = epoch_ends(batches.steps_per_epoch, recipe.total_steps(batches.steps_per_epoch))
        recorder = Recorder(norm, recorded, score=keep)
    return train(model, batches, objective, recipe, recorder=recorder, **more)


def test_epoch_is_a_permutation_of_the_sequences():
    part = Split(np.arange(7, dtype=np.float32).reshape(7, 1, 1), np.arange(7))
    batches = EpochBatches(part, 3, np.random.default_rng(0))
    epochs = []
    for _ in range(2):
        labels = [batches.next()[1] for _ in range(batches.steps_per_epoch)]
        epochs.append(torch.cat(labels).tolist())
    first, second = epochs
    assert sorted(first) == sorted(second) == list(range(7))
    assert first != second
    whole = EpochBatches(part, 3, np.random.default_rng(0), drop_last=True)
    assert (batches.steps_per_epoch, whole.steps_per_epoch) == (3, 2)


GROUPED = {"groups": [{"names": "cell.*", "factor": 0.5, "optimizer": "adam"}], "drops": [1, 2]}


@pytest.mark.parametrize(
    "settings",
    [{"gradient_clip": 1e-2}, {"cosine": True}, GROUPED, {"options": {"weight_decay": 0.1}}],
    ids=str,
)
def test_steps_equal_those_of_a_plain_pytorch_loop(settings):
    recipe = {"learning_rate": 0.1, "epochs": 3, "optimizer": "sgd"} | settings
    model = _model()
    other = _model()
    _train(model, parse_section(Recipe, recipe, "recipe"))
    cell = list(other.cell.parameters())
    head = list(other.output.parameters())
    optim = torch.optim
    schedule = torch.optim.lr_scheduler
    if "groups" in settings:
        optimizers = [optim.Adam(cell, lr=0.05), optim.SGD(head, lr=0.1)]
        schedules = [schedule.MultiStepLR(one, [4, 8]) for one in optimizers]
    else:
        optimizers = [optim.SGD([*cell, *head], lr=0.1, **settings.get("options", {}))]
        schedules = []
        if "cosine" in settings:
            schedules = [schedule.CosineAnnealingLR(optimizers[0], 12)]
    batches = EpochBatches(_part(), 3, np.random.default_rng(1))
    for _ in range(12):
        other.zero_grad()
        _objective(other, *batches.next()).backward()
        if "gradient_clip" in settings:
            torch.nn.utils.clip_grad_norm_(other.parameters(), settings["gradient_clip"])
        for one in (*optimizers, *schedules):
            one.step()
    torch.testing.assert_close(weights(model), weights(other))


def test_best_record_is_kept_latest_of_equals():
    merits = iter([1.0, 3.0, 3.0, 2.0])
    model = _model()
    seen = []

    def measure(model):
        seen.append(weights(model))
        return {"merit": next(merits)}

    recorder = Recorder(measure, range(4), score=lambda row: row["merit"])
    row, kept = _train(model, Recipe(learning_rate=0.1, steps=3), recorder=recorder).best
    assert row["step"] == 2
    model.load_state_dict(kept)
    assert torch.equal(weights(model), seen[2])


@pytest.mark.parametrize("finite", ["loss", "gradients"])
def test_infinite_loss_ends_before_weights_move(finite):
    model = _model()
    calls = iter(range(100))

    def failing(model, inputs, labels):
        return _objective(model, inputs, labels) * (math.nan if next(calls) == 5 else 1)

    done = _train(model, Recipe(learning_rate=0.1, epochs=3), objective=failing, check=finite)
    assert done.status == DIVERGED and done.step == 5
    assert [row["step"] for row in done.rows] == [4]
    assert torch.isfinite(weights(model)).all()


def test_loss_after_the_last_record_is_checked(monkeypatch):
    def add_only(state, loss):  # as on a GPU
        state.loss_sum = state.loss_sum + loss.detach()

    monkeypatch.setattr(RunState, "check_loss", add_only)
    calls = iter(range(100))

    def failing(model, inputs, labels):
        return _objective(model, inputs, labels) * (math.nan if next(calls) == 3 else 1)

    recorder = Recorder(lambda model: {}, (2,))
    done = _train(
        _model(), Recipe(learning_rate=0.1, steps=4), recorder=recorder, objective=failing
    )
    assert done.status == DIVERGED and [row["step"] for row in done.rows] == [2]


def test_nan_weight_marks_divergence_before_it_is_measured():
    def breaking(model, inputs, labels):
        next(model.parameters()).register_hook(lambda gradient: gradient * math.nan)
        return _objective(model, inputs, labels)

    recorder = Recorder(lambda model: {"adjoint": 1.0}, (1,))
    done = _train(
        _model(), Recipe(learning_rate=0.1, steps=2), objective=breaking, recorder=recorder
    )
    assert done.status == DIVERGED and done.rows == []


def test_nan_metric_marks_divergence_minus_inf_does_not():
    recipe = Recipe(learning_rate=0.1, steps=4)
    values = iter([-math.inf, math.nan])
    recorder = Recorder(lambda model: {"adjoint": next(values)}, (2, 4))
    done = _train(_model(), recipe, recorder=recorder)
    assert done.status == DIVERGED and done.column("adjoint", 1) == [-math.inf]


def _checked(**settings):
    return lambda: parse_section(Recipe, {"learning_rate": 0.1} | settings, "recipe")


test_recipes_that_cannot_train_are_refused = refused(
    ParameterError,
    ("expected either epochs or steps above 0, got epochs 0 and steps 0", _checked()),
    (
        "expected either epochs or steps above 0, got epochs 1 and steps 1",
        _checked(epochs=1, steps=1),
    ),
    ("sgd does not take .*'eps'", _checked(epochs=1, optimizer="sgd", options={"eps": 0.1})),
    ("adam does not take .*: Invalid epsilon", _checked(epochs=1, options={"eps": -1.0})),
)
RNN = Network(cell="rnn", width=4)
RNG = np.random.default_rng(0)
test_what_does_not_fit_together_is_refused = refused(
    ValueError,
    (
        "7 sequences do not fill a batch of 8; use",
        lambda: EpochBatches(_part(7), 8, RNG, drop_last=True),
    ),
    ("toy: tokens need an embedding; give emb", lambda: build_model(toy_task("tokens"), RNN)),
)


@pytest.mark.parametrize("kind", ["pixels", "tokens", "series"])
@pytest.mark.parametrize("target", ["class", "value", "steps"])
@pytest.mark.parametrize("read", ["", "all"])
def test_every_head_on_every_task(kind, target, read):
    task = toy_task(kind, 6, 5, target)
    make = partial(build_model, task, Network(cell="lstm", width=4, read=read, embedding_width=2))
    if read == "all" and target == "steps":
        message = "toy has a target at every step; a head that reads 'all' does not fit"
        with pytest.raises(ValueError, match=message):
            make()
        return
    model = make()
    predicted = model(torch.from_numpy(task.test.inputs))
    assert predicted.shape == ((6, 5, 3) if target == "steps" else (6, 3))
    loss, metric = evaluate(model, task, task.test, batch_size=4)
    targets = torch.from_numpy(task.test.targets)
    assert loss == pytest.approx(task_loss(task)(predicted, targets).item(), rel=1e-5)
    if task.classifies:
        assert metric == (predicted.argmax(-1) == targets).double().mean().item()
    else:
        assert metric == pytest.approx(math.sqrt(loss))


@pytest.mark.parametrize("training", [False, True])
def test_predictions_restore_the_mode_if_left_early(training):
    task = toy_task("series", 6, 5, "value")
    model = build_model(task, Network(cell="lstm", width=4)).train(training)
    for _ in predictions(model, task.test, batch_size=2):
        assert not model.training
        break
    assert model.training == training
    split = replace(task.test, inputs=np.full_like(task.test.inputs, np.nan))
    with pytest.raises(ValueError, match="expected finite input"):
        evaluate(model, task, split)
    assert model.training == training


CLASSES = np.array([0, 0, 0, 1])
STEPS = np.array([[[1.0], [2.0], [4.0]]], np.float32)
SERIES = Split(STEPS[:, :-1], STEPS[:, 1:])  # the next value


@pytest.mark.parametrize(
    ("target", "part", "asked", "loss", "metric"),
    [
        ("class", CLASSES, CLASSES, -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)), 0.75),
        # Each of three classes is counted once more.
        ("class", CLASSES, np.array([0, 2]), -(math.log(4 / 7) + math.log(1 / 7)) / 2, 0.5),
        ("steps", SERIES, SERIES, 1.0, 1.0),  # the mean; copying costs 2.5
        ("steps", Split(SERIES.inputs, SERIES.inputs + 0.1), None, 0.01, 0.1),  # copying
    ],
)
def test_loss_and_metric_at_chance(target, part, asked, loss, metric):
    if target == "class":
        part, asked = (Split(np.zeros((len(k), 1, 1), np.float32), k) for k in (part, asked))
    outputs = 1 if target == "steps" else int(asked.targets.max()) + 1
    task = Task(name="a", kind="series", target=target, train=part, outputs=outputs)
    assert task.guess(asked or part) == pytest.approx((loss, metric))


def test_dropout_masks_words_or_features_in_training_only():
    torch.manual_seed(0)
    task = toy_task("tokens", 6, 5, "steps")
    shares = {"embedding_dropout": 0.5, "output_dropout": 0.5}
    model = build_model(task, Network(cell="rnn", width=50, embedding_width=40, **shares))
    inputs = torch.from_numpy(task.test.inputs)
    dropped = model.cell_inputs(inputs).transpose(0, 1) == 0
    assert 0.3 < dropped.double().mean() < 0.7
    assert all(len(dropped[inputs == word].unique()) == 1 for word in inputs.unique())
    assert _drop_features(torch.ones(6, 5, 9), 0.5, True).unique(dim=1).shape == (6, 1, 9)
    assert not torch.equal(model(inputs), model(inputs))
    model.eval()
    assert torch.equal(model(inputs), model(inputs))


def test_objectives_add_their_weighted_penalty():
    torch.manual_seed(0)
    task = toy_task("series", 6, 5)
    model = build_model(task, RNN)
    batch = torch.from_numpy(task.train.inputs), torch.from_numpy(task.train.targets)
    plain = make_objective("plain", task)(model, *batch)
    torch.testing.assert_close(plain, task_loss(task)(model(batch[0]), batch[1]))
    W = model.cell.W.detach()
    penalty = sum((part - torch.eye(4)).square().sum() for part in (W.T @ W, W @ W.T))
    G = penalized_loss(model, *batch, 0.0).penalty
    assert G > 0 and penalty > 0
    for name, more in (("orthogonal", penalty), ("coadjoint", G)):
        for weight in (0.0, 0.7):
            loss = make_objective(name, task, weight)(model, *batch)
            torch.testing.assert_close(loss, plain + weight * more, rtol=1e-4, atol=1e-6)


def test_reservoir_head_learns_from_last_states():
    task = toy_task("series", 6, 5)
    row = RNN.model_copy(update={"frozen": ("cell.*",)})
    model = build_model(task, row)
    left = [name for name, p in model.named_parameters() if p.requires_grad]
    assert left == ["output.weight", "output.bias"]
    data = RunData(task, {"train": task.train})
    trained = reduce_to_head(row, model, data)
    assert trained.model is model.output
    for changing in ({"output_dropout": 0.1}, {"hyper_parameters": {"dropout": 0.1}}):
        whole = reduce_to_head(row.model_copy(update=changing), model, data)
        assert whole.model is model, "what the head reads differs from step to step"
    states, inputs = (torch.from_numpy(part.inputs) for part in (trained.train, task.train))
    torch.testing.assert_close(trained.model(states), model(inputs))


@pytest.fixture(scope="module")
def interruptible():
    """Return a function that trains with dropout, and its result without interruption."""
    recipe = Recipe(learning_rate=0.05, epochs=3, drops=(2,))

    def run(checkpoint=None, fail=0):
        model = _model(dropout=Dropout(output_dropout=0.3))
        calls = iter(range(1, 100))

        def objective(model, inputs, labels):
            if next(calls) == fail:
                raise KeyboardInterrupt
            return _objective(model, inputs, labels)

        more = {"keep": lambda row: -row["norm"], "checkpoint": checkpoint}
        with torch_seed(np.random.SeedSequence(5)):  # dropout draws from torch's generator
            done = _train(model, recipe, objective=objective, **more)
        return weights(model), done.rows, done.step, done.best[0]

    return run, run()


def _equal(one, other):
    return torch.equal(one[0], other[0]) and one[1:] == other[1:]


@pytest.mark.parametrize("stop", [1, 4, 7])
def test_resumed_run_ends_with_the_same_bits(tmp_path, interruptible, stop, capsys):
    run, whole = interruptible
    path = tmp_path / "one.state"
    with pytest.raises(KeyboardInterrupt):
        run(Checkpoint(path, every=0.0), fail=stop + 1)
    assert _equal(run(Checkpoint(path, every=0.0)), whole)
    assert f"resumes at step {stop}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "damage"),
    [("one", lambda s: s[:-9]), ("one", lambda s: s[:50] + b"?" + s[51:]), ("two", lambda s: s)],
    ids=["cut", "altered", "another's"],
)
def test_a_damaged_or_foreign_checkpoint_starts_over(tmp_path, interruptible, name, damage, capsys):
    run, whole = interruptible
    path = tmp_path / "one.state"
    written = tmp_path / f"{name}.state"
    with pytest.raises(KeyboardInterrupt):
        run(Checkpoint(written, every=0.0), fail=4)
    path.write_bytes(damage(written.read_bytes()))
    assert _equal(run(Checkpoint(path, "toy", every=1e9)), whole)
    printed = capsys.readouterr().err
    assert "one.state is damaged (its content is not what was written); toy starts over" in printed
    assert not path.exists() and path.with_suffix(".damaged").exists()


def _states(levels, count):
    return [seed.generate_state(2).tolist() for seed in seeds(levels, count)]


def test_seeds_depend_on_levels_alone():
    assert _states({"width": 4, "cell": "rnn"}, 2) == _states({"cell": "rnn", "width": 4}, 2)
    assert _states({"width": 4}, 5)[:1] == _states({"width": 4}, 1) != _states({"width": 5}, 1)
    assert len({tuple(state) for state in _states({"width": 4}, 50)}) == 50


TOKENS = Split(np.zeros((10, 20), np.int64), np.zeros(10, np.int64))
TEXTS = replace(toy_task("tokens"), vocabulary_size=25_003, train=TOKENS, test=TOKENS)


def test_memory_of_a_batch_is_exact(monkeypatch):
    every = replace(TEXTS, target="steps", outputs=1000)
    memory = SimpleNamespace()
    cpu = torch.device("cpu")
    monkeypatch.setattr("study.training.memory.psutil.virtual_memory", lambda: memory)
    message = (
        "toy: batches of 50000 sequences of 20 steps at width 64 need about {} GiB, there are .*; "
        "{}"
    )
    for task, predicted, size in ((TEXTS, 0, 2.9), (every, 3 * 1000, 14.0)):  # of the softmax
        memory.available = 4 * 20 * 50_000 * (2 + STATE_ARRAYS * 64 + predicted)
        check_memory(task, 20, 50_000, 64, cpu)
        memory.available -= 1
        with pytest.raises(ValueError, match=message.format(size, "lower batch_size to 49999")):
            check_memory(task, 20, 50_000, 64, cpu)
    memory.available = 0
    with pytest.raises(
        ValueError, match=message.format(14.0, "use shorter sequences or a smaller width")
    ):
        check_memory(every, 20, 50_000, 64, cpu)


def test_embedding_starts_from_word_vectors():
    vectors = np.random.default_rng(0).normal(size=(25_003, 6)).astype(np.float32)
    task = replace(TEXTS, vectors=vectors)
    lstm = Network(cell="lstm", width=4, embedding_width=6)
    model = build_model(task, lstm)
    assert np.array_equal(model.embedding.weight.detach().numpy(), vectors)
    assert model.embedding.weight.requires_grad
    for cut, width, why in [
        (vectors, 5, "vectors of 6 numbers, got embedding_width 5; make them"),
        (vectors[:25_000], 6, "a vocabulary of 25,003 tokens, larger than the embedding's 25,000"),
    ]:
        with pytest.raises(ValueError, match=f"toy has {why}"):
            build_model(
                replace(TEXTS, vectors=cut), lstm.model_copy(update={"embedding_width": width})
            )
