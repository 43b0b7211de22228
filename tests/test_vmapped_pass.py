"""Networks trained in one pass: the same bits whatever else is in it, and a shard for each."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from designs import factorial as smoke
from designs import one_job, plain_job, study
from longrnn import kernels
from longrnn.cells import make_cell
from longrnn.kernels import _mapping, _threads, cpu_cornn, cpu_dt_lstm, cpu_gru
from longrnn.kernels._cpu_dense import BASIC
from longrnn.kernels._cpu_dense_operator import DENSE
from study.bench.counts import _Submitting, kernels_on_meta
from study.config.network import Network
from study.config.recipe import Recipe
from study.results.factorial import MEASUREMENTS
from study.results.schema import COMPLETED, DIVERGED
from study.training import graphed_objective, plans, vmapped_pass
from study.training.batched import Run, train_batched
from study.training.batches import EpochBatches
from study.training.cache_key import cache_key, engines
from study.training.checkpoint import Checkpoint
from study.training.factorial import AUTHOR, AUTHORS_GROUPS, train_attempts_on
from study.training.jobs import batch_jobs
from study.training.loop import train as train_alone
from study.training.model import Model, build_model
from study.training.plans import GPU_PASS_SIZE, plan_jobs
from study.training.progress import PendingJob
from study.training.recorder import Recorder, epoch_ends
from study.training.seeds import torch_seed
from study.training.vmapped_pass import VmappedPass
from study.training.worker import run_batch
from torch.nn import functional as F
from toys import norm, toy_task, weights

CELLS = ["rnn", "lstm", "gru", "lipschitz", "antisymmetric", "exponential", "unicornn", "lem"]
SOME = ["gru", "exponential", "unicornn"]
"""Gates, a weight that is a map of free parameters, and several layers read out whole."""
PASS_SIZE = 4
RATES = (0.01, 0.1, 0.003)
WITHOUT_GRAPH = "training without a CUDA graph of forward and backward passes, which is slower"


def _model(cell, seed, kind="tokens", width=16):
    """Return a network as the factorial starts it, by its author's settings if there are any."""
    start = "author" if cell in CELLS else "paper"
    more = {"start": start, "embedding_width": 2} | AUTHOR.get(cell, {})
    with torch_seed(np.random.SeedSequence(seed)):
        return build_model(toy_task(kind, 10), Network(cell=cell, width=width, **more))


def _run(cell, i, *, epochs=2, rate=None, dtype=torch.float32, **more):
    """Return the run of network i: its own weights, learning rate and order of the data."""
    model = _model(cell, i, **more).to(dtype)
    part = toy_task(more.get("kind", "tokens"), 10).train
    how = {"epochs": epochs, "gradient_clip": 0.5, "drops": (1,)}
    recipe = Recipe(learning_rate=RATES[i % 3], groups=AUTHORS_GROUPS.get(cell, ()), **how)
    if rate:  # which may be one that params.yaml can't have
        recipe = recipe.model_copy(update={"learning_rate": rate})
    batches = EpochBatches(part, 4, np.random.default_rng(i), drop_last=True)
    recorded = epoch_ends(batches.steps_per_epoch, recipe.total_steps(batches.steps_per_epoch))
    recorder = Recorder(norm, recorded, score=lambda row: row["norm"])
    return Run(model, batches, recipe, recorder)


def _objective(model, inputs, labels):
    return F.cross_entropy(model(inputs, engine="reference"), labels)


def _objective_by_engine(model, inputs, labels):
    return F.cross_entropy(model(inputs), labels)


def _alone(run):
    return train_alone(run.model, run.batches, _objective, run.recipe, recorder=run.recorder)


def _together(runs, objective=_objective):
    return train_batched(runs, objective, pass_size=PASS_SIZE)


def _losses_and_gradients(cell, engine):
    """Return losses of three networks and all gradients, by one pass or (engine None) alone."""
    runs = [_run(cell, i, dtype=torch.float64) for i in range(3)]
    models = [run.model for run in runs]
    batches = [run.batches.next() for run in runs]

    def objective(model, inputs, labels):
        return F.cross_entropy(model(inputs), labels)

    if engine is None:
        losses = [objective(model, *batch) for model, batch in zip(models, batches, strict=True)]
    else:
        passes = VmappedPass(models[0], objective, PASS_SIZE, engine=engine)
        losses = passes.losses(models, batches)
    parameters = [p for model in models for p in model.parameters() if p.requires_grad]
    return losses, torch.autograd.grad(sum(losses), parameters)


TAKE_RUNS = sorted(
    cell
    for (cell, name), engine in kernels._ENGINES.items()
    if name == "numba-cpu" and engine.takes_networks
)


def test_trained_cells_have_engines_for_many_networks():
    assert set(CELLS) <= set(TAKE_RUNS)
    assert {"cornn", "indrnn", "sru"} <= set(TAKE_RUNS)


@pytest.mark.parametrize("cell", TAKE_RUNS)
def test_engine_takes_all_networks_in_one_call(cell, monkeypatch):
    one_by_one = Mock()
    monkeypatch.setattr(_mapping, "run_one_by_one", one_by_one)
    found_losses, actual = _losses_and_gradients(cell, "numba-cpu")
    losses, gradients = _losses_and_gradients(cell, None)
    one_by_one.assert_not_called()
    torch.testing.assert_close(found_losses, losses, rtol=1e-12, atol=0)
    for value, expected in zip(actual, gradients, strict=True):
        assert (value - expected).abs().max() <= 1e-12 * max(expected.abs().max(), 1e-6)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("loop", "rows"),
    [
        (DENSE, 1),
        (cpu_gru._GRU, 3),
        (cpu_dt_lstm._DT_LSTM, 4),
        (cpu_cornn._CORNN, 1),
    ],
)
def test_batched_networks_equal_single_ones_bitwise(loop, rows, count, monkeypatch):
    monkeypatch.setattr(_threads, "PARALLEL_FROM", 0)
    monkeypatch.setattr(_threads.torch, "get_num_threads", lambda: count)
    networks = 3
    T = 5
    batch = 2
    d = 7
    W = torch.randn(networks, rows * d, d, requires_grad=True)
    g = torch.randn(networks, T, batch, rows * d, requires_grad=True)
    state = torch.randn(networks, batch, d)
    scales = torch.rand(networks, 2)

    def run(W, g, state, scales):
        if loop is DENSE:
            return loop(BASIC, None, W, None, None, g, None, state)[0]
        if loop is cpu_cornn._CORNN:
            return loop(0.3, 1.5, 0.1, W, W.mT, g, state, state)[0]
        if loop is cpu_dt_lstm._DT_LSTM:
            return loop(scales, W, g, state, state)[0]
        return loop(W, g, state)[0]

    tensors = W, g, state, scales
    mapped = torch.vmap(run)(*tensors)
    alone = torch.stack([run(*one) for one in zip(*tensors, strict=True)])
    assert torch.equal(mapped, alone)
    arriving = torch.randn_like(alone)
    actual = torch.autograd.grad(mapped, (W, g), arriving)
    expected = torch.autograd.grad(alone, (W, g), arriving)
    assert all(map(torch.equal, actual, expected))


def test_engine_of_a_pass_follows_cell_and_device(monkeypatch):
    for name in ("unicornn", "gru", "rnn"):
        assert kernels.choose_for_runs(name, "cpu") == "numba-cpu"
    for name in ("lstm", "lru"):
        assert kernels.choose_for_runs(name, "cpu") == "reference"
    assert kernels.engine_names("lstm") == ["reference", "library"]
    for key, engine in list(kernels._ENGINES.items()):
        monkeypatch.setitem(kernels._ENGINES, key, replace(engine, obstacle=str))
    assert kernels.choose("unicornn", "cuda") == "numba-cuda"
    assert kernels.choose_for_runs("unicornn", "cuda") == "numba-cuda"
    assert kernels.choose_for_runs("lipschitz", "cuda") == "numba-cuda"
    assert kernels.choose_for_runs("chrono_lstm", "cuda") == "numba-cuda"
    assert kernels.choose_for_runs("mingru", "cuda") == "reference-cuda"
    # Beyond the hidden size that fits into a multiprocessor's memory, the reference runs.
    limit = kernels._ENGINES["lem", "numba-cuda"].most_units(torch.float32)
    for units, chosen in ((limit, "numba-cuda"), (limit + 1, "reference-cuda")):
        assert kernels.choose_for_runs("lem", "cuda", torch.float32, units) == chosen
    assert kernels.choose_for_runs("lem", "cuda", torch.float64, limit) == "reference-cuda"
    assert kernels.choose_for_runs("unicornn", "cuda", torch.float32, 10 * limit) == "numba-cuda"


def test_a_pass_of_wide_networks_runs_by_the_reference(monkeypatch):
    narrow = replace(kernels._ENGINES["rnn", "numba-cpu"], most_units=lambda dtype: 16)
    monkeypatch.setitem(kernels._ENGINES, ("rnn", "numba-cpu"), narrow)
    for width, engine in ((16, "numba-cpu"), (17, "reference")):
        runs = [_run("rnn", i, width=width) for i in range(2)]
        passes = VmappedPass(runs[0].model, _objective_by_engine, PASS_SIZE)
        assert passes.engine == engine
        passes.losses([run.model for run in runs], [run.batches.next() for run in runs])


@pytest.mark.parametrize("cell", ["unicornn", "indrnn", "rnn", "lipschitz", "cornn", "lem"])
def test_fifty_networks_launch_what_one_launches(cell):
    launches = []
    for size in (1, 50):
        models = [Model(make_cell(cell, 2, 4), 3).to("meta") for _ in range(size)]
        batch = torch.empty(5, 7, 2, device="meta"), torch.empty(5, 3, device="meta")
        with kernels_on_meta(cell) as host, _Submitting():
            passes = VmappedPass(models[0], _squared, size, engine="numba-cuda")
            torch.autograd.backward(passes.losses(models, [batch] * size))
        launches.append(host.launches)
    assert launches[0] == launches[1] > 0


def _squared(model, inputs, targets):
    return (model(inputs) - targets).square().sum()


@pytest.mark.parametrize("cell", CELLS)
def test_batched_training_equals_single_up_to_rounding(cell):
    alone = [_run(cell, i, dtype=torch.float64) for i in range(3)]
    mapped = [_run(cell, i, dtype=torch.float64) for i in range(3)]
    start = [weights(run.model) for run in alone]
    expected = [_alone(run) for run in alone]
    actual = _together(mapped)
    for one, two, before in zip(alone, mapped, start, strict=True):
        truth = weights(one.model)
        assert (truth - before).norm() > 1e-3
        assert (weights(two.model) - truth).norm() <= 1e-10 * truth.norm()
    for one, two in zip(expected, actual, strict=True):
        assert (one.status, one.step) == (two.status, two.step) == (COMPLETED, 4)
        assert [row["step"] for row in two.rows] == [2, 4]
        assert two.column("norm", 2) == pytest.approx(one.column("norm", 2), rel=1e-10)
        assert two.best[0]["step"] == one.best[0]["step"]


@pytest.mark.parametrize("objective", [_objective, _objective_by_engine])
@pytest.mark.parametrize(("cell", "width"), [*((cell, 16) for cell in CELLS), ("gru", 48)])
def test_bits_do_not_depend_on_the_batch(cell, width, objective):
    def one(i, **more):
        return _run(cell, i, width=width, **more)

    groups = {  # by the place of the network that is looked at
        0: [one(0), one(1), one(2)],
        1: [one(3), one(0)],
        # One ends early, one diverges.
        3: [one(4, epochs=1), one(5, rate=math.inf), one(2), one(0)],
    }
    alone = one(0)
    (expected,) = _together([alone], objective)
    for place, members in groups.items():
        done = _together(members, objective)[place]
        assert torch.equal(weights(members[place].model), weights(alone.model))
        for name in ("rows", "status", "step"):
            assert getattr(done, name) == getattr(expected, name)


class Replays:
    """A stand-in for `torch.cuda.make_graphed_callables` that computes again instead of replaying.

    A graph always reads the memory of its sample and writes that of its results. Both are spoiled
    here between two passes, so that a pass that reads or keeps an old number is noticed.
    """

    def __init__(self):
        self.recorded = []
        self.replayed = 0

    def __call__(self, run, sample, *, allow_unused_input):
        assert allow_unused_input and all(part.is_leaf for part in sample)
        self.recorded.append(tuple(part.shape for part in sample[-2:]))
        trained = [i for i, part in enumerate(sample) if part.requires_grad]
        results = run(*sample).detach().clone()
        buffers = [torch.empty_like(sample[i]) for i in trained]

        def spoil():
            for part in [*sample, results, *buffers]:
                if part.is_floating_point():
                    part.detach().fill_(math.nan)

        class Graphed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *tensors):
                # The first may lie where the sample does.
                values = [part.clone() for part in tensors]
                spoil()
                with torch.no_grad():
                    for place, value in zip(sample, values, strict=True):
                        place.copy_(value)
                with torch.enable_grad():
                    Graphed.graph = run(*sample)
                results.copy_(Graphed.graph.detach())
                self.replayed += 1
                return results.detach()

            @staticmethod
            def backward(ctx, given):
                actual = torch.autograd.grad(Graphed.graph, [sample[i] for i in trained], given)
                gradients = [None] * len(sample)
                for i, place, gradient in zip(trained, buffers, actual, strict=True):
                    gradients[i] = place.copy_(gradient)
                return tuple(gradients)

        return lambda *tensors: Graphed.apply(*tensors)


@pytest.fixture
def replays(monkeypatch):
    monkeypatch.setattr(vmapped_pass, "GRAPH_DEVICES", ("cpu",))
    replays = Replays()
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", replays)
    return replays


@pytest.mark.parametrize("cell", SOME)
def test_replayed_passes_train_as_plain_ones(cell, replays, monkeypatch):
    def members():  # one ends early, one diverges
        return [_run(cell, 0), _run(cell, 1, epochs=1), _run(cell, 2, rate=math.inf)]

    recorded = members()
    plain = members()
    actual = _together(recorded)
    assert replays.recorded == [((6, 4, 6), (6, 4))] and replays.replayed == 4
    monkeypatch.setattr(vmapped_pass, "GRAPH_DEVICES", ())
    expected = _together(plain)
    assert replays.replayed == 4
    assert [one.status for one in actual] == [COMPLETED, COMPLETED, DIVERGED]
    for one, two in zip(recorded[:2], plain[:2], strict=True):
        assert torch.equal(weights(one.model), weights(two.model))
    assert [one.rows for one in actual] == [one.rows for one in expected]


def _fails(error):
    def fail(*_, **__):
        raise error

    return fail


def test_unrecordable_pass_runs_plainly_with_a_message(replays, monkeypatch, capsys):
    refused = RuntimeError("operation not permitted when stream is capturing\nand more")
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", _fails(refused))
    trained = []
    for devices in (("cpu",), ()):
        monkeypatch.setattr(vmapped_pass, "GRAPH_DEVICES", devices)
        trained.append(_run("rnn", 0))
        _together(trained[-1:])
    assert capsys.readouterr().err.count(f"{WITHOUT_GRAPH}: operation") == 1
    assert torch.equal(*(weights(one.model) for one in trained))
    full = torch.OutOfMemoryError("CUDA out of memory")
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", _fails(full))
    monkeypatch.setattr(vmapped_pass, "GRAPH_DEVICES", ("cpu",))
    with pytest.raises(torch.OutOfMemoryError):
        _together([_run("rnn", 0)])


def test_a_nan_metric_ends_only_its_own_run():
    runs = [_run("rnn", i) for i in range(3)]
    values = iter([1.0, math.nan])
    recorder = Recorder(lambda model: {"value": next(values)}, (2, 4))
    runs[1] = replace(runs[1], recorder=recorder)
    first, second, _ = _together(runs)
    assert (second.status, second.step, second.column("value", 1)) == (DIVERGED, 4, [1.0])
    (expected,) = _together([_run("rnn", 0)])
    assert first.rows == expected.rows


def test_an_error_in_a_shared_pass_is_raised():
    """Nothing says which of the runs failed."""

    def objective(model, inputs, labels):
        raise ArithmeticError("overflow")

    with pytest.raises(ArithmeticError, match="overflow"):
        _together([_run("rnn", i) for i in range(2)], objective)


def test_error_of_last_active_run_marks_its_divergence():
    short = _run("rnn", 0, epochs=1)
    long = _run("rnn", 1)
    calls = 0

    def objective(model, inputs, labels):
        nonlocal calls
        calls += 1
        if calls > short.total_steps:
            raise FloatingPointError("diverged")
        return _objective(model, inputs, labels)

    first, second = _together([short, long], objective)
    assert first.step == short.total_steps and first.status != DIVERGED
    assert second.status == DIVERGED


def _train_one(cell, **more):
    run = _run(cell, 0, **more)
    objective = graphed_objective.with_graphs(_objective, run.model)
    return run, train_alone(run.model, run.batches, objective, run.recipe, recorder=run.recorder)


@pytest.mark.parametrize("cell", ["lstm", "unicornn"])
def test_replays_of_one_model_train_as_plain_passes(cell, replays, monkeypatch):
    graphed, states = _train_one(cell)
    assert replays.recorded == [((4, 6), (4,))] and replays.replayed == 4
    monkeypatch.setenv(graphed_objective.SWITCH, "0")
    plain, expected = _train_one(cell)
    assert replays.replayed == 4
    assert torch.equal(weights(graphed.model), weights(plain.model))
    assert states.rows == expected.rows


def test_each_shape_has_its_graph_within_limits(replays, monkeypatch):
    monkeypatch.setattr(graphed_objective, "MOST_SHAPES", 2)
    model = _model("gru", 0)
    objective = graphed_objective.with_graphs(_objective, model)
    tokens, labels = _run("gru", 0).batches.next()
    for size in (4, 3, 4, 2, 2):
        batch = tokens[:size], labels[:size]
        torch.testing.assert_close(objective(model, *batch), _objective(model, *batch))
    assert (objective.captured, replays.replayed) == (2, 3)


def test_models_that_no_graph_can_hold_run_plainly(replays, monkeypatch, capsys):
    assert graphed_objective.graph_obstacle(_model("gru", 0)) == ""
    assert graphed_objective.graph_obstacle(_model("gru", 0).output) == "", "a reservoir's head"
    assert "parametrizations" in graphed_objective.graph_obstacle(_model("exponential", 0))
    dropping = _model("gru", 0)
    dropping.dropout = dropping.dropout.model_copy(update={"output_dropout": 0.5})
    assert "masks of dropout" in graphed_objective.graph_obstacle(dropping)
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", _fails(RuntimeError("no\nway")))
    run, _ = _train_one("gru")
    assert capsys.readouterr().err.count(f"{WITHOUT_GRAPH}: no") == 1
    monkeypatch.setattr(vmapped_pass, "GRAPH_DEVICES", ("cuda",))
    assert graphed_objective.graph_obstacle(run.model) == "the model is on cpu"
    plain, _ = _train_one("gru")
    assert torch.equal(weights(run.model), weights(plain.model))


LEVELS = {
    "width": 16,
    "learning_rate": 0.01,
    "start": "author",
    "batch_size": 8,
    "networks_per_pass": 4,
}
OTHERS = [
    {"order": "permuted", "noise": "post"},
    {"order": "sequential", "noise": "uniform", "training_length": 1},
    {"order": "permuted", "noise": "uniform", "learning_rate": 0.1, "replicate": 3},
]


def attempts(architecture, **changes):
    levels = LEVELS | changes
    return [one_job("factorial", **levels | {"architecture": architecture} | o) for o in OTHERS]


@pytest.mark.parametrize("architecture", SOME)
def test_batched_attempts_equal_single_ones_up_to_rounding(architecture):
    jobs = attempts(architecture)
    data = toy_task(n=16)
    configs = [job.config for job in jobs]
    alone = [train_attempts_on(data, [config], [None])[0] for config in configs]
    mapped = train_attempts_on(data, configs, [None] * len(jobs), pass_size=PASS_SIZE)
    for config, one, two in zip(configs, alone, mapped, strict=True):
        epochs = config.training_length
        assert (one["status"], one["epochs_completed"]) == (COMPLETED, epochs)
        assert (two["status"], two["epochs_completed"]) == (COMPLETED, epochs)
        for name in MEASUREMENTS:
            assert two[name].shape == (2, epochs)
            np.testing.assert_allclose(two[name], one[name], rtol=1e-4, atol=1e-4, err_msg=name)
    losses = np.array([one["loss"][0, 0] for one in alone])
    assert np.ptp(losses) > 2e-3, "attempts must differ by more than they may be off"
    assert abs(alone[0]["loss"][0, 1] - losses[0]) > 2e-3, "and have learned something"


SMALL = {"architecture": ("gru",), "width": (16,), "learning_rate": (0.01, 0.1), "batch_size": 8}
SMALL |= {"order": ("permuted",), "noise": ("none",), "replicates": 2}
SMALL |= {"train_size": 16, "networks_per_pass": 3}


def design(**changes):
    return smoke(**SMALL | changes)


def trained(shared_cluster, prepared, cache, **changes):
    return study(shared_cluster, prepared, cache, **SMALL | changes)


def shards(cache):
    return {path.name: path.read_bytes() for path in cache.glob("*.npz")}


@pytest.fixture(scope="module")
def whole(shared_cluster, prepared, tmp_path_factory):
    """Three replicates of two rates, trained uninterrupted: six attempts, three in a pass."""
    cache = tmp_path_factory.mktemp("whole")
    return trained(shared_cluster, prepared, cache, replicates=3), cache


def test_each_attempt_has_a_shard_of_its_own(shared_cluster, prepared, whole, tmp_path, capsys):
    trained(shared_cluster, prepared, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.npz")}
    assert len(before) == 4
    capsys.readouterr()
    ds = trained(shared_cluster, prepared, tmp_path, replicates=3)
    stderr = capsys.readouterr().err
    assert "2 of 6 jobs to run" in stderr and "and 1 more" in stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    expected, cache = whole
    assert ds.identical(expected), "attempts depend on which others are in their pass"
    assert shards(tmp_path).keys() == shards(cache).keys()


def _first(**changes):
    return plan_jobs([design(**changes)])[0]


def test_pass_key_holds_what_shapes_a_pass():
    one = _first()
    for same in ({"learning_rate": (0.5,)}, {"training_length": (9,)}, {"order": ("sequential",)}):
        assert _first(**same).pass_key == one.pass_key
    post, uniform = (_first(noise=(noise,)).pass_key for noise in ("post", "uniform"))
    assert post == uniform != one.pass_key
    others = [{"width": (32,)}, {"architecture": ("rnn",)}, {"batch_size": 4}, {"probe_size": 3}]
    assert len({_first(**other).pass_key for other in others} | {one.pass_key}) == 5


def test_cache_key_holds_pass_size_in_engines_only(prepared):
    one = _first()
    alone = _first(networks_per_pass=1)
    key = cache_key(one, prepared)
    assert cache_key(_first(learning_rate=(0.5,)), prepared) != key
    assert cache_key(_first(replicates=9), prepared) == key
    assert cache_key(_first(networks_per_pass=4), prepared) != key
    assert cache_key(alone, prepared) != key
    assert "networks_per_pass" not in key["levels"]
    assert cache_key(alone, prepared)["levels"] == key["levels"]
    assert alone.pass_size == 1
    assert engines(one) == {"gru": "numba-cpu, 3 places; probes numba-cpu"}
    assert engines(alone) == {"gru": "numba-cpu"}


def test_default_pass_size_depends_on_the_device(prepared, monkeypatch):
    default, alone = (_first(networks_per_pass=size) for size in (0, 1))
    assert cache_key(default, prepared) == cache_key(alone, prepared)
    monkeypatch.setattr(plans, "pick_device", lambda _: torch.device("cuda"))
    job = _first(networks_per_pass=0)
    assert job.pass_size == GPU_PASS_SIZE
    assert engines(job) == {"gru": f"reference-cuda, {GPU_PASS_SIZE} places; probes library-cuda"}


def test_unaligned_width_is_refused_side_by_side():
    words = "multiple of 16 with vmapped passes on a CPU, got 20; choose"
    with pytest.raises(ValueError, match=words):
        _first(width=(20,))


def _pending(group, title, size=1.0, key="", *cells):
    pass_size = 2 if key else 1
    job = plain_job(
        None, title=title, relative_cost=size, pass_key=key, pass_size=pass_size, cells=cells
    )
    return PendingJob(job, group, {}, None)


def test_batches_start_smallest_per_cell_largest_per_group():
    one = [("b", 5), ("a", 4, "A"), ("c", 4, "B"), ("a", 3, "A"), ("d", 2, "A"), ("g", 3, "", "x")]
    jobs = [_pending("one", *job) for job in one]
    jobs += [_pending("two", "e", 1), _pending("two", "f", 0.5)]
    order = ["f", "g", "aa", "e", "b", "c", "d"]
    titles = []
    for batch in batch_jobs(jobs):
        titles.append("".join(pending.job.title for pending in batch))
    assert titles == order


def test_runs_of_one_pass_resume_from_checkpoints_of_different_steps(
    shared_cluster, prepared, whole, tmp_path, monkeypatch, capsys
):
    jobs = plan_jobs([design(replicates=3)])[:3]
    saved = []

    def dying(self, total):
        # Of the second of three, at its second step: the first's is a step newer.
        if len(saved) == 4:
            raise KeyboardInterrupt
        saved.append(self.save())

    keys = [cache_key(job, prepared) for job in jobs]
    with monkeypatch.context() as patch, ThreadPoolExecutor() as other:
        patch.setattr(Checkpoint, "save_if_due", dying)
        with pytest.raises(KeyboardInterrupt):
            other.submit(run_batch, jobs, keys, prepared, tmp_path).result()
    assert len(list(tmp_path.glob("*.state"))) == 3 and not shards(tmp_path)
    expected, cache = whole
    assert trained(shared_cluster, prepared, tmp_path, replicates=3).identical(expected)
    stderr = capsys.readouterr().err
    assert "resumes at step 1" in stderr and "resumes at step 2" in stderr
    assert shards(tmp_path).keys() == shards(cache).keys()
    assert not list(tmp_path.glob("*.state")), "states are forgotten with the results kept"
