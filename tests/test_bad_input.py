"""Bad input to a cell: one sentence each, whatever the engine; and what must not be mistaken for it."""

import pytest
import torch

from lib import kernels
from lib.cells import cell_names, make_cell

T, B, P, D = 5, 3, 2, 4
ENGINES = [(name, engine) for name in ("rnn", "unicornn") for engine in ("auto", "reference")]


def an_input(**changes):
    sizes = {"T": T, "B": B, "P": P} | changes
    return torch.randn(sizes["T"], sizes["B"], sizes["P"])


@pytest.mark.parametrize(("name", "engine"), ENGINES)
@pytest.mark.parametrize(
    ("u", "message"),
    [
        (torch.zeros(T, P), r"expected input \(time, batch, input\) with input=2, got \(5, 2\)"),
        (an_input(P=3), r"with input=2, got \(5, 3, 3\)"),
        (an_input(T=0), r"at least one time step and one sequence, got \(0, 3, 2\)"),
        (an_input(B=0), r"at least one time step and one sequence, got \(5, 0, 2\)"),
        (an_input().double(), r"expected input of torch.float32 on cpu, got torch.float64"),
        (an_input().half(), r"expected input of torch.float32 on cpu, got torch.float16"),
        (an_input().long(), r"expected input of torch.float32 on cpu, got torch.int64"),
        (an_input().fill_(float("nan")), "expected finite input, got 30 of 30 values that are NaN"),
        (an_input().fill_(float("inf")), "expected finite input, got 30 of 30 values"),
    ],
    ids=lambda value: str(tuple(value.shape)) + str(value.dtype) if torch.is_tensor(value) else "",
)
def test_a_bad_input_is_refused_in_one_sentence(name, engine, u, message):
    with pytest.raises(ValueError, match=message) as refusal:
        make_cell(name, P, D)(u, engine=engine)
    assert str(refusal.value).startswith(f"{name}: ") and "\n" not in str(refusal.value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_refused(dtype):
    cell = make_cell("rnn", P, D).to(dtype)
    with pytest.raises(ValueError, match="expected weights of torch.float32 or torch.float64, got"):
        cell(an_input().to(dtype))


@pytest.mark.parametrize(
    "state",
    [
        (torch.zeros(B, D),),
        (torch.zeros(B, D), torch.zeros(B, D + 1)),
        (torch.zeros(B, D), torch.zeros(1, D)),
        (torch.zeros(B, D), torch.zeros(B, D, dtype=torch.float64)),
        (torch.zeros(B, D), torch.zeros(B, D, device="meta")),
    ],
    ids=["one part", "width", "batch", "type", "device"],
)
def test_a_bad_state_is_refused(state):
    with pytest.raises(ValueError, match=r"lstm: expected 2 state tensor\(s\) of shape \(3, 4\)"):
        make_cell("lstm", P, D)(an_input(), state)


@pytest.mark.parametrize("name", cell_names())
def test_memory_order_does_not_matter(name):
    torch.manual_seed(0)
    cell = make_cell(name, P, D)
    u = torch.randn(B, P, T).permute(2, 0, 1)
    assert not u.is_contiguous()
    for engine in kernels.engine_names(name):
        if engine != "numba-cuda":
            found, expected = cell(u, engine=engine)[0], cell(u.contiguous(), engine=engine)[0]
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", cell_names())
def test_weights_that_diverged_are_no_bad_input(name):
    cell = make_cell(name, P, D)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.fill_(float("nan"))
    if name == "inverse_rnn":
        pytest.skip("a matrix of NaN has no inverse, which the cell says itself")
    assert not cell(an_input())[0].isfinite().all()


def test_an_embedding_that_diverged_is_no_bad_input():
    u = an_input().fill_(float("nan")).requires_grad_()
    assert make_cell("rnn", P, D)(u)[0].isnan().all()
