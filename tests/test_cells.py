"""Promises that every cell keeps, properties that papers prove, and initial weights.

Equations are in test_transcriptions.py, section 2.9 of the dissertation in notebook 45, and what
UnICORNN's backward passes store, and lose in float32, in notebook 51.
"""

import math
from types import MappingProxyType

import pytest
import torch
from longrnn import kernels
from longrnn.cells import Cell, cell_class, cell_names, make_cell, unroll
from longrnn.cells._definition import CellDefinitionError
from longrnn.cells._keywords import Number
from longrnn.cells._registry import REGISTRY
from longrnn.cells.lu_rnn import multiply, solve
from longrnn.probes.adjoint import adjoint_norms
from longrnn.probes.coadjoint import coadjoint_loss
from refusals import refused
from study.results.published import load_published

FEATURES = 2
WIDTH = 5
IDENTITY = torch.eye(WIDTH, dtype=torch.float64)


def build(name, **hyper_parameters):
    """Return a cell in float64."""
    torch.manual_seed(0)
    return make_cell(name, FEATURES, WIDTH, **hyper_parameters).double()


def noise(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", cell_names())
def test_a_split_sequence_continues_from_its_state(name):
    cell = build(name)
    u = noise(7, 3, FEATURES)
    whole, end = cell(u, engine="reference")
    first, middle = cell(u[:4], engine="reference")
    second, split_end = cell(u[4:], middle, engine="reference")
    torch.testing.assert_close((torch.cat([first, second]), split_end), (whole, end))


def test_parameter_counts_equal_table_3_3():
    published = load_published("diss-tab-3.3")
    assert len(published) == 28
    for row in published.itertuples():
        cell = make_cell(row.architecture, 1, int(row.width))
        count = sum(parameter.numel() for parameter in cell.parameters())
        assert count == row.parameters, (row.architecture, row.width)


@pytest.mark.parametrize("name", ["rnn", "lu_rnn", "inverse_rnn"])
def test_relu_runs_the_reference_only(name):
    cell = build(name, activation="relu")
    tanh = build(name)
    u = noise(1, 3, FEATURES)
    assert tanh.engine_for("auto") == "auto"
    assert cell.engine_for("auto") == "reference"
    outputs, _ = cell(u)
    before_tanh = torch.atanh(tanh(u, engine="reference")[0])
    assert outputs.min() == 0
    assert outputs.max() > 0
    torch.testing.assert_close(outputs, torch.relu(before_tanh))
    with pytest.raises(ValueError, match=f"'numba-cpu' cannot run {name}: .*another step"):
        cell(u, engine="numba-cpu")
    assert cell.step == build(name, activation="relu").step, "equal networks train in one batch"


def halved(step):
    """Return a step whose output is half of another's."""

    def half(weights, state, u):
        output, *others = step(weights, state, u)
        return output / 2, *others

    return half


@pytest.mark.parametrize("how", ["subclass", "cell", "class"])
@pytest.mark.parametrize("name", ["lem", "lstm", "rnn"])
def test_a_replaced_step_is_what_runs(name, how, monkeypatch):
    cell_type = cell_class(name)
    other = halved(cell_type.step)
    if how == "subclass":
        cell = type("Halved", (cell_type,), {"step": staticmethod(other)})(FEATURES, WIDTH)
    elif how == "cell":
        cell = cell_type(FEATURES, WIDTH)
        cell.step = other
    else:
        cell = cell_type(FEATURES, WIDTH)
        monkeypatch.setattr(cell_type, "step", staticmethod(other))
    cell = cell.double()
    u = noise(6, 3, FEATURES)
    outputs, state = cell(u)
    expected, expected_state = unroll(other, cell.weights(), cell.initial_state(3), u)
    torch.testing.assert_close((outputs, state), (expected, expected_state))
    for engine in kernels.engine_names(name)[1:]:
        with pytest.raises(ValueError, match=f"{engine!r} cannot run {name}: .*another step"):
            cell(u, engine=engine)

    def losses(x):
        return x.square().sum(1)

    measured = adjoint_norms(cell, u, losses)
    assert torch.equal(measured.full, adjoint_norms(cell, u, losses, engine="reference").full)
    penalized = coadjoint_loss(cell, u, losses, kappa=1.0)
    by_reference = coadjoint_loss(cell, u, losses, kappa=1.0, engine="reference")
    torch.testing.assert_close(penalized.total, by_reference.total)


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("antisymmetric", "epsilon", 0.5),
        ("cornn", "dt", 0.3),
        ("dt_lstm", "dt", 0.4),
        ("gated_antisymmetric", "gamma", 0.2),
        ("irnn", "alpha", 0.8),
        ("lem", "dt", 0.3),
        ("lipschitz", "beta", 0.6),
        ("lu_rnn", "tau", 2),
        ("unicornn", "dt", 0.05),
    ],
)
def test_a_setting_may_change_between_runs(name, setting, value):
    cell = build(name)
    expected = build(name, **{setting: value})
    expected.load_state_dict(cell.state_dict())
    u = noise(6, 3, FEATURES)
    before, _ = cell(u)
    setattr(cell, setting, value)
    assert not torch.equal(cell(u)[0], before)
    for engine in kernels.engine_names(name):
        if kernels.can_run(name, engine, "cpu"):
            torch.testing.assert_close(cell(u, engine=engine), expected(u, engine="reference"))


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("antisymmetric", "epsilon", 0.5),
        ("cornn", "dt", 0.3),
        ("cornn", "gamma", 2.0),
        ("dt_lstm", "dt", 0.4),
        ("irnn", "alpha", 0.8),
        ("lem", "dt", 0.3),
        ("unicornn", "alpha", 0.5),
    ],
)
def test_a_number_can_be_trained(name, setting, value):
    cell = build(name)
    number = torch.nn.Parameter(torch.tensor(value, dtype=torch.float64))
    setattr(cell, setting, number)
    u = noise(6, 3, FEATURES)

    def loss(number):
        outputs, _ = torch.func.functional_call(cell, {setting: number}, (u,))
        return outputs.square().sum()

    assert torch.autograd.gradcheck(loss, (number,))
    for engine in kernels.engine_names(name)[1:]:
        message = f"{engine!r} cannot run {name}: its {setting} is a tensor.*use engine='auto'"
        with pytest.raises(ValueError, match=message):
            cell(u, engine=engine)


def test_irnn_refuses_sequences_longer_than_its_step_sizes():
    cell = build("irnn", train_eta="time", length=6)
    _, state = cell(noise(4, 1, FEATURES))
    assert torch.equal(state[1], torch.full((1, WIDTH), 4.0, dtype=torch.float64))
    cell(noise(2, 1, FEATURES), state)
    with pytest.raises(ValueError, match="at most length=6 time steps.*got 7; build it"):
        cell(noise(3, 1, FEATURES), state)


@pytest.mark.parametrize("d", [5, 6])
def test_exponential_rnn_stays_orthogonal_in_training(d):
    cell = make_cell("exponential", FEATURES, d).double()
    angles = torch.linspace(-3, 2, d // 2, dtype=torch.float64)
    A = torch.zeros(d, d, dtype=torch.float64)
    A.diagonal(-1)[::2] = angles
    with torch.no_grad():
        cell._rotate(angles)
    before = cell.B.detach().clone()
    torch.testing.assert_close(before, torch.linalg.matrix_exp(A - A.T), atol=1e-12, rtol=0)
    optimizer = torch.optim.Adam(cell.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        outputs, _ = cell(torch.ones(6, 1, FEATURES, dtype=torch.float64))
        outputs.square().sum().backward()
        optimizer.step()
    after = cell.B.detach()
    identity = torch.eye(d, dtype=torch.float64)
    torch.testing.assert_close(after @ after.T, identity, atol=1e-12, rtol=0)
    assert (after - before).abs().max() > 0.05, "training did not move the matrix"


@pytest.mark.parametrize("pivots", ["as drawn", "zero", "tiny and negative"])
def test_lu_rnn_inverse_undoes_its_matrix(pivots):
    cell = build("lu_rnn", pivot=1e-2)
    with torch.no_grad():
        cell.factors.normal_()
        if pivots == "zero":
            cell.factors.diagonal()[::2] = 0.0
        elif pivots == "tiny and negative":
            cell.factors.diagonal()[::2] = -1e-9
    L, U, *_ = cell.weights()
    assert U.diagonal().abs().min() >= 1e-2
    assert pivots != "zero" or (U.diagonal()[::2] > 0).all()
    precision = {"atol": 1e-14 * torch.linalg.cond(L @ U).item(), "rtol": 0}
    torch.testing.assert_close(multiply(L, U, solve(L, U, IDENTITY)), IDENTITY, **precision)
    torch.testing.assert_close(solve(L, U, multiply(L, U, IDENTITY)), IDENTITY, **precision)
    U.sum().backward()
    assert cell.factors.grad.isfinite().all()
    learns = cell.factors.grad.diagonal() != 0
    assert learns.all() or pivots == "zero"


def test_lu_rnn_factors_reproduce_a_given_matrix():
    cell = make_cell("lu_rnn", 2, 5, pivot=0.05).double()
    generator = torch.Generator().manual_seed(2)
    W = torch.eye(5).double() + 0.2 * torch.randn(5, 5, dtype=torch.float64, generator=generator)
    W[0] *= -1  # a negative pivot
    cell.set_matrix(W)
    L, U, *_ = cell.weights()
    torch.testing.assert_close(L @ U, W)
    assert U[0, 0] < 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_lu_rnn_keeps_the_sign_of_the_smallest_pivot(dtype):
    cell = make_cell("lu_rnn", 2, 3, pivot=0.5).to(dtype)
    W = torch.diag(torch.tensor([-0.5, 0.5, -2.0], dtype=dtype))
    cell.set_matrix(W)
    L, U, *_ = cell.weights()
    torch.testing.assert_close(L @ U, W)


P = 3
D = 200
T = 50
STARTS = [(name, start) for name in cell_names() for start in cell_class(name).starts]


def started(name, start, p=P, d=D, **hyper_parameters):
    """Return a cell with p features and width d whose weights were drawn by a start."""
    torch.manual_seed(0)
    return make_cell(name, p, d, **hyper_parameters).start(start, time_steps=T)


def test_start_paper_repeats_the_constructors_initialization():
    for name in cell_names():
        torch.manual_seed(5)
        built = make_cell(name, 2, 6).state_dict()
        cell = make_cell(name, 2, 6)
        torch.manual_seed(5)
        for label, weights in cell.start("paper").state_dict().items():
            assert torch.equal(weights, built[label]), (name, label)
    torch.manual_seed(5)
    expected = [torch.empty(shape).uniform_(-0.5, 0.5) for shape in ((4, 4), (4, 2), (4,))]
    expected += [torch.randn(4, 4) / math.sqrt(4), torch.randn(4, 2) / math.sqrt(2), torch.zeros(4)]
    torch.manual_seed(5)
    rnn = make_cell("rnn", 2, 4)
    antisymmetric = make_cell("antisymmetric", 2, 4)
    drawn = (rnn.W, rnn.R, rnn.b, antisymmetric.M, antisymmetric.R, antisymmetric.b)
    assert all(map(torch.equal, drawn, expected))


@pytest.mark.parametrize(("name", "start"), STARTS)
def test_initialization_follows_seed_and_keeps_dtype(name, start):
    first = started(name, start, 2, 6).state_dict()
    same = started(name, start, 2, 6).state_dict()
    cell = make_cell(name, 2, 6).double().start(start, time_steps=T)  # the generator has moved on
    other = cell.state_dict()
    torch.testing.assert_close(first, same, rtol=0, atol=0)
    assert all(weights.dtype == torch.float64 for weights in other.values())
    assert any(not torch.equal(first[label].double(), other[label]) for label in first)
    assert cell(torch.ones(2, 1, 2).double(), engine="reference")[0].isfinite().all()


UNIFORM = 1 / math.sqrt(3 * D)
"""Standard deviation of U(-1/sqrt(d), 1/sqrt(d))."""
CAYLEY = -2 * math.log(2) / math.pi
"""Mean of -tan(theta / 2), theta uniform in (0, pi / 2)."""


def glorot(columns, rows):
    """Return the standard deviation of Glorot's uniform distribution."""
    return math.sqrt(2 / (columns + rows))


SPREADS = [
    # cell, start, its settings, weights, their standard deviation
    ("rnn", "author", {}, "R", glorot(P, D)),
    ("lstm", "author", {}, "R", glorot(P, 4 * D)),
    ("gru", "author", {}, "R", glorot(P, 3 * D)),
    ("antisymmetric", "author", {"p": 50}, "M", 0.01 / D),
    ("antisymmetric", "author", {"p": 50}, "R", 1 / 50),
    ("lipschitz", "paper", {}, "M_A M_W", 0.1 / D),
    ("lipschitz", "author", {}, "M_A M_W", 0.1 / 128),  # at every width
    ("lipschitz", "author", {}, "R", glorot(P, D)),
    ("exponential", "paper", {"p": 50}, "R", math.sqrt(2 / 50)),
    ("exponential", "author", {"p": 50}, "R", 1 / 50),
    ("exponential", "author", {"p": 50}, "b", 0.01 / math.sqrt(3)),
    ("unicornn", "paper", {"p": D}, "V.0 V.1", math.sqrt(2 / 65 / D)),
    ("unicornn", "author", {"p": D}, "V.0 V.1", math.sqrt(2 / D)),
    ("unicornn", "paper", {}, "c.0 c.1", 0.1 / math.sqrt(3)),
    ("unicornn", "paper", {}, "w.0 w.1", 1 / math.sqrt(12)),
    ("lem", "paper", {}, "W W_y V b", UNIFORM),
    ("lem", "author", {}, "W W_y V", UNIFORM),
    ("lem", "author", {}, "b", math.sqrt(2) * UNIFORM),
    ("cornn", "author", {"p": 1, "d": 256}, "W W_z V", 0.0255),
    ("sru", "paper", {}, "v.0", 1 / math.sqrt(D)),
    ("sru", "paper", {"p": D}, "W.0", 1 / math.sqrt(D)),
    ("fastrnn", "author", {}, "U W", 0.1),
    ("fastgrnn", "author", {}, "U W", 0.1),
    ("irnn", "paper", {}, "U", 1 / (4 * math.sqrt(D))),
    ("irnn", "author", {}, "U W", 0.1),
    ("irnn", "author", {"rank": 30}, "V H W", 0.1),
    ("rnn", "padding", {}, "R", 1 / T),
    ("lu_rnn", "adding_author", {"p": 2}, "R", 1 / T),
    ("rnn", "adding_author", {"p": 2}, "R", 1 / T),
    ("rnn", "adding_paper", {"p": 2}, "R", 1 / math.sqrt(6)),
]


@pytest.mark.parametrize(("name", "start", "settings", "weights", "expected"), SPREADS)
def test_weights_have_the_documented_spread(name, start, settings, weights, expected):
    parameters = dict(started(name, start, **settings).named_parameters())
    for label in weights.split():
        assert parameters[label].std().item() == pytest.approx(expected, rel=0.12), label


VALUES = [
    ("rnn", "author", {}, "b", 0),
    ("antisymmetric", "author", {}, "b", 0),
    ("fastrnn", "author", {}, "b", 1),
    ("fastgrnn", "author", {}, "b_z", 1),
    ("fastgrnn", "paper", {}, "nu_free", -4),
    ("irnn", "author", {}, "b", 0),
    ("irnn", "author", {"eta": 0.3}, "eta", 0.3),
    ("fastrnn", "paper", {}, "beta_free", 3),
    ("fastrnn", "paper", {"eta": 0.01}, "alpha_free", math.log(0.01 / 0.99)),
    ("fastrnn", "paper", {"eta": 0.01}, "beta_free", math.log(0.99 / 0.01)),
]


@pytest.mark.parametrize(("name", "start", "settings", "weights", "expected"), VALUES)
def test_constant_weights_have_the_documented_values(name, start, settings, weights, expected):
    drawn = dict(started(name, start, **settings).named_parameters())[weights].detach()
    torch.testing.assert_close(drawn, torch.full_like(drawn, expected))


@pytest.mark.parametrize(
    ("name", "start", "gates"),
    [
        ("rnn", "author", 1),
        ("rnn", "padding", 1),
        ("rnn", "adding_author", 1),
        ("rnn", "adding_library", 1),
        ("rnn", "adding_paper", 1),
        ("lu_rnn", "adding_author", 1),
        ("lu_rnn", "adding_library", 1),
        ("lu_rnn", "adding_paper", 1),
        ("inverse_rnn", "paper", 1),
        ("inverse_rnn", "adding_author", 1),
        ("exponential", "paper", 1),
        ("gru", "author", 1),
        ("lstm", "author", 1),
        ("lstm", "adding_author", 1),
        ("lstm", "adding_paper", 4),
        ("lstm", "adding_identity", 4),
    ],
)
def test_recurrent_matrices_are_orthogonal(name, start, gates):
    cell = started(name, start, p=2)
    weights = cell.weights()
    if name == "lu_rnn":
        W = weights.L @ weights.U
    elif name == "exponential":
        W = weights.B
    else:
        W = weights.W
    for block in W.detach().chunk(gates):
        torch.testing.assert_close(block.T @ block, torch.eye(D), atol=1e-4, rtol=0)
    if name in ("lstm", "rnn") and start in ("author", "adding_author", "adding_library"):
        biases = torch.zeros_like(cell.b)
        if name == "lstm":
            biases[D : 2 * D] = 1  # of the forget gates
        assert torch.equal(cell.b, biases)
    if start == "adding_author" and name != "lstm":
        # The first state is trained, but not the count of steps of the LU and inverse RNN.
        assert [part.requires_grad for part in cell.x0] == [True, False][: cell.states]
    else:
        assert cell.x0 is None


def test_adding_paper_biases_cancel_the_mean_input():
    cell = started("lstm", "adding_paper", p=2, d=20)
    forget = torch.tensor([0.0, 1, 0, 0]).repeat_interleave(20)
    torch.testing.assert_close(cell.R @ torch.tensor([0.5, 2 / T]) + cell.b, forget)
    assert torch.equal(started("rnn", "adding_identity", p=2, d=20).W, torch.eye(20))
    with pytest.raises(ValueError, match="a value and a mark, got 3 features"):
        started("rnn", "adding_paper", p=3)


def test_padding_initialization_follows_its_settings():
    settings = {"initialization": "glorot", "input_scale": "0.1"}
    cell = make_cell("lstm", P, 20).start("padding", time_steps=40, **settings)
    assert cell.R.std().item() == pytest.approx(0.1 * glorot(P, 80), rel=0.1)
    assert cell.W.std().item() == pytest.approx(glorot(20, 80), rel=0.05)
    assert cell.b[20:40].tolist() == [1] * 20
    assert cell.b.sum() == 20


def test_exponential_author_initialization_has_small_angles():
    B = started("exponential", "author").B.detach()
    angles = torch.atan2(B.diagonal(-1)[::2], B.diagonal()[::2])
    assert (angles < 0).all()
    assert (angles >= -1).all()
    assert angles.mean().item() == pytest.approx(CAYLEY, rel=0.1)


def test_chrono_initialization_covers_the_time_scales():
    torch.manual_seed(0)
    i, f, g, o = make_cell("chrono_lstm", 1, 4000, chrono=100).b.detach().chunk(4)
    assert torch.equal(i, -f)
    assert not g.any()
    assert not o.any()
    b_1, *others = make_cell("lem", 1, 4000, dt=0.5, chrono=100).b.detach().chunk(4)
    assert not torch.stack(others).any()
    for times, longest in ((f.exp(), 99), ((-b_1).exp(), 49)):  # uniform before the logarithm
        assert 1 <= times.min() < 1.1
        assert 0.995 * longest < times.max() <= longest
        assert times.mean().item() == pytest.approx((1 + longest) / 2, rel=0.05)


def test_sru_keeps_the_variance_of_its_input():
    torch.manual_seed(0)
    cell = make_cell("sru", 200, 200)
    outputs, _ = cell(torch.randn(1, 300, 200))  # the scaling correction is made for one step
    assert outputs.std().item() == pytest.approx(1, rel=0.15)


def test_only_lems_author_initialization_scales_learning_rates():
    scaled = {}
    for name, start in STARTS:
        factors = dict(cell_class(name).starts[start].step_factors)
        if factors:
            scaled[name, start] = factors
    assert scaled == {("lem", "author"): {"b": 2.0}}


def test_training_the_initial_state_twice_keeps_it():
    cell = make_cell("lem", 2, 3)
    cell.train_initial_state()
    with torch.no_grad():
        cell.x0[0].fill_(2.0)
    cell.train_initial_state()
    assert (cell.x0[0] == 2).all()


class Defined:
    """The parts of a small cell, of which a test leaves one out or writes another one."""

    title = "mean"
    source = "none"
    shapes = MappingProxyType({"R": "d p"})
    hyper_parameters = MappingProxyType({"alpha": Number(0.5, "(0, 1]")})
    Weights = "R alpha"

    @staticmethod
    def step(weights, state, u):
        R, alpha = weights
        (x,) = state
        return ((1 - alpha) * x + alpha * (u @ R.T),)


def run_with(without=(), **parts):
    """Return a call that defines a cell from `Defined` with some other parts, and runs one step."""

    def call(monkeypatch):
        monkeypatch.setitem(REGISTRY, "mean", None)  # so that the test's cell is removed afterward
        del REGISTRY["mean"]
        common = {key: value for key, value in vars(Defined).items() if not key.startswith("__")}
        body = {key: value for key, value in (common | parts).items() if key not in without}
        kind = type(Cell)("MeanCore", (Cell,), body | {"__module__": __name__}, name="mean")
        kind(FEATURES, WIDTH)(torch.zeros(1, 3, FEATURES))

    return call


def test_the_base_class_of_cells_says_what_to_build():
    with pytest.raises(TypeError, match=r"^Cell is the base class .* such as make_cell\('lem', "):
        Cell(FEATURES, WIDTH)


def test_a_cell_without_a_name_is_refused():
    class Nameless(Cell):
        pass

    with pytest.raises(TypeError, match=r"^Nameless has no name; define it as class "):
        Nameless(FEATURES, WIDTH)


def returns(change):
    """Return a step that changes what it returns."""
    return staticmethod(lambda weights, state, u: change(Defined.step(weights, state, u)))


test_mistakes_in_the_definition_of_a_cell_are_named = refused(
    CellDefinitionError,
    ("^the cell 'mean' has no title; give its name in prose$", run_with({"title"})),
    ("^the cell 'mean' has no source; give paper and equation$", run_with({"source"})),
    ("^the cell 'mean' has no step; define ", run_with({"step"})),
    ("^the step of the cell 'mean' is a method; put @staticmethod", run_with(step=lambda *a: a)),
    ("'mean' has no shapes; give them", run_with({"shapes"})),
    ("'mean' has no Weights; name there .* among R, alpha$", run_with({"Weights"})),
    ("name 'W'; expected .* among R, alpha$", run_with(Weights="R alpha W")),
    ("name 'alpha'; expected .* among R$", run_with({"hyper_parameters"})),
    ("shape 'd q'; expected d .units., p .*instead of 'q'$", run_with(shapes={"R": "d q"})),
    ("declares alpha as 0.5; expected a Number", run_with(hyper_parameters={"alpha": 0.5})),
    (
        r"alpha to be a number in \(0, 1\], but its default is 2$",
        run_with(hyper_parameters={"alpha": Number(2, "(0, 1]")}),
    ),
    (r"returned a Tensor; .*, here \(3, 5\); write `", run_with(step=returns(lambda new: new[0]))),
    ("returned a NoneType; expected a tuple of 1 ", run_with(step=returns(lambda new: None))),
    (r"a tuple of 2 with the shapes \(3, 5\), \(3, 5\); ", run_with(step=returns(lambda s: s + s))),
    (r"a tuple of 1 with the shapes \(3, 2\); ", run_with(step=returns(lambda s: (s[0][:, :2],)))),
)


def test_the_complete_definition_runs(monkeypatch):
    run_with()(monkeypatch)


def test_an_interval_is_written_like_one():
    with pytest.raises(ValueError, match=r"expected an interval such as '\(0, 2\]', got '0, 1'"):
        Number(0.5, "0, 1")
