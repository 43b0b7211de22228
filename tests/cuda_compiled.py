"""The GPU kernels compiled for compute capability 9.0, without a GPU.

Numba makes PTX, and ptxas machine code of it. `test_cuda.py` runs this file by itself.
"""

import os
import re
import subprocess
from types import SimpleNamespace

import pytest
import torch
from cuda.pathfinder import find_nvidia_binary_utility  # numba-cuda brings it
from longrnn import kernels
from longrnn.cells import cell_names, make_cell
from longrnn.kernels import _cuda_kernel, _cuda_launch
from longrnn.kernels._pull_back import Carried
from numba.cuda import codegen, dispatcher
from numba.cuda.cudadrv import driver
from study.paths import ROOT

CELLS = [
    name for name in cell_names() if "numba-cuda" in kernels.engine_names(name, with_opt_in=True)
]
PROBED = ["lstm", "gru"]
# The number is that of the GPU's multiprocessors; with a million, each block has one sequence.
CASES = [*((name, 1, {}) for name in CELLS), ("rnn", 10**6, {})]
CASES.append(("unicornn", 1, {"backward": "recovered"}))
PERSISTENT = [
    ("rnn", torch.float32, 256),
    ("rnn", torch.float64, 160),
    ("lstm", torch.float32, 100),
    ("lstm", torch.float32, 128),
    ("lstm", torch.float64, 64),
    ("gru", torch.float32, 156),
    ("gru", torch.float64, 96),
    ("lem", torch.float32, 32),
    ("lem", torch.float32, 64),
    ("lem", torch.float32, 128),
    ("lem", torch.float64, 64),
]
"""Widths at which kernels with persistent weights are compiled."""
WIDTH = int(os.environ.get("LTD_WIDTH", _cuda_launch.MOST_THREADS))
"""Width of the networks: the widest block leaves a thread the fewest registers.

Trials set another width.
"""
NARROW = 128
"""Width at which all kernels are compiled in float64, too."""
DEVICE = SimpleNamespace(compute_capability=(9, 0))
IRNN = [
    (dtype, width, hyperparameters)
    for dtype in (torch.float32, torch.float64)
    for width in sorted({min(NARROW, WIDTH), WIDTH})
    for hyperparameters in ({}, {"train_eta": "time", "length": 3})
]
"""Types, widths and hyperparameters of iRNNs with four sequences in a block, if they fit.

They have the most local arrays.
"""
PINNED_RELEASE = re.search(
    r"nvidia-cuda-nvcc==(\d+\.\d+)", (ROOT / "requirements-ptxas.in").read_text("utf-8")
)[1]
"""Release of CUDA whose compiler these tests install, such as "13.5"."""


def compiled(run, arguments, threads, **sizes):
    """Return the PTX of a kernel, compiled as `cuda.jit` does for a device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatcher, "get_current_device", lambda: DEVICE)
        patch.setattr(codegen.CUDACodeLibrary, "_ensure_cc", lambda _, cc: cc or (9, 0))
        function = run.bound(_cuda_kernel.dtype_of(arguments), **sizes)
        bounds = run.launch_bounds(threads)
        code = dispatcher._Kernel(function, _cuda_kernel.signature(arguments), launch_bounds=bounds)
    return code.inspect_asm((9, 0))


missing = "" if find_nvidia_binary_utility("ptxas") else "ptxas"
try:
    compiled(_cuda_kernel.kernel(lambda x: None), (torch.zeros(1),), 32)
except Exception as error:  # each missing library has its own
    missing = type(error).__name__
if missing:
    pytest.skip(f"NVIDIA's compiler is not installed: {missing}", allow_module_level=True)


@pytest.fixture(scope="module")
def ptx():
    """Return the PTX of every kernel that launches would have compiled.

    The keys are (file, kernel, sizes, type).
    """
    results = {}

    def compile_instead(run, blocks, threads, *arguments, shared=0, **sizes):
        module = run.function.__module__.split(".")[-1]
        key = module, run.__name__, tuple(sizes.items()), _cuda_kernel.dtype_of(arguments)
        if key not in results:
            results[key] = compiled(run, arguments, threads, **sizes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_cuda_launch, "launch", compile_instead)
        for name, processors, options in CASES:
            patch.setattr(_cuda_launch, "_processors", lambda _, processors=processors: processors)
            # One in float64 shows that its arithmetic would be seen in the others.
            both = WIDTH == NARROW or name in (CELLS[0], "sru")
            for dtype in (torch.float32, torch.float64)[: 1 + both]:
                use = "outputs" if name in ("indrnn", "rnn") else "state"
                if dtype == torch.float64:  # all gradients arrive, which takes most registers
                    use = "both"
                run_once(name, WIDTH, dtype, use, options)
        for name, dtype, width in PERSISTENT:
            for processors in (1, 3, 1000):  # four sequences in a block, two, and one
                patch.setattr(
                    _cuda_launch, "_processors", lambda _, processors=processors: processors
                )
                run_once(name, min(width, WIDTH), dtype, "both", {"variant": "persistent"})
        for name in PROBED:
            pull_back(name, WIDTH)
        patch.setattr(_cuda_launch, "_processors", lambda _: 1)
        for dtype, width, hyperparameters in IRNN:
            run_once("irnn", width, dtype, "both", {}, **hyperparameters)
    return results


def run_once(name, width, dtype, use, options, **hyperparameters):
    """Launch the kernels of a pass, for a loss of the outputs, the final state, or both."""
    engine = kernels._ENGINES[name, "numba-cuda"]
    cell = make_cell(name, 2, width, **hyperparameters).to(dtype)
    u = torch.zeros(3, 4, 2, dtype=dtype)
    outputs, final = engine.run(cell.weights(), cell.initial_state(4), u, **options)
    losses = {"outputs": outputs.sum(), "state": final[cell.readout].sum()}
    losses["both"] = outputs.sum() + sum(part.sum() for part in final)
    losses[use].backward()


def pull_back(name, width):
    """Launch the kernels of the probes of a cell."""
    engine = kernels._ENGINES[f"{name}/pull_back", "numba-cuda"]
    kernel = engine.run
    width = min(width, engine.most_units(torch.float64))
    cell = make_cell(name, 2, width).double().requires_grad_(False)
    u = torch.zeros(3, 4, 2, dtype=torch.float64)
    state = cell.initial_state(4)
    _, saved = kernel.forward(cell.weights(), state, u)
    carried = Carried(state, u.new_zeros(4))
    kernel.pull_back(cell.weights(), saved, carried, 8, u.new_zeros(3))


def test_a_kernel_asks_for_more_shared_memory(monkeypatch):
    asked = []
    fake = SimpleNamespace(cuKernelSetAttribute=lambda *values: asked.append(values))
    monkeypatch.setattr(driver, "driver", fake)
    function = SimpleNamespace(handle="kernel", device=SimpleNamespace(id=0))
    library = SimpleNamespace(get_cufunc=lambda: function)
    code = SimpleNamespace(overloads={"types": SimpleNamespace(_codelibrary=library)})
    _cuda_kernel.allow_shared(code, 200_000)
    ((attribute, *others),) = asked
    assert attribute.name.endswith("MAX_DYNAMIC_SHARED_SIZE_BYTES")
    assert others == [200_000, "kernel", 0]


def ptxas_release():
    """Return the release of CUDA that ptxas is from, such as "13.5"."""
    command = [find_nvidia_binary_utility("ptxas"), "--version"]
    words = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.search(r"release (\d+\.\d+)", words)[1]


def machine_code(ptx, folder):
    """Return the registers that ptxas gives a kernel, and the bytes that spill from them."""
    source = folder / "kernel.ptx"
    ptxas = find_nvidia_binary_utility("ptxas")
    source.write_text(ptx, "utf-8")
    command = [ptxas, "-v", "-arch=sm_90", source, "-o", folder / "kernel.cubin"]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    (registers,) = re.findall(r"Used (\d+) registers", report)
    spilled = re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", report)
    assert len(spilled) == 3, report
    return int(registers), sum(map(int, spilled))


def test_every_kernel_was_compiled(ptx):
    names = [name for name in dir(kernels) if name.startswith(("cuda_", "_cuda_"))]
    modules = {name: vars(getattr(kernels, name)) for name in names}
    known = {
        (m, one.__name__)
        for m in modules
        for one in modules[m].values()
        if isinstance(one, _cuda_kernel.kernel)
    }
    files = {kernels.module_of(name, "numba-cuda").rpartition(".")[2] for name in CELLS}
    for name in PROBED:
        files.add(kernels.module_of(f"{name}/pull_back", "numba-cuda").rpartition(".")[2])
    files |= {f"cuda_persistent_{name}" for name, *_ in PERSISTENT}
    assert {module for module, _ in known} == files | {"_cuda_sums"}
    assert {key[:2] for key in ptx} == known


def test_float32_kernels_use_no_float64_arithmetic(ptx):
    for (*kernel, dtype), text in ptx.items():
        wide = re.findall(r"^.*\.f64\b.*$", text, re.MULTILINE)
        if dtype == torch.float32:
            assert ".f32" in text
            assert not wide, f"{kernel}: {wide[0]}"
        else:
            assert wide


def test_the_compiler_knows_the_threads_of_a_block(ptx):
    for (*_, sizes, _), text in ptx.items():
        threads = re.findall(r"\.maxntid (\d+)", text)
        assert list(map(int, threads)) == [threads_of_a_block(dict(sizes))]


def threads_of_a_block(sizes):
    """Return the threads of a block; of independent chains it does 128, if there are enough."""
    if "parts" in sizes:
        return sizes["parts"] * sizes["width"]
    return min(-(-sizes.get("d", 128) // 32) * 32, _cuda_launch.MOST_THREADS)


def test_loops_over_units_divide_nothing(ptx):
    """`range` with a step divides for its length, each time a loop begins."""
    for (*kernel, sizes, _), text in ptx.items():
        if "d" in dict(sizes):  # chains divide once, for their indices
            divisions = re.findall(r"\bdiv\.[su]\d+", text)
            # One is the run of a block, which the compiler writes for 64 and for 32 bits.
            assert len(divisions) in (0, 2), kernel


def test_persistent_kernels_read_sixteen_bytes_at_once(ptx):
    bytes_of = {torch.float32: 4, torch.float64: 8}
    wide = re.compile(r"ld\.shared\.(v4\.f32|v2\.f64)")
    for (module, name, sizes, dtype), text in ptx.items():
        if module.startswith("cuda_persistent"):
            sizes = dict(sizes)
            vectors = sizes["in_registers"] * sizes["tile"] * bytes_of[dtype] // 16
            weights = int(sizes["in_memory"] > 0)  # a loop, which need not be unrolled
            assert len(wide.findall(text)) >= vectors + weights, (module, name, sizes)


FORBIDDEN = {
    "an atomic operation": r"^\s*(@%p\d+ )?(atom|red)\.",
    "the approximate tanh": r"tanh\.approx",
    # The library's own exp and tanh use ftz inside, on numbers that cannot be denormal there.
    "flushed denormals": r"\b(add|mul|fma|sub)(\.rn)?\.ftz\.",
    "memory of its own": r"\.local",
    "a call": r"^\s*call",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_kernel_contains(what, ptx):
    for (*kernel, dtype), text in ptx.items():
        if dtype == torch.float32:
            assert not re.search(FORBIDDEN[what], text, re.MULTILINE), kernel


def test_nothing_spills_from_the_registers(ptx, tmp_path):
    # CUDA 13.0 spills 56 bytes in one kernel, that of coRNN with 1,024 units. A machine with its
    # own CUDA is not refused for that.
    if ptxas_release() != PINNED_RELEASE:
        pytest.skip(f"registers are counted for CUDA {PINNED_RELEASE}, not {ptxas_release()}")
    codes = {key: machine_code(text, tmp_path) for key, text in ptx.items()}
    assert not [key for key, (_, spilled) in codes.items() if spilled]
    for (*_, sizes, _), (registers, _) in codes.items():  # those of a whole block fit its processor
        assert registers * threads_of_a_block(dict(sizes)) <= 65536
