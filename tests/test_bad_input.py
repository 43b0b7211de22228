"""Bad input to a cell and its constructor: one sentence each, whatever the engine."""

import math

import pytest
import torch
from longrnn import kernels
from longrnn.cells import cell_class, cell_names, make_cell
from refusals import refused

T = 5
B = 3
P = 2
D = 5
EVERY_CELL = pytest.mark.parametrize("name", cell_names())


def random_input(p=P):
    return torch.randn(T, B, p)


def engines_of(name):
    return [engine for engine in kernels.engine_names(name) if "cuda" not in engine]


U = random_input()
SHAPE = r"expected input \(time, batch, input\) with input=2, got"
OTHER_TYPES = (
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.bool,
    torch.complex64,
)
BAD_INPUTS = [(u, SHAPE) for u in (U[0], U[None], U[0, 0, 0])]
BAD_INPUTS += [(random_input(p=p), rf"with input=2, got \(5, 3, {p}\)") for p in (0, 1, 3, 100)]
BAD_INPUTS += [(u, "at least one time step and one sequence, got") for u in (U[:0], U[:, :0])]
BAD_INPUTS += [
    (U.to(kind), f"expected input of torch.float32 on cpu, got {kind}") for kind in OTHER_TYPES
]
BAD_INPUTS += [
    (random_input().fill_(bad), "expected finite input, got 30 of 30 values")
    for bad in (torch.nan, torch.inf)
]
ZERO = torch.zeros(B, D)
BAD_PARTS = [
    *(torch.zeros(shape) for shape in ((B + 1, D), (1, D), (D,), (1, B, D), (D, B))),
    *(torch.zeros(B, d) for d in (0, 1, D - 1, D + 1)),
    *(ZERO.to(kind) for kind in (torch.float16, torch.float64, torch.int64, torch.bool)),
    ZERO.to("meta"),
]


def bad_states(count):
    """Return states of which one tensor is wrong, missing or too many."""
    states = [(ZERO,) * (count - 1), (ZERO,) * (count + 1)]
    for index in range(count):
        for part in BAD_PARTS:
            state = [ZERO] * count
            state[index] = part
            states.append(tuple(state))
    return states


@EVERY_CELL
def test_engines_refuse_bad_inputs(name):
    states = make_cell(name, P, D).states
    expected = rf"expected {states} state tensor\(s\) of shape \(3, 5\)"
    cases = list(BAD_INPUTS)
    cases += [(U, state, expected) for state in bad_states(states)]
    for engine in (*engines_of(name), "auto"):
        for *inputs, message in cases:
            with pytest.raises(ValueError, match=message) as refusal:
                make_cell(name, P, D)(*inputs, engine=engine)
            assert str(refusal.value).startswith(f"{name}: ")
            assert "\n" not in str(refusal.value)


def layouts(u):
    """Yield copies of `u` with other strides, some of them with NaN between the numbers."""
    yield u.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    wide = torch.full((2 * T, B, 2 * P + 1), torch.nan)
    for view in (wide[::2, :, 1 : 1 + P], wide[:T, :, ::2][..., :P], wide[1::2, :, -P:]):
        yield view.copy_(u)
    yield u[:1].expand(T, -1, -1)


@EVERY_CELL
def test_memory_order_does_not_matter(name):
    torch.manual_seed(0)
    cell = make_cell(name, P, D)
    for u in layouts(torch.randn(T, B, P)):
        assert not u.is_contiguous()
        expected = cell(u.contiguous(), engine="reference")[0]
        before = u.clone()
        for engine in engines_of(name):
            torch.testing.assert_close(cell(u, engine=engine)[0], expected)
            assert torch.equal(u, before), "the input was changed"


@pytest.mark.parametrize("name", sorted({*cell_names()} - {"inverse_rnn"}))  # a NaN has no inverse
def test_diverged_weights_are_accepted(name):
    cell = make_cell(name, P, D)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.fill_(torch.nan)
    assert not cell(random_input())[0].isfinite().all()


def test_diverged_embedding_is_accepted():
    assert make_cell("rnn", P, D)(random_input().fill_(torch.nan).requires_grad_())[0].isnan().all()


REFUSED = [
    # no such keyword
    ("lem", {"delta": 1}, "hyperparameters among dt, clip, chrono, single_scale, got 'delta'"),
    ("sru", {"width": 3, "dt": 1}, "got 'width', 'dt'"),
    ("lstm", {"x" * 5000: 1}, "got 'x{1,40}\\.\\.\\.x{1,40}'$"),
    # numbers: type, end of an interval that is open or closed, None, whole ones, one for each layer
    ("lem", {"dt": "null"}, r"dt to be a number in \(0, 2\], got 'null'"),
    ("lem", {"dt": True}, "dt to be a number.*got True"),
    ("lem", {"dt": math.nan}, "got nan"),
    ("unicornn", {"alpha": math.inf}, r"alpha to be a number in \[0, inf\), got inf"),
    ("lem", {"dt": 2.0000001}, r"\(0, 2\]"),
    ("lem", {"clip": 0.0}, r"clip to be a number in \(0, 1\] or None"),
    ("unicornn", {"dropout": 1.0}, r"\[0, 1\)"),
    ("lipschitz", {"beta": 0.4999}, r"\[0.5, 1\]"),
    ("unicornn", {"layers": 2.0}, "layers to be a whole number"),
    ("unicornn", {"dt": (0.1, 1.2)}, r"a number, or one for each layer, in \(0, 1\)"),
    ("unicornn", {"dt": ()}, "dt to be"),
    # choices
    ("lem", {"single_scale": 1}, "single_scale to be one of False, True, got 1"),
    ("irnn", {"sign": True}, "one of 1, -1, got True"),
    ("irnn", {"phi": "gelu"}, "one of relu, tanh, sigmoid, got 'gelu'"),
    # conflicts with another hyperparameter
    ("lem", {"dt": 0.1, "chrono": 10}, r"chrono \* dt >= 2"),
    ("lem", {"single_scale": True, "clip": 0.5}, "no clip and no chrono"),
    ("unicornn", {"dt": (0.1, 0.2, 0.3)}, "one dt, or one for each of the 2 layers"),
    ("unicornn", {"layers": 4, "skip": 1}, "2 <= skip < layers = 4"),
    ("unicornn", {"layers": 3, "skip": 3}, "2 <= skip < layers = 3"),
    ("irnn", {"train_eta": "time"}, "a length if and only if train_eta='time'"),
    ("irnn", {"length": 3}, "per time step, got length=3"),
    # conflict with the width
    ("irnn", {"rank": 6}, "1 <= rank <= 5"),
]


@pytest.mark.parametrize(("name", "wrong", "complaint"), REFUSED)
def test_wrong_hyper_parameters_are_refused(name, wrong, complaint):
    sentence = f"^{name}: expected .*{complaint}"
    with pytest.raises(ValueError, match=sentence):
        cell_class(name).checked(wrong, D)
    with pytest.raises(ValueError, match=sentence):
        make_cell(name, P, D, **wrong)
    if "rank" in complaint:  # the rank fits a larger width
        cell_class(name).checked(wrong)


EXTREME = [
    ("lem", {"dt": 1e-300}, "dt.*between 1.2e-38 and 3.4e.38 in size, got 1e-300"),
    ("lem", {"dt": 1e-40}, "dt to be a normal number of torch.float32.*got 1e-40"),
    ("lem", {"chrono": 1e300}, "chrono"),
    ("unicornn", {"dt": (0.1, 1e-300)}, "dt"),
    ("cornn", {"gamma": 1e300}, "gamma"),
    ("cornn", {"epsilon": 1e300}, "epsilon"),
    ("antisymmetric", {"epsilon": 1e-300}, "epsilon"),
    ("irnn", {"alpha": 1e300}, "alpha"),
    ("lu_rnn", {"pivot": 1e300}, "pivot"),
]


@pytest.mark.parametrize(("name", "extreme", "complaint"), EXTREME)
def test_settings_that_round_to_zero_or_infinity_are_refused(name, extreme, complaint):
    sentence = f"^{name}: expected {complaint}"
    with pytest.raises(ValueError, match=sentence):
        make_cell(name, P, D, **extreme)
    with pytest.raises(ValueError, match=sentence):  # which computes in float32
        make_cell(name, P, D, dtype=torch.float16, **extreme)
    if "pivot" not in extreme:  # its powers are out of range
        make_cell(name, P, D, dtype=torch.float64, **extreme)


def test_whole_numbers_beyond_all_floats_are_refused():
    with pytest.raises(ValueError, match=r"tau to be a whole number in \[1, 1e15\]"):
        make_cell("lu_rnn", P, D, tau=10**400)
    with pytest.raises(ValueError, match=r"chrono to be a number in \(0, inf\)"):
        make_cell("lem", P, D, chrono=10**400)


@pytest.mark.parametrize("engine", engines_of("lem"))
def test_a_time_step_that_a_conversion_rounds_to_zero_has_zero_gradients(engine):
    cell = make_cell("lem", P, D, dt=1e-300, dtype=torch.float64).float()
    cell(U, engine=engine)[0].sum().backward()
    assert not any(weight.grad.any() for weight in cell.parameters())


@EVERY_CELL
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_falls_back_to_the_reference(name, kind):
    cell = make_cell(name, P, D).to(kind)
    u = random_input().to(kind)
    assert torch.equal(cell(u)[0], cell(u, engine="reference")[0])


@EVERY_CELL
def test_checked_defaults_build_the_same_cell(name):
    defaults = cell_class(name).checked({})
    keywords = cell_class(name).hyper_parameters
    assert all(keyword.admits(defaults[key]) for key, keyword in keywords.items())
    expected = make_cell(name, P, D).eval()
    cell = make_cell(name, P, D, **defaults).eval()
    cell.load_state_dict(expected.state_dict())
    u = torch.randn(4, 3, P)
    assert torch.equal(cell(u)[0], expected(u)[0])


def singular():
    cell = make_cell("inverse_rnn", P, D)
    with torch.no_grad():
        cell.W[:2] = 0
    return cell(random_input())


def set_lu(W):
    make_cell("lu_rnn", 2, 3).set_matrix(W)


def start(name="padding", **settings):
    make_cell("rnn", 2, 3).start(name, **settings)


def half(kind):
    return make_cell("rnn", P, D).to(kind)(random_input().to(kind), engine="numba-cpu")


UNKNOWN = r"unknown architecture 'lstn'; known: antisymm.*lstm"
SIZE = "expected hidden_size to be a positive integer"
HALF = "cannot run rnn: it computes in torch.float32 or torch.float64, the input is torch"
PIVOT = "^lu_rnn: expected .*pivots are at least 0.001 in size"

test_what_cannot_be_made_or_run_is_refused = refused(
    ValueError,
    (UNKNOWN, lambda: cell_class("lstn")),
    (UNKNOWN, lambda: make_cell("lstn", 1, 1)),
    *((SIZE, lambda size=size: make_cell("rnn", 1, size)) for size in (0, -1, 2.5, True)),
    *((HALF, lambda kind=kind: half(kind)) for kind in (torch.float16, torch.bfloat16)),
    ("inverse_rnn: expected an invertible W, got a singular one", singular),
    (r"lu_rnn: expected .*\(3, 3\), got \(3, 4\)", lambda: set_lu(torch.zeros(3, 4))),
    (f"{PIVOT}.* row 0", lambda: set_lu(torch.eye(3)[[1, 0, 2]])),
    (f"{PIVOT}.* row 1", lambda: set_lu(torch.ones(3, 3))),
    (f"{PIVOT}, got nan in row 0", lambda: set_lu(torch.full((3, 3), torch.nan))),
    ("'padding' depends on .* length; give time", lambda: start("padding")),
    ("among paper, author, padding, adding_.* got 'he'", lambda: start("he")),
    ("input_scale to be 1/T or a positive number", lambda: start(input_scale="2/T")),
    ("input_scale to be", lambda: start(input_scale=True)),
    ("one of orthogonal, glorot, got 'he'", lambda: start(initialization="he")),
    ("none, got 'input_scale'", lambda: start("paper", input_scale=1)),
)
