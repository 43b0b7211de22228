"""Bad input to a cell: one sentence each, whatever the engine; and what must not be mistaken for it."""

import pytest
import torch

from lib import kernels
from lib.cells import cell_names, make_cell

T, B, P, D = 5, 3, 2, 4
EVERY_CELL = pytest.mark.parametrize("name", cell_names())


def an_input(**changes):
    sizes = {"T": T, "B": B, "P": P} | changes
    return torch.randn(sizes["T"], sizes["B"], sizes["P"])


def engines_of(name):
    return [engine for engine in kernels.engine_names(name) if "cuda" not in engine]


U = an_input()
BAD_INPUTS = [
    *((u, r"expected input \(time, batch, input\) with input=2, got") for u in (U[0], U[None], U[0, 0, 0])),
    *((an_input(P=p), rf"with input=2, got \(5, 3, {p}\)") for p in (0, 1, 3, 100)),
    *((u, "at least one time step and one sequence, got") for u in (U[:0], U[:, :0])),
    *((U.to(kind), f"expected input of torch.float32 on cpu, got {kind}")
      for kind in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64)),
    *((an_input().fill_(bad), "expected finite input, got 30 of 30 values") for bad in (torch.nan, torch.inf)),
]  # fmt: skip
ZERO = torch.zeros(B, D)
BAD_PARTS = [
    *(torch.zeros(shape) for shape in ((B + 1, D), (1, D), (D,), (1, B, D), (D, B))),
    *(torch.zeros(B, d) for d in (0, 1, D - 1, D + 1)),
    *(ZERO.to(kind) for kind in (torch.float16, torch.float64, torch.int64, torch.bool)),
    ZERO.to("meta"),
]


def assert_refused(name, engine, message, *given):
    with pytest.raises(ValueError, match=message) as refusal:
        make_cell(name, P, D)(*given, engine=engine)
    assert str(refusal.value).startswith(f"{name}: ") and "\n" not in str(refusal.value)


@EVERY_CELL
def test_every_engine_refuses_bad_inputs_and_states_in_one_sentence(name):
    states = make_cell(name, P, D).states
    for engine in (*engines_of(name), "auto"):
        for u, message in BAD_INPUTS:
            assert_refused(name, engine, message, u)
        wrong = [(ZERO,) * (states + more) for more in (-1, 1)]
        wrong += [
            (*[ZERO] * at, part, *[ZERO] * (states - 1 - at))
            for at in range(states)
            for part in BAD_PARTS
        ]
        for state in wrong:
            message = rf"expected {states} state tensor\(s\) of shape \(3, 4\)"
            assert_refused(name, engine, message, U, state)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_refused(dtype):
    cell = make_cell("rnn", P, D).to(dtype)
    with pytest.raises(ValueError, match="expected weights of torch.float32 or torch.float64, got"):
        cell(an_input().to(dtype))


def layouts(u):
    """Yield the same numbers elsewhere in memory, some between numbers that are none."""
    yield u.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    wide = torch.full((2 * T, B, 2 * P + 1), torch.nan)
    for held in (wide[::2, :, 1 : 1 + P], wide[:T, :, ::2][..., :P], wide[1::2, :, -P:]):
        yield held.copy_(u)
    yield u[:1].expand(T, -1, -1)


@EVERY_CELL
def test_memory_order_does_not_matter(name):
    torch.manual_seed(0)
    cell = make_cell(name, P, D)
    for u in layouts(torch.randn(T, B, P)):
        assert not u.is_contiguous()
        expected, before = cell(u.contiguous(), engine="reference")[0], u.clone()
        for engine in engines_of(name):
            torch.testing.assert_close(cell(u, engine=engine)[0], expected)
            assert torch.equal(u, before), "the input was changed"


@EVERY_CELL
def test_weights_that_diverged_are_no_bad_input(name):
    cell = make_cell(name, P, D)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.fill_(torch.nan)
    if name == "inverse_rnn":
        pytest.skip("a matrix of NaN has no inverse, which the cell says itself")
    assert not cell(an_input())[0].isfinite().all()


def test_an_embedding_that_diverged_is_no_bad_input():
    u = an_input().fill_(torch.nan).requires_grad_()
    assert make_cell("rnn", P, D)(u)[0].isnan().all()
