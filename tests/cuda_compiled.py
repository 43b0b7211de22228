"""The GPU kernels compiled for compute capability 9.0, which needs no GPU; `test_cuda.py` runs this file in a process of its own.

Numba makes PTX of them, ptxas machine code of that, of which nvdisasm tells the instructions.
"""

import re
import subprocess
from dataclasses import dataclass

import numba.cuda  # before lib.kernels, which then prepares the kernels although there is no GPU
import pytest
import torch
from cuda.pathfinder import find_nvidia_binary_utility  # numba-cuda brings it

from lib import kernels
from lib.cells import make_cell
from lib.kernels import _cuda, _registry, cuda_rnn

CELLS = [
    *("antisymmetric", "cornn", "exponential", "indrnn", "irnn", "lem", "lipschitz", "rnn", "sru"),
    "unicornn",
]
HIDDEN = 128
MANY = 10**6  # multiprocessors, so that a block does one sequence
CASES = [
    *((name, {}, {}, 1) for name in CELLS),
    ("irnn", {"rank": 64}, {}, 1),
    ("rnn", {}, {}, MANY),
    ("unicornn", {}, {"backward": "reversible"}, 1),
]
"""Cells, what is special about them and their engine, and the multiprocessors of the GPU."""


def compiled(run, arguments, **sizes):
    return numba.cuda.compile_ptx(
        run.bound(_cuda.dtype_of(arguments), **sizes), _cuda.signature(arguments), cc=(9, 0)
    )[0]


def what_is_missing():
    try:
        compiled(_cuda.kernel(lambda x: None), (torch.zeros(1),))
    except Exception as error:  # each missing library has its own
        return type(error).__name__
    tools = ("ptxas", "nvdisasm")
    return ", ".join(tool for tool in tools if not find_nvidia_binary_utility(tool))


if missing := what_is_missing():
    pytest.skip(f"NVIDIA's compiler is not installed: {missing}", allow_module_level=True)


@pytest.fixture(scope="module")
def ptx():
    """Return the PTX of every kernel, by (file, kernel, sizes, type): what launches would have compiled."""
    found = {}

    def compile_instead(run, blocks, threads, *arguments, shared=0, **sizes):
        module = run.function.__module__.split(".")[-1]
        key = module, run.__name__, tuple(sizes.items()), _cuda.dtype_of(arguments)
        if key not in found:
            found[key] = compiled(run, arguments, **sizes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_cuda, "launch", compile_instead)
        for name, special, asked, processors in CASES:
            engine = _registry._ENGINES[name, "numba-cuda"]
            patch.setattr(_cuda, "_processors", lambda processors=processors: processors)
            for dtype in (torch.float32, torch.float64):
                cell = make_cell(name, 2, HIDDEN, **special).to(dtype)
                u = torch.zeros(3, 4, 2, dtype=dtype)
                outputs, _ = engine.run(cell.weights(), cell.initial_state(4), u, **asked)
                outputs.sum().backward()
    return found


@dataclass(frozen=True)
class MachineCode:
    """What ptxas made of a kernel: its registers, the bytes that spill from them, and its innermost loops."""

    registers: int
    spilled: int
    loops: list[list[str]]

    def costs(self, instruction):
        """Return the instructions that each innermost loop of eight `instruction` and more takes for one of them."""
        counts = [(len(loop), sum(instruction in line for line in loop)) for loop in self.loops]
        return sorted(length / count for length, count in counts if count >= 8)


def machine_code(ptx, folder):
    source, binary = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_text(ptx, "utf-8")
    told = run_tool("ptxas", "-v", "-arch=sm_90", source, "-o", binary).stderr
    (registers,) = re.findall(r"Used (\d+) registers", told)
    spilled = re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", told)
    assert len(spilled) == 3, told
    return MachineCode(
        int(registers), sum(map(int, spilled)), innermost_loops(run_tool("nvdisasm", binary).stdout)
    )


def run_tool(name, *arguments):
    program = find_nvidia_binary_utility(name)
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True)


def innermost_loops(sass):
    """Return the instructions between a label and a branch back to it, where no other such pair lies between."""
    labels, instructions, spans = {}, [], []
    for line in sass.splitlines():
        if label := re.match(r"(\.L_\w+):", line):
            labels[label[1]] = len(instructions)
        elif instruction := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", line):
            instructions.append(instruction[1])
            branch = re.search(r"\bBRA\b.*`\((\.L_\w+)\)", instruction[1])
            if branch and branch[1] in labels:
                spans.append((labels[branch[1]], len(instructions)))
    return [
        instructions[first:end]
        for first, end in spans
        if not any(first <= f and e <= end and (f, e) != (first, end) for f, e in spans)
    ]


@pytest.fixture(scope="module")
def codes(ptx, tmp_path_factory):
    """Return the machine code of every kernel, by the same keys."""
    folder = tmp_path_factory.mktemp("ptxas")
    return {key: machine_code(text, folder) for key, text in ptx.items()}


def test_every_kernel_was_compiled(ptx):
    modules = {
        name: vars(getattr(kernels, name)) for name in dir(kernels) if name.startswith("cuda_")
    }
    known = {
        (module, member.__name__, dtype)
        for module, members in modules.items()
        for member in members.values()
        if isinstance(member, _cuda.Kernel)
        for dtype in (torch.float32, torch.float64)
    }
    assert {module for module, *_ in known} == {
        kernels.module_of(name, "numba-cuda").rpartition(".")[2] for name in CELLS
    }
    assert {(module, name, dtype) for module, name, _, dtype in ptx} == known


def test_float32_kernels_hold_no_float64_arithmetic(ptx):
    for (*kernel, dtype), text in ptx.items():
        wide = re.findall(r"^.*\.f64\b.*$", text, re.MULTILINE)
        if dtype == torch.float32:
            assert ".f32" in text
            assert not wide, f"{kernel}: {wide[0]}"
        else:
            assert wide


def test_no_kernel_holds_an_atomic_operation(ptx):
    for kernel, text in ptx.items():
        assert not re.search(r"^\s*(@%p\d+ )?(atom|red)\.", text, re.MULTILINE), kernel


def test_no_kernel_uses_the_approximate_tanh_or_flushes_denormals(ptx):
    for kernel, text in ptx.items():
        assert "tanh.approx" not in text, kernel
        # The library's own exp and tanh use ftz inside, on numbers that cannot be denormal there.
        assert not re.search(r"\b(add|mul|fma|sub)(\.rn)?\.ftz\.", text), kernel


def test_kernels_keep_all_in_registers_and_call_nothing(ptx):
    for (*kernel, dtype), text in ptx.items():
        if dtype == torch.float32:
            assert ".local" not in text, kernel
            assert not re.search(r"^\s*call", text, re.MULTILINE), kernel


def test_nothing_spills_from_the_registers(codes):
    spilled = {key: code.spilled for key, code in codes.items() if code.spilled}
    assert not spilled
    # A block of 128 threads may take no more, if two are to share a multiprocessor.
    assert max(code.registers for code in codes.values()) <= 65536 // 128 // 2


PRODUCTS = {
    ("cuda_cornn", "_forward"): 1,
    ("cuda_cornn", "_backward"): 4,
    ("cuda_irnn", "_forward"): 1,
    ("cuda_irnn", "_backward"): 1,
    ("cuda_lem", "_forward"): 4,
    ("cuda_lem", "_backward"): 3,
    ("cuda_rnn", "_forward"): 1,
    ("cuda_rnn", "_backward"): 2,
}
"""Products of a matrix and vectors in the text of each dense kernel; of low rank they are twice as many.

The Lipschitz RNN has one more on the way there.
"""
BUDGET = {4: 2.5, 1: 3.25}
"""Instructions for a multiply-add, by how many of them share the weight that was read."""


def test_products_cost_few_instructions(codes):
    dense = [key for key in codes if "d" in dict(key[2])]
    assert {key[:2] for key in dense} == set(PRODUCTS)
    for module, name, sizes, dtype in dense:
        costs = codes[module, name, sizes, dtype].costs(
            "FFMA" if dtype == torch.float32 else "DFMA"
        )
        sizes = dict(sizes)
        products = PRODUCTS[module, name] * (2 if sizes["rank"] else 1)
        products += name == "_forward" and sizes.get("form") == cuda_rnn.LIPSCHITZ
        within = [cost for cost in costs if cost <= BUDGET[sizes["tile"]]]
        assert len(within) >= products, f"{module}.{name} {sizes} {dtype}: {costs}"
