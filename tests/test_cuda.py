"""What concerns a GPU, tested without one.

The kernels run in Numba's simulator, and are compiled to machine code for compute capability 9.0.
A pass that is captured in a CUDA graph must not ask the device for a value.

The kernels need a process of their own, because the simulator is chosen when Numba is imported. The
test that compiles is skipped if NVIDIA's compiler is not installed. With ``LTD_COMPILER=1`` it
fails instead; `.ci/run` sets this after installing the compiler.

For captures PyTorch's `meta` device stands for the GPU: its tensors have shapes and no values, so
asking for a value is an error. The GPU kernels' engines run on it with their launches left out.
"""

import os
import re
import warnings
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import longrnn
import pytest
import torch
from designs import one_job
from longrnn import kernels
from longrnn.cells import cell_class, cell_names, make_cell
from longrnn.cells._recurrent import LAYERS
from longrnn.kernels import _blas, _cuda, _cuda_kernel, _cuda_launch, _measured, library
from processes import python, run_tests
from study.bench.counts import Work, as_leaves, engine_bytes, engine_work, kernels_on_meta
from study.paths import ROOT
from study.training import cache_key, plans, vmapped_pass
from study.training.model import Model
from torch import nn
from torch._library.custom_ops import OPDEFS
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@pytest.mark.slow
def test_kernels_in_the_simulator():
    status, printed = run_tests("test_kernels.py", "cuda_simulated.py", NUMBA_ENABLE_CUDASIM="1")
    assert status == 0, printed


@pytest.mark.slow
def test_kernels_compiled_for_a_gpu():
    status, printed = run_tests("cuda_compiled.py")
    if status == 5 and os.environ.get("LTD_COMPILER") != "1":  # the file skipped itself
        pytest.skip("NVIDIA's compiler is not installed; see requirements-ptxas.in")
    assert status == 0, printed


ON_THE_CPU = """
import sys
import torch


def refuse(*_):
    raise AssertionError("CUDA was initialized")


torch.cuda.is_available = torch.cuda.device_count = torch.cuda.init = refuse
torch._C._cuda_getDeviceCount = refuse
import longrnn

for name in longrnn.__all__:
    getattr(longrnn, name)
output, _ = longrnn.LEM(2, 3)(torch.zeros(4, 1, 2))
output.sum().backward()
print(*{"numba.cuda", "torch._dynamo"} & set(sys.modules))
"""
"""A program that uses no GPU; it prints which slow modules were imported all the same."""


def test_a_program_that_uses_no_gpu_can_fork_and_starts_fast():
    """Where CUDA has been initialized, processes that are forked later cannot use it.

    Numba's target takes a second to import, PyTorch's compiler as long as PyTorch.
    """
    done = python("-c", ON_THE_CPU)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr


@pytest.fixture
def compiler(monkeypatch):
    """Give the CPU the engine ``numba-cuda`` of LEM, with a compiler that finds no driver."""

    def jit(*_):
        torch._dynamo.graph_break()  # PyTorch's compiler can't trace Numba's
        raise OSError("no driver")

    target = SimpleNamespace(jit=jit)
    monkeypatch.setattr(_cuda, "target", lambda: target)
    monkeypatch.setattr(_cuda, "_compiler_error", cache(_cuda._compiler_error.__wrapped__))
    engine = replace(kernels._ENGINES["lem", "numba-cuda"], devices=("cpu",))
    monkeypatch.setitem(kernels._ENGINES, ("lem", "numba-cuda"), engine)
    return target


def test_choosing_an_engine_does_not_break_the_graph_of_a_compiled_layer(compiler):
    layer = longrnn.LEM(2, 3)
    u = torch.randn(4, 2, 2)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    assert torch.equal(compiled(u)[0], layer(u)[0])

    @torch.compile(fullgraph=True, backend="eager")
    def add_one(x):
        return x + 1, _measured.device_name()

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # PyTorch warns of a cache whose function it traces
        assert add_one(u)[1] == _measured.device_name()


def test_a_capture_does_not_make_the_compiler_look_broken(compiler, monkeypatch):
    """A capture forbids compilation, but only while it lasts."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert _cuda.obstacle() == "", "the kernel says that a pass must come before the capture"
    monkeypatch.setattr(compiler, "jit", lambda _: lambda function: function)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    assert _cuda.obstacle() == ""


WAITS = {"_local_scalar_dense", "equal", "nonzero", "masked_select", "unique_dim"}
WAITS |= {"linalg_matrix_exp"}
"""Operators that make the host wait for the device, or read its memory."""
TELLING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
"""PyTorch's own tags of operators for whose results or shapes the host must wait."""

# Their weights are maps of free parameters (an exponential, an inverse), and PyTorch looks at the
# values to compute them: evaluate them before the capture.
MAPPED = {"exponential", "inverse_rnn", "lu_rnn"}


COMPUTED = MAPPED | {"antisymmetric", "lipschitz"}
"""Cells whose weights are computed from other matrices before every pass."""


class HostReads(TorchDispatchMode):
    """Collects the operators that wait for the device or move tensors between it and the host."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = None
        if operator.namespace == "longrnn":  # what it does on the host, not only its shapes
            with self:
                return OPDEFS[operator.name()]._init_fn(*args)
        try:
            result = operator(*args, **(kwargs or {}))
        finally:  # the `meta` device has no value to give
            leaves = tree_leaves((args, kwargs, result))
            devices = {part.device.type for part in leaves if isinstance(part, torch.Tensor)}
            name = operator.overloadpacket.__name__
            asks = name in WAITS or not TELLING.isdisjoint(operator.tags)
            if (asks and devices != {"cpu"}) or len(devices) > 1:
                self.names.append(name)
        return result


PASSES = [
    *(
        (name, engine)
        for name in cell_names()
        for engine in kernels.engine_names(name, with_opt_in=True)[1:]
    ),
    *((name, "reference") for name in sorted(set(cell_names()) - MAPPED)),
]


@pytest.mark.parametrize(("name", "engine"), [one for one in PASSES if one[1] != "numba-cpu"])
def test_gpu_passes_read_no_value_on_the_host(name, engine, monkeypatch):
    monkeypatch.setattr(_cuda_launch, "launch", lambda *_, **__: None)
    monkeypatch.setattr(_cuda_launch, "_processors", lambda _: 132)
    cell = make_cell(name, 2, 5).to("meta")
    u = torch.randn(6, 3, 2, device="meta")
    weights = cell.weights()
    leaves = list(cell.parameters())
    if name in MAPPED:
        weights, leaves = as_leaves(weights)
    with HostReads() as reads:
        cell.check_input(u)
        weights = weights if name in MAPPED else cell.weights()
        if engine == "reference":
            outputs, final = cell.run(u, cell.initial_state(3), engine="reference")
        else:
            run = kernels._ENGINES[name, engine].run
            outputs, final = run(weights, cell.initial_state(3), u)
        loss = outputs[-1].sum() + sum(part.sum() for part in final)
        torch.autograd.grad(loss, leaves, allow_unused=True)
    assert reads.names == []


ON_GPU = [name for name, engine in PASSES if engine == "numba-cuda"]


@pytest.mark.parametrize("name", ON_GPU)
def test_gpu_passes_leave_the_threads_of_blas_alone(name, monkeypatch):
    """The limit costs more than 10 microseconds, and no GPU kernel calls BLAS."""

    def refuse():
        raise AssertionError("a pass on a GPU asked BLAS for its threads")

    library = SimpleNamespace(get_num_threads=refuse)
    monkeypatch.setattr(_blas, "_LIBRARIES", [library])
    monkeypatch.setattr(_cuda_launch, "launch", lambda *_, **__: None)
    monkeypatch.setattr(_cuda_launch, "_processors", lambda _: 132)
    cell = make_cell(name, 2, 5).to("meta")
    u = torch.randn(6, 3, 2, device="meta")
    weights, leaves = as_leaves(cell.weights())
    with HostReads():  # which runs loop and adjoint, not only their shapes
        run = kernels._ENGINES[name, "numba-cuda"].run
        outputs, final = run(weights, cell.initial_state(3), u)
        loss = outputs[-1].sum() + sum(part.sum() for part in final)
        torch.autograd.grad(loss, leaves, allow_unused=True)
    with pytest.raises(AssertionError, match="asked BLAS"):  # as any pass on the CPU does
        make_cell(name, 2, 5)(torch.randn(6, 3, 2), engine="numba-cpu")


WORK = {
    "antisymmetric": (8, 34),
    "chrono_lstm": (8, 39),
    "cornn": (10, 49),
    "dt_lstm": (8, 39),
    "exponential": (10, 34),
    "gru": (8, 37),
    "indrnn": (3, 14),
    "irnn": (10, 35),
    "lem": (10, 47),
    "lipschitz": (10, 39),
    "lstm": (8, 39),
    "rnn": (8, 34),
    "sru": (7, 32),
    "unicornn": (9, 52),
}
"""Launches and dispatches of a forward and a backward pass, read out from the final state.

A second layer of UnICORNN is a product, two kernels, a sum over the batch, and two products.
"""
MOST_LAUNCHES = 10
"""Limit for every cell: in a short pass the GPU waits for the host."""


VECTORS = {
    "antisymmetric": 10.015625,
    "chrono_lstm": 36.015625,
    "cornn": 13.015625,
    "dt_lstm": 36.015625,
    "exponential": 14.015625,
    "gru": 32.015625,
    "indrnn": 3.015625,
    "irnn": 56.09375,
    "lem": 38.015625,
    "lipschitz": 14.015625,
    "lstm": 36.015625,
    "rnn": 9.015625,
    "sru": 23.03125,
    "unicornn": 19.015625,
}
"""Vectors that a pass moves per time step and sequence, with 128 units and one input.

The fraction is that input. The basic RNN moves nine vectors: the drive is written and read, the
states are written, read for the adjoint and read for W's gradient, and delta is written and then
read for the gradients of W, R and b.
"""


PERSISTENT = {"rnn": 1, "lstm": 1, "dt_lstm": 1, "gru": 1, "lem": 2}
"""Cells with kernels whose weights stay on the multiprocessor, and their recurrent matrices."""


@pytest.mark.parametrize("name", ON_GPU)
def test_bytes_of_a_time_step(name):
    assert vectors_of_a_step(name) == VECTORS[name]


@pytest.mark.parametrize("name", PERSISTENT)
def test_persistent_kernels_move_the_same_bytes(name):
    assert vectors_of_a_step(name, variant="persistent") == VECTORS[name]


def vectors_of_a_step(name, **options):
    """Return the vectors that a pass moves per time step and sequence."""
    return engine_bytes(name, 128, 1, 3, **options) / (4 * 3 * 128)


@pytest.mark.parametrize("name", ON_GPU)
def test_launches_and_dispatches_of_a_pass(name):
    work = work_of_a_pass(name)
    launches, dispatches = WORK[name]
    assert work.launches == launches <= MOST_LAUNCHES
    assert work.dispatches <= dispatches


@pytest.mark.parametrize("name", sorted(set(ON_GPU) - COMPUTED))
def test_a_layer_adds_two_launches_for_each_state(name):
    """A layer of one cell launches what its engine does, and sets its state."""
    layer = LAYERS[name](1, 128).to("meta")
    cell = layer.cells["l0"]
    u = torch.randn(6, 3, 1, device="meta")
    state = cell.initial_state(3)
    launches = []
    for run in (
        lambda: cell.run(u, state, engine="numba-cuda"),
        lambda: layer(u, engine="numba-cuda"),
    ):
        work = Work()
        with kernels_on_meta(name), pytest.MonkeyPatch.context() as patch, work:
            patch.setattr(_cuda_launch, "launch", work.count_launch)
            run()
        launches.append(work.launches)
    assert launches[1] == launches[0] + 2 * cell.states


@pytest.mark.parametrize("name", PERSISTENT)
def test_persistent_kernels_save_a_launch_per_matrix(name):
    work = work_of_a_pass(name, variant="persistent")
    launches, dispatches = WORK[name]
    matrices = PERSISTENT[name]
    assert work.launches == launches - matrices, "they need no transposed copies of the weights"
    assert work.dispatches < dispatches


def work_of_a_pass(name, **options):
    """Return the work of a pass of three sequences by the kernels of a cell, on no device."""
    return engine_work(name, 128, 1, 3, 6, **options)


@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_cudnn_runs_one_network_and_our_kernel_several(name, monkeypatch):
    engine = replace(kernels._ENGINES[name, "numba-cuda"], devices=("cuda",), obstacle=str)
    monkeypatch.setitem(kernels._ENGINES, (name, "numba-cuda"), engine)
    assert kernels.choose(name, "cuda") == "library-cuda"
    assert kernels.choose_for_runs(name, "cuda") == "numba-cuda"


def test_a_launch_is_prepared_once_for_its_shape(monkeypatch):
    grids = []
    allowed = []

    class Code:
        def __getitem__(self, grid):
            grids.append(grid)
            return grids.append

    run = _cuda_kernel.kernel(lambda x: None)
    monkeypatch.setattr(run, "compiled", lambda *_, **__: Code())
    monkeypatch.setattr(_cuda_kernel, "allow_shared", lambda code, size: allowed.append(size))
    tensors = (torch.zeros(2),)
    first = run.with_grid(tensors, 6, 64, 0, 1024, d=5)
    assert run.with_grid((torch.ones(2),), 6, 64, 0, 1024, d=5) is first
    assert grids == [(6, 64, 0, 1024)]
    run.with_grid(tensors, 6, 64, 0, 1024, d=6)
    run.with_grid(tensors, 3, 64, 0, 1024, d=5)
    assert (len(grids), allowed) == (3, [])
    run.with_grid(tensors, 6, 64, 0, 200_000, d=5)
    run.with_grid(tensors, 6, 64, 0, 200_000, d=5)
    assert allowed == [200_000], "beyond 48 KiB a kernel must ask, once"


@pytest.mark.parametrize(
    ("batch", "runs", "weights", "expected"),
    [
        (128, 1, 128 * 128, (1, 128)),  # one sequence a block leaves no processor idle
        (264, 1, 128 * 128, (2, 132)),
        (600, 1, 128 * 128, (4, 150)),
        (128, 1, 256 * 256, (4, 32)),  # the weights exceed the first cache
        (3, 1, 256 * 256, (2, 2)),
        (50 * 32, 50, 128 * 128, (4, 50 * 8)),
        (5 * 33, 5, 128 * 128, (1, 5 * 33)),
    ],
)
def test_tile_follows_processors_and_the_first_cache(batch, runs, weights, expected, monkeypatch):
    launches = []

    def note(run, blocks, *_, tile, **more):
        launches.append((tile, blocks))

    monkeypatch.setattr(_cuda_launch, "launch", note)
    monkeypatch.setattr(_cuda_launch, "_processors", lambda _: 132)
    state = torch.empty(batch, 128, device="meta")
    _cuda_launch.launch_dense(None, state, buffers=2, weights=weights, runs=runs)
    assert launches == [expected]


def test_library_turns_tf32_off_during_its_passes_only():
    settings = torch.backends.cudnn.rnn
    before = settings.fp32_precision
    assert before == "tf32", "importing longrnn changed a global setting"
    with library.full_float32:
        assert settings.fp32_precision == "ieee"
        with library.full_float32:
            pass
        assert settings.fp32_precision == "ieee"
    assert settings.fp32_precision == before
    assert torch.backends.cudnn.allow_tf32 is True, "the older option cannot be read any more"


class _Watched(torch.autograd.Function):
    """A copy of a tensor; says at which precision forward and backward run, and may fail."""

    @staticmethod
    def forward(ctx, x, seen, fails):
        ctx.seen = seen
        ctx.fails = fails
        seen.append(torch.backends.cudnn.rnn.fp32_precision)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.seen.append(torch.backends.cudnn.rnn.fp32_precision)
        if ctx.fails:
            raise torch.OutOfMemoryError("no memory for the backward pass")
        return gradient, None, None


def _watch_layer(monkeypatch, name, fails=False):
    """Return a list in which the layer `name` notes the precision of each pass."""
    seen = []
    run = library.LAYERS[name]

    def layer(u, *arguments):
        return run(_Watched.apply(u, seen, fails), *arguments)

    monkeypatch.setitem(library.LAYERS, name, layer)
    return seen


def _layer_tensors(states):
    """Return u, W, R, b and the state of a layer of three units for two inputs."""
    shapes = [(5, 4, 2), (12, 3), (12, 2), (12,), *[(4, 3)] * states]
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def test_a_layer_at_full_float32_has_the_same_gradients(monkeypatch):
    torch.manual_seed(0)
    seen = _watch_layer(monkeypatch, "lstm")
    u, W, R, b, *state = tensors = _layer_tensors(states=2)
    W.requires_grad_(False)
    needed = [tensor for tensor in tensors if tensor.requires_grad]
    expected_outputs, (_, expected_c) = library._run_layer("lstm", W, R, b, state, u)
    outputs, _, c = library._FullFloat32Layer.apply("lstm", *tensors)
    assert torch.equal(outputs, expected_outputs) and torch.equal(c, expected_c)
    expected = torch.autograd.grad(expected_outputs.sum() + expected_c.sum(), needed)
    seen.clear()
    loss = outputs.sum() + c.sum()
    for _ in range(2):
        gradients = torch.autograd.grad(loss, needed, retain_graph=True)
        assert all(map(torch.equal, gradients, expected))
    assert seen == ["ieee", "ieee"]
    loss.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()
    assert torch.backends.cudnn.rnn.fp32_precision == "tf32"


class _WithoutGradient(torch.autograd.Function):
    """A copy of a tensor whose backward pass returns no gradient."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return None


def test_a_layer_at_full_float32_that_gets_no_gradient_passes_none_on():
    tensors = _layer_tensors(states=2)
    outputs, *_ = library._FullFloat32Layer.apply("lstm", *tensors)
    W = tensors[1]
    (_WithoutGradient.apply(outputs).sum() + W.sum()).backward()
    assert torch.equal(W.grad, torch.ones_like(W))
    assert tensors[0].grad is None


def test_a_failed_backward_pass_restores_tf32(monkeypatch):
    seen = _watch_layer(monkeypatch, "lstm", fails=True)
    outputs, *_ = library._FullFloat32Layer.apply("lstm", *_layer_tensors(states=2))
    with pytest.raises(torch.OutOfMemoryError):
        outputs.sum().backward()
    assert seen == ["ieee", "ieee"]
    assert torch.backends.cudnn.rnn.fp32_precision == "tf32"


def test_a_gpu_without_a_compiler_is_reported_once(monkeypatch):
    kernels._warn_of.cache_clear()
    key = ("lem", "numba-cuda")
    without = replace(kernels._ENGINES[key], devices=("meta",), obstacle=lambda: "no compiler")
    monkeypatch.setitem(kernels._ENGINES, key, without)
    layer = longrnn.LEM(2, 3, device="meta")
    u = torch.zeros(4, 1, 2, device="meta")
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        layer(u, engine="reference")
        longrnn.CoRNN(2, 3, device="meta")(u)  # an engine for another device is no news
        assert not raised
        torch.compile(layer, backend="eager", fullgraph=True)(u)
        for _ in range(2):
            layer(u)
    reports = [str(each.message) for each in raised if "plain PyTorch loop" in str(each.message)]
    (report,) = reports  # PyTorch may warn, too, of some versions of Python
    assert report.endswith("by a plain PyTorch loop, which is slow: no compiler")


@pytest.mark.parametrize(
    ("cell", "width", "dtype", "ending"),
    [
        ("lem", 1756, torch.float32, "at most 1755 in torch.float32, got 1756"),
        ("lem", 878, torch.float64, "at most 877 in torch.float64, got 878"),
        ("lem", 3, torch.float16, "in torch.float32 or torch.float64, the input is torch.float16"),
        ("rnn", 7000, torch.float32, ""),  # cuDNN runs it
        ("lem", 1755, torch.float32, ""),
    ],
)
def test_a_cell_that_no_kernel_can_run_is_reported(cell, width, dtype, ending, monkeypatch):
    kernels._warn_of.cache_clear()
    for key, engine in list(kernels._ENGINES.items()):
        monkeypatch.setitem(kernels._ENGINES, key, replace(engine, obstacle=str))
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        for _ in range(2):
            kernels.choose(cell, "cuda", dtype=dtype, units=width)
            kernels.choose(cell, "cpu", dtype=dtype, units=width)
    reports = [str(each.message) for each in raised]
    assert len(reports) == bool(ending)
    for report in reports:
        assert "loop, which is slow: engine 'numba-cuda' cannot run lem: it" in report
        assert report.endswith(ending)


def test_the_obstacle_says_what_to_install(monkeypatch):
    monkeypatch.setattr(_cuda, "target", lambda: None)
    complaint = _cuda._compiler_error.__wrapped__()
    assert re.fullmatch(r"Numba cannot compile for this GPU \(.*\); .* pip install '.*'", complaint)
    *_, requirement = (ROOT / "requirements-gpu.in").read_text("utf-8").split()
    assert "pip install '.[gpu]'" in complaint and f"pip install '{requirement}'" in complaint


def test_engines_of_other_devices_have_other_names():
    named = {on: kernels.choose("lstm", on) for on in ("cpu", "cuda", "meta")}
    assert named == {"cpu": "library", "cuda": "library-cuda", "meta": "reference-meta"}
    u = torch.zeros(3, 2, 2, device="meta")
    assert kernels.select("lstm", "reference-meta", u) is None
    with pytest.raises(ValueError, match="has no engine 'library-nowhere'"):
        kernels.select("lstm", "library-nowhere", u)


FACTORIAL = ["rnn", "lstm", "gru", "lipschitz", "antisymmetric", "exponential", "unicornn", "lem"]


@pytest.mark.parametrize("vocabulary", [0, 9])
@pytest.mark.parametrize("name", FACTORIAL)
def test_batched_gpu_passes_read_no_value(name, vocabulary, monkeypatch):
    models = [Model(make_cell(name, 2, 5), 3, vocabulary_size=vocabulary) for _ in range(3)]
    models = [model.to("meta") for model in models]
    inputs = torch.zeros(4, 6, dtype=torch.int64) if vocabulary else torch.zeros(4, 6, 2)
    batch = inputs.to("meta"), torch.zeros(4, dtype=torch.int64, device="meta")
    captured = []

    def capture(run, sample, *, allow_unused_input):
        def watched(*tensors):
            with HostReads() as reads:
                losses = run(*sample)
                leaves = [part for part in sample if part.requires_grad]
                torch.autograd.grad(losses.sum(), leaves, allow_unused=allow_unused_input)
            captured.append(reads.names)
            return run(*tensors)

        return watched

    monkeypatch.setattr(vmapped_pass, "GRAPH_DEVICES", ("meta",))
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", capture)
    passes = vmapped_pass.VmappedPass(
        models[0], lambda m, u, k: F.cross_entropy(m(u), k), pass_size=4
    )
    with HostReads() as reads:
        torch.autograd.backward(passes.losses(models, [batch] * 3))
    assert captured == [[]], "within the graph"
    # Outside of it a map of free parameters may look at values.
    assert reads.names == [] or (name == "exponential" and set(reads.names) <= WAITS)
    assert all(p.grad is not None for model in models for p in model.parameters())
    with HostReads() as reads:
        for model in models:
            trained = list(model.parameters())
            nn.utils.clip_grad_norm_(trained, 1.0)
            # As PyTorch chooses on a GPU: kernels over all of a network's parameters.
            optimizer = torch.optim.Adam(trained, foreach=True)
            optimizer.step()
            optimizer.zero_grad()
    assert reads.names == []


@pytest.mark.parametrize("name", cell_names())
def test_jobs_on_a_gpu_have_other_keys(name, monkeypatch):
    monkeypatch.setattr(cache_key, "_fingerprint", lambda modules: modules)
    keys = []
    for device in ("cpu", "cuda"):
        monkeypatch.setattr(plans, "pick_device", lambda _, name=device: torch.device(name))
        keys.append(cache_key.cache_key(one_job("adding", cell=name), None))
    on_cpu, on_gpu = keys
    assert on_gpu["engines"][name].endswith("cuda") and on_gpu["device"] == "cuda"
    assert on_cpu["engines"][name] != on_gpu["engines"][name]
    assert cell_class(name).__module__ in on_gpu["code"]
