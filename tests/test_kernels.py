"""Every engine of every cell against the cell's reference, and what the CPU kernels promise.

The cases come from the registry: a new engine is tested without a change here. `test_cuda.py` runs
those of the GPU's engines in Numba's simulator, with ``-k numba-cuda``.
"""

import importlib
import os
import pkgutil
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
import torch
from longrnn import kernels
from longrnn.cells import cell_names
from longrnn.kernels import (
    _blas,
    _cpu,
    _cpu_activations,
    _cpu_cache,
    _cpu_dense,
    _cuda,
    _threads,
    cpu_cornn,
    cpu_dt_lstm,
    cpu_gru,
    cpu_lem,
    cpu_shared_gate,
    cpu_sru,
    cpu_unicornn,
)
from numba.core.registry import CPUDispatcher
from processes import python
from study.bench.parity import device_of, outputs_and_gradients, random_case

from tests import engines

SIMULATED = _cuda.SIMULATED
"""Then cases are small: the simulator takes microseconds for each step of each thread."""
CHAINS = ("indrnn", "sru", "unicornn")
"""Cells whose GPU kernels fetch inputs 16 steps ahead.

Their sequences have lengths on both sides of 16 and 32.
"""


def by_engine(cell, *more):
    """Return a parameter (cell, engine, *more) for every engine of a cell.

    Those that need a GPU are marked so.
    """
    return [
        pytest.param(
            cell,
            engine,
            *more,
            id="-".join(map(str, (cell, engine, *more))),
            marks=() if device_of(cell, engine) == "cpu" else pytest.mark.gpu,
        )
        for engine in kernels.engine_names(cell, with_opt_in=True)[1:]
    ]


def sizes(cell):
    """Return times, batches and widths such that every two values meet.

    A dense block of the GPU has one warp up to 32 units.
    """
    if not SIMULATED:
        return [(1, 1, 1), (1, 3, 33), (2, 1, 33), (2, 3, 1), (63, 1, 1), (63, 3, 33)]
    if cell in CHAINS:
        return [(1, 1, 1), (2, 3, 5), (17, 3, 1), (35, 1, 9)]
    return [(1, 1, 1), (2, 3, 5), (7, 1, 3), (3, 2, 33)]


def long_and_short(cell):
    if not SIMULATED:
        return [(1, 1, 3), (40, 3, 33), (9, 3, 3)]
    if cell in CHAINS:
        return [(1, 2, 3), (21, 2, 3)]
    return [(1, 2, 3), (5, 2, 3)]


ENGINES = [case for cell in cell_names() for case in by_engine(cell)]
SIZED = [case for cell in cell_names() for size in sizes(cell) for case in by_engine(cell, *size)]
ALTERED = [
    case
    for cell, variant in engines.VARIANTS
    for size in long_and_short(cell)
    for case in by_engine(cell, variant, *size)
    if "checkpoint" not in variant or case.values[1] == "numba-cpu"  # no GPU kernel reverses
]
SMALL = (4, 2, 3) if SIMULATED else (9, 3, 5)
OURS = [case for case in ENGINES if case.values[1] != "library" and not case.marks]
"""Our kernels, where they run on tensors of the CPU."""
CPU_KERNELS = [cell for cell in cell_names() if "numba-cpu" in kernels.engine_names(cell)]
BY_TIME = [case for cell, variant in engines.TIMED for case in by_engine(cell, variant)]
COMPARED = [torch.float64] if SIMULATED else engines.TOLERANCE
DTYPES = pytest.mark.parametrize("dtype", COMPARED, ids=str)
"""The simulator computes in the types of its arrays.

What a kernel does in float32 is only known after compiling it.
"""


@DTYPES
@pytest.mark.parametrize(("name", "engine", "T", "batch", "hidden"), SIZED)
def test_engine_equals_reference(name, engine, dtype, T, batch, hidden):
    engines.assert_engine_agrees(random_case(name, T, batch, hidden, dtype), name, engine)


@pytest.mark.parametrize("use", [("outputs",), ("state",)], ids=str)
@pytest.mark.parametrize(("name", "engine"), ENGINES)
def test_gradient_of_outputs_or_final_state_alone(name, engine, use):
    engines.assert_engine_agrees(random_case(name, *SMALL), name, engine, use=use)


@pytest.mark.parametrize(("name", "engine"), ENGINES)
def test_an_empty_batch_has_empty_outputs_and_no_gradient(name, engine):
    device = device_of(name, engine)
    if device is None:
        pytest.skip(f"{engine} does not run on this machine")
    cell, u, _ = random_case(name, 5, 1, 3)
    cell.to(device)
    outputs, final = cell.run(u[:, :0].to(device), cell.initial_state(0), engine=engine)
    assert outputs.shape == (5, 0, 3)
    (outputs.sum() + final[0].sum()).backward()
    gradients = [weight.grad for weight in cell.parameters() if weight.grad is not None]
    assert not any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize(("name", "engine"), ENGINES)
def test_loops_refuse_sequences_without_time_steps(name, engine):
    if engine == "library":
        pytest.skip("PyTorch checks the input of its layers")
    cell, u, state = random_case(name, *SMALL)
    with pytest.raises(ValueError, match="expected at least one time step, got none"):
        cell.run(u[:0], state, engine=engine)


WRONG_OPTIONS = {
    "expected backward to be one of stored, recovered": {"backward": "all"},
    "expected checkpoint to be at least 1, got 0": {"backward": "reversible", "checkpoint": 0},
}


@pytest.mark.parametrize("words", WRONG_OPTIONS)
def test_wrong_options_of_an_engine_are_refused(words):
    cell, u, state = random_case("unicornn", *SMALL)
    cell.engine_options = WRONG_OPTIONS[words]
    with pytest.raises(ValueError, match=f"^unicornn: {words}"):
        cell(u, state, engine="numba-cpu")


@DTYPES
@pytest.mark.parametrize(("name", "engine", "variant", "T", "batch", "hidden"), ALTERED)
def test_variants_equal_the_reference(name, engine, variant, dtype, T, batch, hidden):
    if "backward" in variant and dtype == torch.float32:
        pytest.skip("notebook 51 checks what the backward passes lose in float32")
    case = random_case(name, T, batch, hidden, dtype, **variant)
    engines.assert_engine_agrees(case, name, engine)


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")
@pytest.mark.parametrize(("name", "engine"), by_engine("unicornn"))
def test_velocities_are_not_recovered_from_steps_of_zero(name, engine):
    """A step of zero, as a very negative c gives it, divides no difference of positions."""
    case = random_case(name, *SMALL, backward="recovered")
    with torch.no_grad():
        for c in case[0].c:
            c[0] = -800
    engines.assert_engine_agrees(case, name, engine)


@pytest.mark.parametrize("times", [(0, 0, 0), (0, 2, 5)], ids=["together", "apart"])
@pytest.mark.parametrize(("name", "engine", "variant"), BY_TIME)
def test_engines_count_time_steps_per_sequence(name, engine, variant, times):
    cell, u, (x, t) = random_case(name, 11, 3, 6, **variant)
    if name == "irnn":
        torch.nn.init.uniform_(cell.eta, 0, 0.5)
    t = torch.tensor(times, dtype=t.dtype)[:, None].expand_as(t).clone().requires_grad_()
    engines.assert_engine_agrees((cell, u, (x, t)), name, engine)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@DTYPES
@pytest.mark.parametrize(("name", "engine"), OURS)
def test_nan_and_infinity_propagate_as_in_the_reference(name, engine, dtype, bad):
    size = (4, 2, 3) if SIMULATED else (6, 3, 33)
    engines.assert_bad_numbers_spread(random_case(name, *size, dtype), engine, bad)


@pytest.mark.parametrize("name", ["exponential", "lipschitz"])
def test_a_diverging_network_diverges_in_the_kernel(name):
    """Nothing bounds the state: divergence is a result."""
    cell, u, state = random_case(name, 200, 2, 8, torch.float32)
    weights = cell.weights()
    weights = weights._replace(**{weights._fields[0]: 1e3 * weights[0]})  # A or B, outside any tanh
    outputs, _ = kernels.select(name, "numba-cpu", u)(weights, state, u)
    assert not outputs.sum().isfinite()


@pytest.mark.parametrize(("name", "engine"), OURS)
def test_frozen_weights_get_no_gradient(name, engine):
    cell, u, state = random_case(name, 4, 2, 3)
    expected = torch.autograd.grad(cell(u, state, engine="reference")[0].sum(), u)[0]
    cell.requires_grad_(False)
    cell(u, state, engine=engine)[0].sum().backward()
    assert all(parameter.grad is None for parameter in cell.parameters())
    torch.testing.assert_close(u.grad, expected)


def _negated_lazily(x):
    """Return x as PyTorch stores the imaginary part of a conjugate: the memory holds -x."""
    view = torch.complex(torch.zeros_like(x), -x).conj().imag
    assert view.is_neg()
    return view


@pytest.mark.parametrize(("name", "engine"), ENGINES)
def test_negated_views_keep_their_sign(name, engine):
    cell, u, state = random_case(name, *SMALL)
    expected = outputs_and_gradients(cell, u, state, engine)
    negated = tuple(_negated_lazily(part) for part in state)
    outputs, final = cell(_negated_lazily(u), negated, engine=engine)
    torch.testing.assert_close(outputs, expected["outputs"])
    for index, part in enumerate(final):
        torch.testing.assert_close(part, expected[f"final state {index}"])
    leaves = [u, *cell.parameters()]
    results = [part for part in (outputs, *final) if part.requires_grad]
    cotangents = [torch.randn_like(part) for part in results]
    settings = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    gradients = torch.autograd.grad(results, leaves, cotangents, **settings)
    cotangents = [_negated_lazily(part) for part in cotangents]
    torch.testing.assert_close(
        torch.autograd.grad(results, leaves, cotangents, **settings), gradients
    )


def elementwise(function, x):
    """Apply one of the scalar activations in a compiled loop."""

    @numba.njit(**_cpu.OPTIONS)
    def loop(x, y):
        for i in range(x.size):
            y[i] = function(x[i])

    y = np.empty_like(x)
    loop(x, y)
    return y


EXACT = {_cpu_activations.tanh: np.tanh, _cpu_activations.sigmoid: lambda x: 1 / (1 + np.exp(-x))}
BOUNDS = {
    (_cpu_activations.tanh, np.float32): 2.5e-7,
    (_cpu_activations.sigmoid, np.float32): 4e-7,
    (_cpu_activations.tanh, np.float64): 1e-15,
    (_cpu_activations.sigmoid, np.float64): 1e-15,
}


@pytest.mark.parametrize(("function", "dtype"), BOUNDS)
def test_activations_are_within_their_bounds(function, dtype):
    # Dense where they bend, down to the smallest normals.
    small = np.logspace(-37.9, 2 if dtype == np.float32 else 1.2, 20_000)
    x = np.concatenate([np.linspace(-19, 19, 200_001), small, -small]).astype(dtype)
    actual = elementwise(function, x)
    truth = EXACT[function](x.astype(np.float64 if dtype == np.float32 else np.longdouble))
    normal = np.abs(truth) > 2 * np.finfo(dtype).tiny
    assert np.max(np.abs(actual[normal] / truth[normal] - 1)) < BOUNDS[function, dtype]
    assert np.all(np.abs(actual[~normal] - truth[~normal]) <= 2 * np.finfo(dtype).tiny)
    assert np.max(np.abs(actual)) <= 1
    if (function, dtype) == (
        _cpu_activations.tanh,
        np.float32,
    ):  # and so the slope vanishes as PyTorch's does
        assert np.all(np.abs(actual[np.abs(x) > 9.02]) == 1)


@pytest.mark.parametrize("dtype, tiny, low", [(np.float32, 1e-42, -95), (float, 1e-310, -720)])
def test_activations_keep_nan_infinity_and_denormals(dtype, tiny, low):
    x = np.array([np.nan, np.inf, -np.inf, tiny, -tiny, low], dtype=dtype)
    np.testing.assert_array_equal(
        elementwise(_cpu_activations.tanh, x), [np.nan, 1, -1, *x[3:5], -1]
    )
    y = elementwise(_cpu_activations.sigmoid, x)
    np.testing.assert_array_equal(y[:5], [np.nan, 1, 0, 0.5, 0.5])
    assert 0 < y[5] < np.finfo(dtype).tiny


@pytest.fixture
def threads(monkeypatch):
    """Yield a function that sets how many threads the kernels use, however small the case."""
    monkeypatch.setattr(_threads, "PARALLEL_FROM", 0)
    monkeypatch.setattr(_threads, "PRODUCT_FROM", 0)
    return lambda count: monkeypatch.setattr(_threads.torch, "get_num_threads", lambda: count)


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("indrnn", {}),
        ("sru", {}),
        *(("unicornn", {"backward": way}) for way in ("stored", "recovered", "reversible")),
    ],
)
def test_threads_do_not_change_bits(threads, name, variant):
    case = random_case(name, 20, 5, 67, torch.float32, **variant)
    actual = []
    for count in (1, 3):
        threads(count)
        actual.append(outputs_and_gradients(*case, "numba-cpu"))
    for label, expected in actual[0].items():
        assert torch.equal(actual[1][label], expected), label


SPLIT = ["cornn", "dt_lstm", "exponential", "fastgrnn", "fastrnn", "gru", "lem", "lipschitz"]
SPLIT += ["antisymmetric", "gated_antisymmetric", "inverse_rnn", "lu_rnn", "rnn"]
"""Cells with dense steps whose batch is split."""
ARCHITECTURES = {library.info()["architecture"] for library in _blas._LIBRARIES}


@pytest.mark.parametrize("name", SPLIT)
def test_threads_split_the_batch_of_dense_cells(threads, name):
    case = random_case(name, 4, 31, 20, torch.float32)
    actual = []
    for count in (1, 2, 3):
        threads(count)
        actual.append(outputs_and_gradients(*case, "numba-cpu"))
    for result in actual[1:]:
        for label, expected in actual[0].items():
            if ARCHITECTURES.issubset({"Haswell", "Zen"}):
                assert torch.equal(result[label], expected), label
            else:  # other kernels of OpenBLAS take other numbers of columns at a time
                torch.testing.assert_close(result[label], expected, rtol=1e-5, atol=1e-6)


def test_a_batch_is_split_at_multiples_of_twelve(threads):
    threads(3)
    stretches = []

    def note(start, stop):
        stretches.append((start, stop))

    _threads.run_sequences(note, np.zeros((50, 3)), 1)
    assert sorted(stretches) == [(0, 12), (12, 36), (36, 50)]
    stretches.clear()
    _threads.run_sequences(note, np.zeros((5, 3)), 1)
    assert stretches == [(0, 5)]


def test_threaded_products_equal_single_threaded_ones(threads):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((100, 30))
    b = rng.standard_normal((30, 7))
    threads(1)
    expected = _threads.product(a, b)
    threads(3)
    np.testing.assert_allclose(_threads.product(a, b), expected, rtol=1e-13)


@pytest.mark.skipif(SIMULATED, reason="the simulator's engine comes first")
@pytest.mark.parametrize("name", ["gru", "rnn"])
def test_auto_chooses_pytorchs_layers_for_wide_cells(name, threads):
    threads(2)
    assert kernels.choose(name, "cpu") == "numba-cpu"
    assert kernels.choose(name, "cpu", units=511) == "numba-cpu"
    assert kernels.choose(name, "cpu", units=512) == "library"
    threads(1)
    assert kernels.choose(name, "cpu", units=512) == "numba-cpu"


def test_errors_of_other_threads_are_raised(threads):
    threads(2)

    def fail(start, stop):
        if start > 0:
            raise MemoryError("no room")

    with pytest.raises(MemoryError, match="no room"):
        _threads.over_chains(fail, 10, 1000)


@pytest.mark.parametrize("flush", [False, True])
def test_other_threads_flush_denormals_as_their_caller(threads, flush):
    threads(2)
    flushed = np.zeros(200, bool)

    def multiply(start, stop):
        flushed[start:stop] = np.full(stop - start, 1e-30, np.float32) * np.float32(1e-10) == 0

    torch.set_flush_denormal(flush)
    try:
        _threads.over_chains(multiply, 10, 200)
    finally:
        torch.set_flush_denormal(False)
    assert (flushed == flush).all()


def cpu_kernels():
    """Return every compiled function of the CPU kernels' files by name."""
    actual = {}
    for module in pkgutil.iter_modules(kernels.__path__, "longrnn.kernels."):
        for name, member in vars(importlib.import_module(module.name)).items():
            each = member if isinstance(member, tuple) else (member,)
            actual |= {
                f"{module.name}.{name}.{k}": function
                for k, function in enumerate(each)
                if isinstance(function, CPUDispatcher)
            }
    return actual


def optimized_code(function, types):
    """Return the optimized LLVM code of a compiled function for arguments of these types.

    Entry points called from Python are left out: they widen scalars, outside of the loops.
    """
    # What is linked into others is the optimized code, and the cache keeps it, too.
    module = str(function.overloads[types].library._get_module_for_linking())
    functions = re.findall(r"^define .*?^}", module, re.MULTILINE | re.DOTALL)
    return "\n".join(text for text in functions if "cpython" not in text.split("\n")[0])


def test_float32_kernels_use_no_float64_arithmetic():
    for name, variant in [*((name, {}) for name in CPU_KERNELS), *engines.VARIANTS]:
        if name in CPU_KERNELS:
            outputs_and_gradients(
                *random_case(name, 2, 2, 3, torch.float32, **variant), "numba-cpu"
            )
    single = {}  # a signature of each: others differ in what is contiguous
    for label, function in cpu_kernels().items():
        for signature in function.nopython_signatures:
            if "float32" in str(signature.args):
                single[label] = function, signature
    assert len(single) >= 2 * len({function.__module__ for function, _ in single.values()})
    for label, (function, signature) in single.items():
        code = optimized_code(function, signature.args)
        # `_rank` returns a length, so that its code need not have numbers of this type.
        assert " float " in code or label.endswith("._rank.0"), label
        wide = re.findall(r"^.*= (?:f\w+|[su]itofp)\b.*\bdouble\b.*$", code, re.MULTILINE)
        assert not wide, f"{label}: {wide[0]}"


FORWARD_KERNELS = {
    "cornn": (cpu_cornn._forward_kernel, 1),
    "fastgrnn": (cpu_shared_gate._forward_kernel, 2),
    "gru": (cpu_gru._forward_kernel, 3),
    "lem": (cpu_lem._forward_kernel[0], 4),
    "lstm": (cpu_dt_lstm._forward_kernel, 5),
    "rnn": (_cpu_dense.forward_kernel[_cpu_dense.BASIC], 1),
    "sru": (cpu_sru._forward_kernel, 2),
    "unicornn": (cpu_unicornn._forward_kernel, 1),
}
"""Forward kernels by cell, and the activations that they compute for a unit in a step."""


@pytest.mark.parametrize("name", FORWARD_KERNELS)
def test_activations_are_computed_in_vectors(name):
    """The compiler gives up on a loop without a word: over a range that does not start at 0, say.

    Each activation divides once. Before and after the vectors a loop divides single numbers, too.
    """
    kernel, activations = FORWARD_KERNELS[name]
    outputs_and_gradients(*random_case(name, 2, 2, 3, torch.float32), "numba-cpu")
    types = next(types for types in kernel.overloads if "float32" in str(types))
    in_vectors = re.findall(r"= fdiv .*<\d+ x float>", optimized_code(kernel, types))
    assert len(in_vectors) >= activations


_PREPARED = """
import multiprocessing, os, sys
import numba, torch

# What Numba prepares before it compiles takes as long as a kernel: once for all processes.
numba.njit(lambda x: x + x)(1.0)
"""

_FIRST_USE = """
from longrnn.cells import make_cell
from longrnn.kernels import cpu_indrnn
sys.path.append("tests")
from test_kernels import cpu_kernels

def use(_):
    outputs, _ = make_cell("indrnn", 2, 4)(torch.ones(3, 2, 2), engine="numba-cpu")
    outputs.sum().backward()
    return sum(cpu_indrnn._forward_kernel[0].stats.cache_hits.values())

assert not any(function.signatures for function in cpu_kernels().values())
for processes in (2, 1):  # of two at once, one compiles and the other waits; a third one loads
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        print(sorted(pool.map(use, range(processes), chunksize=1)))
"""


def test_processes_share_the_machine_code(tmp_path):
    done = python("-c", _PREPARED + _FIRST_USE, env=os.environ | {"LONGRNN_CACHE": str(tmp_path)})
    assert (done.returncode, done.stdout) == (0, "[0, 1]\n[1]\n"), done.stderr


_THREADS = """
import threading
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

before = threadpool_info()
import torch
from longrnn.cells import make_cell
from longrnn.kernels import _blas

def counts():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

assert counts() == {2}, counts()
with _blas.single_thread:
    assert counts() == {1}, counts()
    with _blas.single_thread:
        pass
    assert counts() == {1}, counts()
assert counts() == {2}, counts()

cell, u = make_cell("lipschitz", 1, 16), torch.randn(50, 4, 1)
def work():
    for _ in range(20):
        cell(u, engine="numba-cpu")[0].sum().backward()
workers = [threading.Thread(target=work) for _ in range(4)]
for worker in workers: worker.start()
for worker in workers: worker.join()
assert counts() == {2}, counts()
print("ok")
"""


def test_blas_has_one_thread_inside_kernels_only():
    free = {name: value for name, value in os.environ.items() if "_NUM_THREADS" not in name}
    done = python("-c", _THREADS, env=free | {"OPENBLAS_NUM_THREADS": "2"})
    assert done.stdout == "ok\n", done.stderr


_TWO_VARIANTS = """
def use(folder):
    os.environ["NUMBA_CACHE_DIR"] = folder
    from longrnn.cells import make_cell

    torch.manual_seed(0)
    u = torch.randn(20, 2, 2).double()
    for phi in ("relu", "tanh"):  # two variants of one function, which compiles fast
        cell = make_cell("indrnn", 2, 4, phi=phi).double()
        outputs, _ = cell(u, engine="numba-cpu")
        expected, _ = cell(u, engine="reference")
        torch.testing.assert_close(outputs, expected)
        outputs.sum().backward()
    print("ok", flush=True)

for folder in sys.argv[1:]:
    process = multiprocessing.get_context("fork").Process(target=use, args=[folder])
    process.start()
    process.join()
"""


def test_cached_kernels_of_variants_are_kept_apart(tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "LONGRNN_CACHE"}
    # The second process reads what the first one wrote; the third cannot write.
    done = python("-c", _PREPARED + _TWO_VARIANTS, tmp_path, tmp_path, "/proc/none", env=env)
    assert done.stdout == "ok\n" * 3, done.stderr
    assert re.findall(r"cannot be cached \(.*'(.*)'\)", done.stderr) == ["/proc/none"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LONGRNN_CACHE": "{}/own", "NUMBA_CACHE_DIR": "{}/numba"}, "own"),
        ({"NUMBA_CACHE_DIR": "{}/numba"}, "numba"),
        ({"XDG_CACHE_HOME": "{}/user"}, "user/longrnn/kernels"),
        ({"HOME": "{}"}, ".cache/longrnn/kernels"),
    ],
    ids=str,
)
def test_cache_folder_follows_the_environment(environment, expected, tmp_path, monkeypatch):
    for name in ("LONGRNN_CACHE", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    assert _cpu_cache.cache_folder.__wrapped__() == tmp_path / expected


def double(x):
    return x + x


@pytest.fixture
def kernel_folder(tmp_path, monkeypatch):
    """A folder of its own for the machine code of the kernels that a test compiles."""
    for module in (_cpu, _cpu_cache):
        monkeypatch.setattr(module, "cache_folder", lambda: tmp_path)
    _cpu_cache._warn_without_cache.cache_clear()
    return tmp_path


def test_kernels_run_uncached_on_a_full_disk(kernel_folder, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(numba.core.caching.CompileResultCacheImpl, "reduce", full)
    compiled = _cpu.kernel(double)
    with pytest.warns(RuntimeWarning, match="cannot be cached.*LONGRNN_CACHE"):
        assert compiled(2) == 4


def test_a_failed_compilation_releases_the_lock(kernel_folder, monkeypatch):
    monkeypatch.setattr(_cpu_cache, "_LONGEST_WAIT", 0)
    compiled = _cpu.kernel(double)
    with pytest.raises(numba.TypingError):
        compiled(None)
    (path,) = kernel_folder.rglob("*.lock")
    lock = _cpu_cache._lock_file(path)
    assert lock is not None, "another process would wait for this one"
    lock.close()
    assert compiled(2) == 4


@pytest.mark.parametrize("kind", ["nbi", "nbc"])  # the index, or the code
def test_damaged_machine_code_is_compiled_again(kind, kernel_folder):
    assert _cpu.kernel(double)(2) == 4
    (path,) = kernel_folder.rglob(f"*.{kind}")
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    damaged = _cpu.kernel(double)
    assert damaged(2) == 4
    assert not damaged.stats.cache_hits
    again = _cpu.kernel(double)
    assert again(2) == 4
    assert again.stats.cache_hits, "the damaged file was not replaced"


def test_two_threads_that_compile_at_once_leave_no_lock(kernel_folder, monkeypatch):
    monkeypatch.setattr(_cpu_cache, "_LONGEST_WAIT", 0)
    compiled = _cpu.kernel(double)
    start = threading.Barrier(2)

    def call(number):
        start.wait()
        return compiled(number)

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(call, (2, 2.5))) == [4, 5]  # an integer and a float
    (path,) = kernel_folder.rglob("*.lock")
    lock = _cpu_cache._lock_file(path)
    assert lock is not None, "another process would wait for this one"
    lock.close()


def test_importing_creates_no_folder(tmp_path):
    folder = tmp_path / "cache"
    environment = os.environ | {"LONGRNN_CACHE": str(folder)}
    use = "cell = longrnn.IndRNN(1, 2); cell(torch.ones(3, 1, 1)); print(folder.exists())"
    code = "import pathlib, sys, torch, longrnn; folder = pathlib.Path(sys.argv[1]);"
    done = python("-c", f"{code} print(folder.exists()); {use}", folder, env=environment)
    assert (done.returncode, done.stdout) == (0, "False\nTrue\n"), done.stderr
    done = python("-W", "error", "-c", code, folder, env=environment | {"LONGRNN_CACHE": "/proc/x"})
    assert done.returncode == 0, done.stderr
