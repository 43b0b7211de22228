"""What a kernel must do on a GPU beyond computing the right numbers; each check raises `AssertionError` where it does not."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from lib import kernels
from lib.bench.parity import deviations, doubled, everything, moved, random_case
from lib.cells import Cell, State, cell_names
from lib.kernels._cuda import DEVICES

ENGINE = "numba-cuda"
DEVICE = DEVICES[0]
"""The GPU; the CPU where Numba's simulator stands for it."""

SIZES = (40, 5, 33)
"""Time steps, batch and hidden size of the checks."""
PARITY_SIZES = (203, 9, 65)
"""The same, of the comparison with the reference."""

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}
"""Largest deviation from the float64 reference, relative to the largest value compared."""
SLACK = 3
"""Times what the reference itself loses in the same type that an engine may lose."""


def cells() -> list[str]:
    """Return the names of the cells that have kernels for the GPU."""
    return [name for name in cell_names() if ENGINE in kernels.engine_names(name)]


def parity(name: str, dtype: torch.dtype, engine: str = ENGINE) -> tuple[str, float, float]:
    """Return the quantity of a cell that deviates most from what it may, its deviation, and what it may."""
    case = random_case(name, *PARITY_SIZES, dtype)
    expected = everything(*doubled(*case), "reference")
    own = deviations(everything(*case, "reference"), expected)
    found = deviations(everything(*moved(DEVICE, *case), engine), expected)
    allowed = {label: max(TOLERANCE[dtype], SLACK * own[label]) for label in found}
    worst = max(found, key=lambda label: found[label] / allowed[label])
    return worst, found[worst], allowed[worst]


def repeats_to_the_bit(name: str) -> None:
    """Three runs give the same bits, outputs and gradients."""
    cell, u, state = _case(name)
    first, *others = (_run(cell, u, state) for _ in range(3))
    for other in others:
        for label, (one, two) in enumerate(zip(first, other, strict=True)):
            assert torch.equal(one, two), f"tensor {label} differs between runs"


def runs_on_the_current_stream(name: str) -> None:
    """A pass on a side stream waits for the input that is computed there, and gives what it gives elsewhere."""
    cell, u, state = _case(name)
    expected = _run(cell, u, state)
    late = torch.zeros_like(u).requires_grad_()
    work = torch.randn(4096, 4096, device=DEVICE)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(30):  # some hundredths of a second
            work = (work @ work).clamp(-1, 1)
        with torch.no_grad():
            late.copy_(u)
        found = _run(cell, late, state)
    side.synchronize()
    _assert_close(found, expected)


def survives_graph_capture(name: str) -> None:
    """A captured forward and backward pass, replayed on new inputs, gives what a plain pass gives.

    The weights are evaluated before: a map such as the matrix exponential looks at values.
    """
    cell, u, state = _case(name)
    weights = tree_map_only(Tensor, lambda part: part.detach().requires_grad_(), cell.weights())
    run = kernels.select(name, ENGINE, u)

    def passed() -> list[Tensor]:
        return _results(*run(weights, state, u), [*tensors_of(weights), u, *state])

    graph, captured = capture(passed)
    for seed in (1, 2):
        torch.manual_seed(seed)
        with torch.no_grad():
            u.copy_(torch.randn_like(u))
        graph.replay()
        torch.cuda.synchronize()
        _assert_close(captured, passed())


def spreads_bad_numbers(name: str) -> None:
    """NaN in the input arrives where the reference has it, and nowhere else."""
    cell, u, state = _case(name)
    with torch.no_grad():
        u[2, 1, 0] = torch.nan
        found, expected = (
            cell(u, state, engine=engine)[0].isnan() for engine in (ENGINE, "reference")
        )
    assert torch.equal(found, expected), "NaN spreads otherwise than in the reference"


def refuses_bad_input(name: str) -> None:
    """Tensors of the wrong type, size, length or, on a GPU, place are refused in one sentence."""
    cell, u, state = _case(name)
    weights, run = cell.weights(), kernels.select(name, ENGINE, u)
    if u.is_cuda:
        here = random_case(name, *SIZES, torch.float32)
        _refused(lambda: here[0](*here[1:], engine=ENGINE), "it runs on cuda")
        _refused(lambda: run(here[0].weights(), here[2], u), "expected weights and states of")
    _refused(lambda: run(weights, state, u.double()), "expected weights and states of")
    _refused(lambda: run(weights, state, u[..., :1]), "2 features")
    _refused(lambda: run(weights, state, u[:0]), "no size of 0")
    _refused(lambda: run(weights, state, u[:, :-1]), "expected states (batch, hidden)")
    _refused(lambda: cell.half()(u.half(), engine=ENGINE), "got torch.float16")


def refuses_what_does_not_fit(name: str) -> None:
    """An input whose arrays exceed the device's memory is refused in one sentence, and the next pass works."""
    cell, u, state = _case(name)
    huge = torch.zeros(1, 1, 2, device=DEVICE).expand(1_000_000, 100_000, 2)
    _refused(lambda: cell(huge, engine=ENGINE), "needs several arrays", torch.OutOfMemoryError)
    _run(cell, u, state)


CHECKS: list[Callable[[str], None]] = [
    repeats_to_the_bit,
    runs_on_the_current_stream,
    survives_graph_capture,
    spreads_bad_numbers,
    refuses_bad_input,
    refuses_what_does_not_fit,
]


def tensors_of(structure) -> list[Tensor]:
    return [part for part in tree_leaves(structure) if isinstance(part, Tensor)]


def capture(run: Callable[[], object]) -> tuple[torch.cuda.CUDAGraph, object]:
    """Capture what `run` launches, after three passes beside the graph; return the graph and the result of `run`."""
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


def _case(name: str) -> tuple[Cell, Tensor, State]:
    return moved(DEVICE, *random_case(name, *SIZES, torch.float32))


def _run(cell: Cell, u: Tensor, state: State) -> list[Tensor]:
    return _results(*cell(u, state, engine=ENGINE), [*cell.parameters(), u, *state])


def _results(outputs: Tensor, final: State, leaves: list[Tensor]) -> list[Tensor]:
    loss = outputs.square().sum() + sum(part.sum() for part in final)
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
    return [outputs.detach(), *gradients]


def _assert_close(found: list[Tensor], expected: list[Tensor]) -> None:
    for place, (one, two) in enumerate(zip(found, expected, strict=True)):
        scale = max(two.abs().max().item(), 1e-30)
        deviation = (one - two).abs().max().item() / scale
        assert deviation < TOLERANCE[torch.float32], f"tensor {place} deviates by {deviation:.1e}"


def _refused(call: Callable[[], object], told: str, error: type[Exception] = ValueError) -> None:
    try:
        call()
    except error as refusal:
        sentence = str(refusal)
        assert told in sentence, f"the refusal says {sentence!r}, not {told!r}"
        assert "\n" not in sentence, f"the refusal is more than a sentence: {sentence!r}"
        return
    raise AssertionError(f"what should be refused with {told!r} was accepted")
