"""What can only be known on a GPU, and its benchmarks as far as they run here.

On a GPU: whether the kernels are right there. Of `make bench-gpu`: what is timed is the same
computation, every measurement is kept at once, and the table says what it must.
"""

import os
import shutil
import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import packages_distributions
from types import SimpleNamespace

import pytest
import torch
from longrnn import kernels
from longrnn.cells import cell_names
from longrnn.kernels import (
    _cuda_persistent,
    _measured,
    cuda_persistent_gru,
    cuda_persistent_lem,
    cuda_persistent_lstm,
    cuda_persistent_rnn,
)
from longrnn.kernels._measured import MEASURED
from longrnn.probes.adjoint import ENGINE_CHUNK
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from processes import python
from study.bench.counts import PROBES, TRAINING, count, count_engine_probe
from study.bench.figure_1 import LAYERS
from study.bench.gpu import __main__ as bench
from study.bench.gpu import checks, parts, slices
from study.bench.ledger import COLUMNS, Ledger, read_rows
from study.bench.parity import convert_case, random_case
from study.bench.race import race
from study.bench.timers import Workload, as_graph, engines_on, host_timer, wall_timer
from study.paths import ROOT
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.engines import TOLERANCE, assert_bad_numbers_spread, assert_engine_agrees

CELLS = [
    name for name in cell_names() if "numba-cuda" in kernels.engine_names(name, with_opt_in=True)
]
ENGINE = "numba-cuda"
SIZES = (40, 5, 33)


def a_case(name):
    return convert_case("cuda", *random_case(name, *SIZES, torch.float32))


def results(outputs, final, leaves):
    loss = outputs.square().sum() + sum(part.sum() for part in final)
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
    return [outputs, *final, *gradients]


def run(cell, u, state):
    return results(*cell(u, state, engine=ENGINE), [*cell.parameters(), u, *state])


def assert_close(actual, expected):
    for one, two in zip(actual, expected, strict=True):
        scale = max(two.abs().max().item(), 1e-30)
        assert (one - two).abs().max().item() / scale < TOLERANCE[torch.float32]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", CELLS)
def test_kernels_equal_the_reference(name, dtype):
    assert_engine_agrees(random_case(name, 203, 9, 65, dtype), name, ENGINE)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "units", "dtype"),
    [
        ("rnn", 65, torch.float32),
        ("rnn", 65, torch.float64),
        ("rnn", 128, torch.float64),
        ("rnn", 256, torch.float32),
        ("lstm", 33, torch.float32),
        ("lstm", 64, torch.float64),
        ("lstm", 128, torch.float32),
        ("dt_lstm", 65, torch.float32),
        ("gru", 33, torch.float32),
        ("gru", 64, torch.float64),
        ("gru", 156, torch.float32),
        ("lem", 33, torch.float32),
        ("lem", 64, torch.float32),
        ("lem", 64, torch.float64),
        ("lem", 128, torch.float32),
    ],
)
def test_persistent_kernels_equal_the_reference(name, units, dtype):
    case = random_case(name, 203, 9, units, dtype)
    case[0].engine_options = {"variant": "persistent"}
    assert_engine_agrees(case, name, ENGINE)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CELLS)
def test_three_runs_give_the_same_bits(name):
    first, *others = (run(*a_case(name)) for _ in range(3))
    assert all(torch.equal(*pair) for other in others for pair in zip(first, other, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("name", CELLS)
def test_a_pass_waits_for_its_own_stream(name):
    cell, u, state = a_case(name)
    expected = run(cell, u, state)
    late = torch.zeros_like(u).requires_grad_()
    work = torch.randn(4096, 4096, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(30):  # some hundredths of a second
            work = (work @ work).clamp(-1, 1)
        with torch.no_grad():
            late.copy_(u)
        actual = run(cell, late, state)
    side.synchronize()
    assert_close(actual, expected)


def capture(run):
    """Capture what `run` launches, after three passes outside of the graph.

    Return the graph and the result of `run`.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()
    return graph, result


@pytest.mark.gpu
@pytest.mark.parametrize("name", CELLS)
def test_captured_passes_accept_new_inputs(name):
    cell, u, state = a_case(name)
    # Evaluated before: a map such as the matrix exponential looks at values.
    weights = tree_map_only(Tensor, lambda part: part.detach().requires_grad_(), cell.weights())
    leaves = [part for part in tree_leaves(weights) if isinstance(part, Tensor)] + [u, *state]
    engine = kernels.select(name, ENGINE, u)
    graph, captured = capture(lambda: results(*engine(weights, state, u), leaves))
    for seed in (1, 2):
        torch.manual_seed(seed)
        with torch.no_grad():
            u.copy_(torch.randn_like(u))
        graph.replay()
        torch.cuda.synchronize()
        assert_close(captured, results(*engine(weights, state, u), leaves))


@pytest.mark.gpu
@pytest.mark.parametrize("cell", ["lstm", "lem", "unicornn"])
@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "adam", "options": {"fused": True}},
        {"optimizer": "rmsprop"},
        {"optimizer": "sgd"},
    ],
    ids=["adam", "rmsprop", "sgd"],
)
def test_graphed_steps_train_as_plain_ones(cell, options):
    pytest.importorskip("pydantic")
    from study.bench.gpu.slices import Network
    from study.config.recipe import Recipe
    from study.training.graphed_objective import GraphedObjective
    from study.training.loop import train

    def loss(model, inputs, classes):
        return torch.nn.functional.cross_entropy(model(inputs), classes)

    recipe = Recipe(learning_rate=0.01, steps=12, drops=(8,), gradient_clip=0.5, **options)
    trained = []
    for wrap in (lambda network: loss, lambda network: GraphedObjective(loss, network)):
        torch.manual_seed(0)
        network = Network(cell, 2, 33).cuda()
        sequences = torch.rand(12, 5, 20, 2, device="cuda")
        classes = torch.randint(0, 10, (12, 5), device="cuda")
        batches = iter(zip(sequences, classes, strict=True))
        source = SimpleNamespace(next=lambda batches=batches: next(batches), steps_per_epoch=0)
        state = train(network, source, wrap(network), recipe)
        assert state.step == 12
        trained.append(list(network.parameters()))
    assert all(torch.equal(*pair) for pair in zip(*trained, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("name", CELLS)
def test_nan_and_infinity_propagate_as_in_the_reference(name):
    assert_bad_numbers_spread(a_case(name), ENGINE, torch.nan)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CELLS)
def test_unsupported_inputs_are_refused_in_a_sentence(name):
    cell, u, state = a_case(name)
    on_cpu = random_case(name, *SIZES, torch.float32)
    for call, message in [
        (lambda: on_cpu[0](*on_cpu[1:], engine=ENGINE), "it runs on cuda"),
        (lambda: on_cpu[0](u, engine=ENGINE), "expected input of torch.float32 on cpu"),
        (lambda: cell(u, on_cpu[2], engine=ENGINE), "state tensor.s. of shape"),
        (lambda: cell(u[..., :1], state, engine=ENGINE), "with input=2"),
        (lambda: cell(u[:, :-1], state, engine=ENGINE), "state tensor.s. of shape"),
        (lambda: cell.half()(u.half(), engine=ENGINE), "got torch.float16"),
    ]:
        with pytest.raises(ValueError, match=message) as refusal:
            call()
        assert "\n" not in str(refusal.value)
    run(*a_case(name))  # the next pass works


def run_without(missing, *command):
    """Run a module in a process in which some others cannot be imported."""
    program = "import runpy, sys; sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(','))); "
    program += "name = sys.argv.pop(1); runpy.run_module(name, run_name='__main__', alter_sys=True)"
    # Plugins of pytest that are installed here are not on a box, either.
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return python("-c", program, ",".join(missing), *command, env=env)


def packages_in(name):
    lines = (ROOT / name).read_text("utf-8").splitlines()
    return {canonicalize_name(Requirement(one).name) for one in lines if one[:1] not in ("#", "")}


@pytest.fixture(scope="module")
def not_on_a_box():
    """Return the modules of our requirements that a GPU box need not have.

    They are not among its own requirements, and neither torch nor pytest needs them.
    """
    absent = packages_in("requirements.in") - packages_in("requirements-box.in")
    absent -= {"torch", "jinja2", "markupsafe", "mpmath", "pygments"}
    owned = packages_distributions().items()
    modules = {m for m, owners in owned if absent & set(map(canonicalize_name, owners))}
    assert {"playwright", "netCDF4", "pandas", "xarray"} <= modules
    return sorted(modules)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_benchmark_without_gpu_prints_one_sentence(tmp_path, not_on_a_box, monkeypatch, capsys):
    out = tmp_path / "bench_gpu.csv"
    complaint = "bench-gpu needs an NVIDIA GPU that PyTorch can use, and this machine has none"
    done = run_without(not_on_a_box, "study.bench.gpu", "--out", str(out))
    assert (done.returncode, done.stderr.strip()) == (2, complaint) and not out.exists()
    monkeypatch.setattr(bench.sys, "argv", ["", "--look"])
    assert bench.main() == 2 and capsys.readouterr().err.strip() == complaint


@pytest.mark.slow
def test_gpu_tests_need_only_installed_packages(not_on_a_box):
    asked = "-q", "-p", "no:cacheprovider", "-m", "gpu", "tests/test_gpu.py"
    done = run_without(not_on_a_box, "pytest", *asked)
    assert done.returncode in (0, 5), done.stdout + done.stderr  # 5: none is left without a GPU
    assert "error" not in done.stdout.lower(), done.stdout


def test_crashed_benchmark_parts_become_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(bench.sys, "executable", shutil.which("false"))
    bench.run_in_own_process("engines rnn", tmp_path / "rows.csv", "a box")
    (row,) = read_rows(tmp_path / "rows.csv")
    assert (row["what"], row["failure"]) == ("engines rnn", "its process ended with status 1")
    assert row["quantity"] == bench.FINISHED


def test_a_part_that_hangs_is_stopped(tmp_path, monkeypatch):
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    monkeypatch.setattr(bench.sys, "executable", str(hanging))
    out = tmp_path / "rows.csv"
    Ledger(out)
    bench.run_in_own_process("tests", out, "a box", limit=0.2)
    assert read_rows(out) == [], "its slot was over; the next one runs it again"
    monkeypatch.setattr(bench, "PATIENCE", 0.2)
    bench.run_in_own_process("tests", out, "a box", limit=0.2)
    (row,) = read_rows(out)
    assert "it took more than" in row["failure"]


class FakeDevice:
    """A GPU on which every part takes two minutes of a clock that no one waits for."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        self.ran = []
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "NVIDIA H100 80GB")
        monkeypatch.setattr(bench.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(bench.subprocess, "run", self.run)

    def run(self, command, *, timeout, **_):
        part = command[command.index("--part") + 1]
        self.ran.append(part)
        self.now += min(timeout, 120.0)
        if timeout < 120.0:
            raise bench.subprocess.TimeoutExpired(command, timeout)
        out = bench.Path(command[command.index("--out") + 1])
        ledger = Ledger(out, overwrite=False, where="NVIDIA H100 80GB")
        ledger.add(part, "time", value=1.5, unit="ms")
        ledger.add(part, "median time", value=1.5, unit="ms")
        return SimpleNamespace(returncode=0)


def test_slots_of_ten_minutes_add_up_to_the_whole_benchmark(tmp_path, monkeypatch, capsys):
    device = FakeDevice(monkeypatch)
    out = tmp_path / "bench_gpu.csv"
    kept = tmp_path / "kernels"
    command = ["", "--out", str(out), "--minutes", "9"]
    monkeypatch.setattr(bench.sys, "argv", command)
    assert bench.main() == 3
    total = len(parts.parts())
    assert f"{total - 4} of {total} parts are left" in capsys.readouterr().out
    monkeypatch.setattr(bench.sys, "argv", [*command, "--resume", "--keep", str(kept)])
    slots = 1
    while True:
        slots += 1
        began = device.now
        status = bench.main()
        assert device.now - began <= 9 * 60
        if status != 3:
            break
    assert status == 0
    assert slots == -(-total // 4)
    rows = read_rows(out)
    finished = [row["what"] for row in rows if row["quantity"] == bench.FINISHED]
    assert finished == list(parts.parts())
    medians = read_rows(kept / "h100-80gb.csv")
    assert [row["what"] for row in medians if row["quantity"] == "median time"] == finished
    assert "time" not in {row["quantity"] for row in medians}
    assert str(kept / "h100-80gb.csv") in capsys.readouterr().out


def test_an_unknown_part_is_refused(tmp_path, monkeypatch, capsys):
    FakeDevice(monkeypatch)
    out = tmp_path / "bench_gpu.csv"
    monkeypatch.setattr(bench.sys, "argv", ["", "--out", str(out), "--part", "nothing"])
    with pytest.raises(SystemExit):
        bench.main()
    assert "unknown part 'nothing'; known: machine, tests" in capsys.readouterr().err


def test_tests_of_a_gpu_become_rows(tmp_path, monkeypatch):
    program = "print('tests/a.py::one PASSED'); print('FAILED tests/a.py::two - no'); exit(1)"
    monkeypatch.setattr(checks, "TESTS", ("-c", program))
    ledger = Ledger()
    log = tmp_path / "logs" / "tests.txt"
    checks.run_tests(ledger, log)
    failed, passed = ledger.rows
    assert failed["failure"] == "FAILED tests/a.py::two - no"
    assert (passed["value"], passed["passed"]) == (1, False)
    assert passed["failure"] == "status 1; see tests.txt"
    assert "one PASSED" in log.read_text()


def test_the_sanitizer_runs_tests_if_it_is_installed(tmp_path, monkeypatch):
    ledger = Ledger()
    checks.run_sanitizer(ledger, "memcheck", tmp_path / "log.txt")
    assert ledger.rows[-1]["value"] == "compute-sanitizer is not installed"
    program = tmp_path / "compute-sanitizer"
    program.write_text("#!/bin/sh\necho $@ $PYTORCH_NO_CUDA_MEMORY_CACHING\n")
    program.chmod(0o755)
    monkeypatch.setattr(checks, "FOLDERS_OF_CUDA", (str(tmp_path),))
    checks.run_sanitizer(ledger, "racecheck", tmp_path / "log.txt")
    assert ledger.rows[-1]["passed"]
    called = (tmp_path / "log.txt").read_text()
    assert called.startswith("--tool racecheck") and "-m gpu tests/test_gpu.py -k" in called
    assert called.endswith("1\n"), "with memory that PyTorch does not keep"


@pytest.mark.parametrize("name", ["lstm", "lem"])
def test_losses_are_compared_with_those_of_the_cpu(name, monkeypatch):
    ledger = Ledger()
    checks.compare_losses(name, ledger, "cpu")
    assert ledger.rows[-1]["passed"] and ledger.rows[-1]["value"] < 1e-4
    monkeypatch.setattr(checks, "CLOSE", -1)
    checks.compare_losses(name, ledger, "cpu")
    assert ledger.rows[-1]["failure"] == "more than -1"


def test_training_steps_are_timed_in_three_ways(monkeypatch):
    from study.bench.gpu import steps
    from study.training import graphed_step

    def recompute(run, *batch):
        result = run(*batch)
        return lambda: result.copy_(run(*batch)), result

    graphs = torch.cuda, "make_graphed_callables"
    monkeypatch.setattr(*graphs, lambda run, sample, allow_unused_input: run)
    monkeypatch.setattr(graphed_step, "capture", recompute)
    ledger = Ledger()
    steps.time_steps("rnn", Workload(2, 5, 4), ledger, rounds=1, device="cpu")
    medians = [row["what"] for row in ledger.rows if row["quantity"] == "median time"]
    assert medians == ["rnn, plain", "rnn, graph of the pass", "rnn, graph of the step"]
    # This capture, unlike one on a GPU, takes the step that it captures.
    whole = [row for row in ledger.rows if row["quantity"] == "bits of plain steps"]
    assert [row["passed"] for row in whole] == [True, False]
    assert whole[1]["failure"] == "the weights differ from those after plain steps"


def test_figure_1_and_probes_are_timed():
    ledger = Ledger()
    parts.time_figure_1(Workload(2, 5, 4), ledger, "cpu")
    medians = [row for row in ledger.rows if row["quantity"] == "median time"]
    assert [row["what"].partition(",")[0] for row in medians] == list(LAYERS)
    parts.time_probes("rnn", Workload(2, 40, 4), ledger, "cpu")
    assert ledger.rows[-1]["what"] == "probes rnn, reference"
    assert {row["failure"] for row in ledger.rows} == {None}


def test_a_slice_of_the_factorial_is_timed(not_on_a_box, monkeypatch):
    ledger = Ledger()
    sizes = {"pass_size": 2, "rounds": 1, "device": "cpu"}
    with monkeypatch.context() as patch:
        for module in not_on_a_box:  # whatever is imported late
            patch.setitem(sys.modules, module, None)
        slices.time_slice("lipschitz", Workload(2, 5, 16), ledger, **sizes)
    assert {row["failure"] for row in ledger.rows} == {None}
    values = {(row["what"], row["quantity"]): row["value"] for row in ledger.rows}
    of = count("lipschitz", 16, 1, "training", 2)
    graph = "lipschitz, 2, graph"
    step = 1e3 * values[graph, "median time"] / 5
    assert values[graph, "rate, node_us"] == pytest.approx(step / of.operators)
    assert values[graph, "bits in a smaller pass"] == 0
    assert values[graph, "rate, tflops"] == pytest.approx(2 * of.flop / step / 1e6)
    # An engine that takes all networks has other operators, and therefore another rate.
    of_engine = "lipschitz, 2, numba-cpu, graph"
    step = 1e3 * values[of_engine, "median time"] / 5
    assert values[of_engine, "rate, pass_us"] == pytest.approx(step)
    assert values[of_engine, "bits of a plain pass"] == 0


def test_bits_that_depend_on_the_pass_are_a_failure():
    gradients = {
        (3, True): torch.tensor([1.0, 2.0]),
        (1, True): torch.tensor([1.0, 2.0]),
        (3, False): torch.tensor([1.0, 2.5]),
    }

    def first_gradient(count, engine, *, use_cuda_graph):
        return gradients[count, use_cuda_graph]

    ledger = Ledger()
    networks = SimpleNamespace(first_gradient=first_gradient)
    slices._check_bits(networks, 3, "reference", partial(ledger.add, "rnn"))
    smaller, plain = ledger.rows
    assert (smaller["value"], smaller["failure"]) == (0, None)
    assert smaller["passed"] is True and plain["passed"] is False, "as the table has them"
    assert plain["value"] == 0.25
    assert plain["failure"] == "the gradient of the first network differs"


def test_the_benchmark_names_machine_and_engines(monkeypatch):
    first, second, third, *rest = parts.parts()
    assert (first, second, third) == ("machine", "tests", "figure 1 B128 T1000 d128")
    assert [part for part in rest if "engines" in part] == [f"engines {n}" for n in CELLS]
    assert [part for part in rest if "slices" in part] == [f"slices {n}" for n in slices.CELLS]
    assert {"steps lem", "losses", "probes", "machine under load"} < set(rest)
    assert rest[-2:] == ["sanitizer memcheck", "sanitizer racecheck"]
    monkeypatch.setattr(parts, "device_timer", wall_timer)
    ledger = Ledger()
    actual = parts.time_engines("lipschitz", Workload(1, 2, 2), ledger, "cpu")
    assert {row["what"] for row in actual} == {"lipschitz, reference", "lipschitz, numba-cpu"}
    assert not [row for row in ledger.rows if row["failure"]]


def test_variants_are_timed_together_with_their_engine(monkeypatch):
    monkeypatch.setattr(parts, "device_timer", wall_timer)
    monkeypatch.setitem(parts.VARIANTS, ("unicornn", "numba-cpu"), ("persistent",))
    ledger = Ledger()
    actual = parts.time_engines("unicornn", Workload(1, 2, 2), ledger, "cpu")
    assert [row["what"] for row in actual] == ["unicornn, reference", "unicornn, numba-cpu"]
    (failed,) = [row for row in ledger.rows if row["failure"]]
    assert failed["what"] == "unicornn, numba-cpu, persistent"
    assert "no option 'variant'" in failed["failure"]
    for cell in ("rnn", "lstm", "gru", "lem"):
        assert "variant" in kernels._ENGINES[cell, "numba-cuda"].options
        assert parts.VARIANTS[cell, "numba-cuda"] == ("rows", "persistent")


@pytest.mark.parametrize(
    ("cell", "layouts"),
    [
        ("rnn", cuda_persistent_rnn.layouts),
        ("lstm", cuda_persistent_lstm.layouts),
        ("gru", cuda_persistent_gru.layouts),
        ("lem", cuda_persistent_lem.layouts),
    ],
)
def test_auto_chooses_a_variant_only_if_faster(cell, layouts, monkeypatch):
    state = torch.zeros(2, 128)
    wide = torch.zeros(2, 512)
    monkeypatch.setattr(_measured, "device_name", lambda: "a GPU")
    chosen = []
    for persistent in (1.0, 3.0):
        times = {"numba-cuda": 2.0, "numba-cuda, persistent": persistent}
        monkeypatch.setitem(_measured.MEASURED, "a GPU", {(cell, 128): times})
        for value in (state, wide):
            chosen.append(_cuda_persistent.is_persistent(cell, "auto", layouts, value))
    monkeypatch.delitem(_measured.MEASURED, "a GPU")
    chosen.append(_cuda_persistent.is_persistent(cell, "auto", layouts, state))
    assert chosen == [True, False, False, False, False]
    assert not _cuda_persistent.is_persistent(cell, "rows", layouts, state)
    assert _cuda_persistent.is_persistent(cell, "persistent", layouts, state)


def test_auto_takes_an_opt_in_engine_if_measured_faster(monkeypatch):
    for key in [("lstm", "numba-cuda"), ("lstm", "library")]:
        engine = replace(kernels._ENGINES[key], obstacle=str, devices=("cuda",))
        monkeypatch.setitem(kernels._ENGINES, key, engine)
    monkeypatch.setattr(_measured, "device_name", lambda: "a GPU")
    chosen = []
    for persistent in (1.0, 3.0):
        times = {"library": 2.0, "numba-cuda, persistent": persistent}
        monkeypatch.setitem(_measured.MEASURED, "a GPU", {("lstm", 128): times})
        chosen.append(kernels.choose("lstm", "cuda", units=128))
    monkeypatch.delitem(_measured.MEASURED, "a GPU")
    chosen.append(kernels.choose("lstm", "cuda", units=128))
    assert chosen == ["numba-cuda", "library-cuda", "library-cuda"]


def entrant(*milliseconds):
    times = iter(milliseconds)
    return lambda: next(times)


def fails():
    raise RuntimeError("no device\nand a long story")


def test_rounds_are_interleaved_and_give_the_ratios():
    order = []

    def logged(name, timer):
        return lambda: order.append(name) or timer()

    slow = entrant(99.0, 10.0, 40.0, 90.0)
    base = entrant(99.0, 1.0, 5.0, 3.0)
    entrants = {"slow": logged("slow", slow), "base": logged("base", base)}
    actual = race(entrants, Ledger(), size="B1", rounds=3, baselines={"slow": ["base"]})
    assert order == ["slow", "base"] * 4
    by_name = {row["what"]: row for row in actual}
    assert by_name["slow"]["value"] == 40
    assert by_name["slow"]["ratio"] == 10  # the median of 10, 8, 30, not the medians' ratio
    assert (by_name["slow"]["ratio_min"], by_name["slow"]["ratio_max"]) == (8, 30)
    assert by_name["base"]["ratio"] is None
    assert {row["size"] for row in actual} == {"B1"} and {row["rounds"] for row in actual} == {3}
    assert all(row["machine"] and "torch" in row["versions"] for row in actual)


def test_failing_entrants_do_not_stop_others(tmp_path):
    ledger = Ledger(tmp_path / "times.csv")
    entrants = {"bad": fails, "good": entrant(1.0, 1.0, 2.0)}
    (row,) = race(entrants, ledger, size="", rounds=2, baselines=["bad"])
    assert (row["what"], row["baseline"], row["ratio"]) == ("good", "bad", None)
    (failure,) = [row for row in read_rows(tmp_path / "times.csv") if row["failure"]]
    assert (failure["what"], failure["failure"]) == ("bad", "RuntimeError: no device")


def test_an_interrupted_benchmark_keeps_its_measurements(tmp_path):
    def cut():
        if len(ledger.rows) == 4:
            raise KeyboardInterrupt
        return 1.0

    path = tmp_path / "new" / "times.csv"
    ledger = Ledger(path)
    with pytest.raises(KeyboardInterrupt):
        race({"one": cut, "two": entrant(5.0, 6.0, 7.0)}, ledger, size="B1", rounds=9)
    kept = [(row["what"], row["round"], float(row["value"])) for row in read_rows(path)]
    assert kept == [("one", "1", 1), ("two", "1", 6), ("one", "2", 1), ("two", "2", 7)]


def test_rows_extend_a_table_or_replace_it(tmp_path):
    path = tmp_path / "times.csv"
    Ledger(path, overwrite=False, where="here").add("a", "speed", value=1 / 3, passed=False)
    Ledger(path, overwrite=False).add("b", "speed")
    first, second = read_rows(path)
    assert tuple(first) == COLUMNS
    assert (first["value"], first["passed"], first["machine"]) == ("0.333333", "False", "here")
    assert second["what"] == "b" and second["machine"] != "here"
    Ledger(path)
    assert read_rows(path) == []
    with pytest.raises(ValueError, match="unknown column 'speed'; known: what, size"):
        Ledger().add("a", "b", speed=1)


def test_timers_measure_milliseconds_on_known_devices():
    assert wall_timer(lambda: None, iter([2.0, 2.5]).__next__)() == 500
    assert engines_on("rnn") == ["reference", "numba-cpu", "library"]


def test_measured_times_are_the_stored_ones():
    for device, times in MEASURED.items():
        folder = ROOT / "data/reference/timings/kernels"
        stored = read_rows(folder / f"{bench.file_name(device)}.csv")
        by_key = {(row["what"], row["size"]): row for row in stored if row["value"]}
        for (cell, units), of_engine in times.items():
            for engine, milliseconds in of_engine.items():
                row = by_key[f"{cell}, {engine}", f"B100 T784 d{units}"]
                assert (row["machine"], float(row["value"])) == (device, milliseconds)


def test_auto_chooses_the_faster_engine(monkeypatch):
    for key, engine in list(kernels._ENGINES.items()):
        monkeypatch.setitem(kernels._ENGINES, key, replace(engine, obstacle=str))
    chosen = {}
    for device in ("NVIDIA H200", "another GPU"):
        monkeypatch.setattr(_measured, "device_name", lambda device=device: device)
        chosen[device] = [kernels.choose(name, "cuda", units=200) for name in ("rnn", "lem")]
    assert chosen["NVIDIA H200"] == ["library-cuda", "numba-cuda"]
    assert chosen["another GPU"] == ["numba-cuda", "numba-cuda"]
    monkeypatch.setattr(_measured, "device_name", lambda: "NVIDIA H200")
    inside = []
    torch.vmap(lambda x: inside.append(kernels.choose("rnn", "cuda")) or x)(torch.ones(2))
    assert inside == ["numba-cuda"], "the library's layer can't be mapped"


class FakeCuda:
    """A stand-in for `torch.cuda` that logs what is asked of it."""

    def __init__(self):
        self.log = []

    def synchronize(self):
        self.log.append("synchronize")

    def Stream(self):
        return self

    current_stream = Stream

    def wait_stream(self, other):
        self.log.append("wait")

    @contextmanager
    def stream(self, stream):
        self.log.append("side")
        yield

    def CUDAGraph(self):
        return SimpleNamespace(replay=lambda: self.log.append("replay"))

    @contextmanager
    def graph(self, graph):
        self.log.append("record")
        yield


@pytest.fixture
def fake_cuda(monkeypatch):
    fake = FakeCuda()
    for name in ("synchronize", "Stream", "current_stream", "stream", "CUDAGraph", "graph"):
        monkeypatch.setattr(torch.cuda, name, getattr(fake, name))
    return fake


def test_host_time_ends_before_the_device(fake_cuda):
    fake_cuda.log = log = []
    clock = iter([2.0, 2.25])
    timer = host_timer(lambda: log.append("run"), lambda: log.append("clock") or next(clock))
    assert timer() == 250
    assert log == ["synchronize", "clock", "run", "clock", "synchronize"]


def test_a_graph_is_recorded_once_then_replayed(fake_cuda):
    replay = as_graph(lambda: fake_cuda.log.append("run") or len(fake_cuda.log))
    assert fake_cuda.log == [], "nothing runs before the first call"
    first = replay()
    before = ["wait", "side", "run", "run", "run", "wait"]
    assert fake_cuda.log == [*before, "record", "run", "replay"]
    assert replay() == first, "a replay fills the same results"
    assert fake_cuda.log[9:] == ["replay"]


def test_benchmarks_keep_freed_memory():
    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    exports = [line for line in lines if " export MALLOC_" in line]
    assert len(exports) == 3
    for line in exports:
        assert line.startswith("bench time-figure-1: ")


@pytest.mark.parametrize(("name", "launches"), [("rnn", 3), ("lipschitz", 3), ("unicornn", 8)])
def test_probes_by_an_engine_submit_dozens_of_kernels(name, launches):
    """A chunk is run forward twice and pulled back once, and the host waits for its norm.

    UnICORNN has two layers, and a second launch in each backward pass, for its sums.
    """
    submitted = count_engine_probe(name, 16, 2, 4)
    assert submitted.launches * ENGINE_CHUNK == launches
    assert submitted.waits * ENGINE_CHUNK == 1
    assert 30 < submitted.kernels * ENGINE_CHUNK < 120


def test_products_of_a_step_are_counted():
    d = 16
    p = 3
    batch = 32
    actual = count("rnn", d, p, TRAINING, batch)
    # W x forward, its two products back; R u forward and the gradient of R: 2 operations each.
    assert actual.flop == 2 * batch * (3 * d * d + 2 * d * p)
    assert actual.products == 5
    # The probe computes the state twice and pulls one vector back.
    probe = count("rnn", d, p, PROBES, batch)
    assert probe.flop == pytest.approx(2 * batch * (3 * d * d + 2 * d * p), rel=0.01)


@pytest.mark.parametrize("inner_steps", [1, 5])
def test_products_are_counted_for_settings_of_a_cell(inner_steps):
    actual = count("irnn", 16, 3, TRAINING, 32, inner_steps=inner_steps)
    # W x once and the gradient of W; in every inner step U s and its two products back.
    assert actual.products == 2 + 3 * inner_steps
