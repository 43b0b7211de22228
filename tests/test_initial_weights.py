"""How weights start: by name, drawn as the texts or their authors' programs draw them."""

import math

import pytest
import torch

from lib.cells import cell_class, cell_names, check_start, make_cell
from lib.cells.unicornn import UnICORNN

P, D = 3, 200
STARTS = [(name, start) for name in cell_names() for start in cell_class(name).starts]


def started(cell, start, p=P, d=D, **hyper_parameters):
    torch.manual_seed(0)
    return make_cell(cell, p, d, **hyper_parameters).start(start, time_steps=50)


def spread(weights):
    return weights.std().item()


def test_every_cell_has_the_start_of_its_text():
    assert all("text" in cell_class(name).starts for name in cell_names())


@pytest.mark.parametrize("name", cell_names())
def test_the_constructor_draws_the_start_called_text(name):
    torch.manual_seed(5)
    built = make_cell(name, 2, 6).state_dict()
    cell = make_cell(name, 2, 6)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.fill_(7)
    torch.manual_seed(5)
    for label, weights in cell.start("text").state_dict().items():
        assert torch.equal(weights, built[label]), label


def test_text_draws_what_stored_runs_drew():
    torch.manual_seed(5)
    expected = [torch.empty(shape).uniform_(-0.5, 0.5) for shape in ((4, 4), (4, 2), (4,))]
    expected += [torch.randn(4, 4) / math.sqrt(4), torch.randn(4, 2) / math.sqrt(2), torch.zeros(4)]
    torch.manual_seed(5)
    rnn, antisymmetric = make_cell("rnn", 2, 4), make_cell("antisymmetric", 2, 4)
    found = (rnn.W, rnn.R, rnn.b, antisymmetric.M, antisymmetric.R, antisymmetric.b)
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize(("name", "start"), STARTS)
def test_starts_are_finite_and_follow_the_seed(name, start):
    first, same = (started(name, start, 2, 6).state_dict() for _ in range(2))
    assert all(torch.equal(first[label], same[label]) for label in first)
    assert all(weights.isfinite().all() for weights in first.values())
    other = (
        make_cell(name, 2, 6).start(start, time_steps=50).state_dict()
    )  # the generator has moved on
    assert any(not torch.equal(first[label], other[label]) for label in first)


@pytest.mark.parametrize(("name", "start"), STARTS)
def test_starts_keep_the_type_of_the_cell(name, start):
    cell = make_cell(name, 2, 6).double().start(start, time_steps=50)
    assert all(parameter.dtype == torch.float64 for parameter in cell.parameters())
    assert cell(torch.ones(2, 1, 2, dtype=torch.float64), engine="reference")[0].isfinite().all()


def test_an_unknown_start_lists_those_of_the_cell():
    with pytest.raises(
        ValueError, match="lstm: expected initial weights among text, author, library, .* got 'he'"
    ):
        make_cell("lstm", 1, 2).start("he")


@pytest.mark.parametrize(("name", "gates"), [("rnn", 1), ("lstm", 4), ("gru", 3)])
def test_the_author_draws_basic_cells_as_keras_does(name, gates):
    cell = started(name, "author")
    torch.testing.assert_close(cell.W.T @ cell.W, torch.eye(D), atol=1e-5, rtol=0)
    glorot = math.sqrt(6 / (P + gates * D))
    assert cell.R.abs().max().item() == pytest.approx(glorot, rel=0.02)
    forget = cell.b[D : 2 * D] if name == "lstm" else cell.b[:0]
    assert (forget == 1).all() and cell.b.sum() == len(forget)


def test_the_authors_antisymmetric_and_lipschitz_start_near_zero():
    cell = started("antisymmetric", "author", p=50)
    assert spread(cell.M) == pytest.approx(0.01 / D, rel=0.05)
    assert spread(cell.R) == pytest.approx(1 / 50, rel=0.05) and not cell.b.any()
    cell = started("lipschitz", "author")
    assert spread(cell.M_A) == pytest.approx(0.1 / 128, rel=0.05)  # at every width
    assert spread(cell.M_W) == pytest.approx(0.1 / 128, rel=0.05)
    assert cell.R.abs().max().item() == pytest.approx(math.sqrt(6 / (P + D)), rel=0.02)
    cell = started("lipschitz", "original", p=1)
    assert spread(cell.R) == pytest.approx(1 / math.sqrt(3), rel=0.1)
    assert spread(cell.b) == pytest.approx(1 / math.sqrt(3), rel=0.1)


@pytest.mark.parametrize("d", [6, 7])
def test_the_exponential_starts_alike_under_both_trivialisations(d):
    starts = []
    for trivialization in ("dynamic", "static"):
        cell = make_cell("exponential", 2, d, trivialization=trivialization)
        torch.manual_seed(3)
        starts.append(cell.start("original").B.detach())
    torch.testing.assert_close(*starts)


@pytest.mark.parametrize(("start", "std"), [("author", 1 / 50), ("original", math.sqrt(2 / 50))])
def test_the_exponential_starts_at_rotations_by_less_than_one(start, std):
    cell = started("exponential", start, p=50)
    B = cell.B.detach()
    torch.testing.assert_close(B.T @ B, torch.eye(D), atol=1e-5, rtol=0)
    angles = torch.atan2(B.diagonal(-1)[::2], B.diagonal()[::2])
    assert (angles < 0).all() and (angles >= -1).all()
    # -tan(theta / 2), theta uniform up to pi / 2: the mean of the tangent is 2 log(2) / pi
    assert angles.mean().item() == pytest.approx(-2 * math.log(2) / math.pi, rel=0.1)
    assert 0.009 < cell.b.abs().max() <= 0.01 and cell.b.min() < 0 < cell.b.max()
    assert spread(cell.R) == pytest.approx(std, rel=0.05)


def test_the_authors_unicornn_drives_its_layers_harder():
    text, author = (started("unicornn", start) for start in ("text", "author"))
    assert isinstance(author, UnICORNN)
    for theirs, ours in zip(author.V, text.V, strict=True):
        torch.testing.assert_close(theirs, ours * math.sqrt(65))
    assert all(0 <= w.min() < 0.05 and 0.95 < w.max() < 1 for w in author.w)
    assert all(0.09 < c.abs().max() <= 0.1 for c in author.c)


def test_two_biases_are_drawn_as_their_sum():
    text, author = (started("lem", start) for start in ("text", "author"))
    assert spread(text.b) == pytest.approx(1 / math.sqrt(3 * D), rel=0.05)
    assert spread(author.b) == pytest.approx(math.sqrt(2) / math.sqrt(3 * D), rel=0.05)
    assert torch.equal(text.W, author.W)


def test_cornn_starts_as_one_linear_layer_of_input_and_both_states():
    cell = started("cornn", "author", p=1, d=256)
    assert spread(cell.W) == pytest.approx(0.0255, rel=0.02)
    assert spread(cell.W_z) == pytest.approx(0.0255, rel=0.02)


def test_the_authors_sru_reads_its_state_more_than_its_input():
    cell = started("sru", "author")
    assert spread(cell.v[0]) == pytest.approx(math.sqrt(0.5), rel=0.05)
    f, candidate, r = cell.W[0].detach().chunk(3)
    assert spread(f) == pytest.approx(math.sqrt(0.5) * spread(candidate), rel=0.1)
    assert spread(r) == pytest.approx(math.sqrt(0.5) * spread(candidate), rel=0.1)


@pytest.mark.parametrize(
    ("name", "variant", "matrices", "bias"),
    [
        ("fastrnn", {}, lambda cell: [cell.U], 1),
        ("fastgrnn", {"rank_U": 30}, lambda cell: list(cell.U), 1),
        ("irnn", {}, lambda cell: [cell.U], 0),
        ("irnn", {"rank": 30}, lambda cell: [cell.V, cell.H], 0),
    ],
)
def test_matrices_start_at_a_tenth(name, variant, matrices, bias):
    cell = started(name, "author", **variant)
    for matrix in (*matrices(cell), cell.W[0] if name == "fastgrnn" else cell.W):
        assert spread(matrix) == pytest.approx(0.1, rel=0.06)
    assert (getattr(cell, "b_h" if name == "fastgrnn" else "b") == bias).all()


def test_programs_with_two_biases_move_their_sum_twice_as_far():
    factors = {
        (name, start): dict(cell_class(name).starts[start].step_factors)
        for name, start in STARTS
        if cell_class(name).starts[start].step_factors
    }
    two = {"b": 2.0}
    assert factors == {("lem", "author"): two, ("lstm", "library"): two, ("gru", "library"): two}


@pytest.mark.parametrize(("name", "start"), [("lem", "author"), ("lstm", "library")])
def test_a_step_factor_is_what_two_summed_biases_make_of_adam(name, start):
    cell = started(name, start, d=8).double()
    u = torch.randn(5, 3, P, dtype=torch.float64)
    halves = [torch.nn.Parameter(cell.b.detach() / 2) for _ in range(2)]
    rest = [part for label, part in cell.named_parameters() if label != "b"]
    twin = started(name, start, d=8).double()
    of_twin = [part for label, part in twin.named_parameters() if label != "b"]
    factor = cell_class(name).starts[start].step_factors["b"]
    one = torch.optim.Adam([{"params": of_twin}, {"params": [twin.b], "lr": factor * 0.01}], 0.01)
    two = torch.optim.Adam(rest + halves, 0.01)
    for _ in range(5):
        for optimiser in (one, two):
            optimiser.zero_grad()
        twin(u)[0].square().sum().backward()
        weights = {label: part for label, part in cell.named_parameters() if label != "b"}
        weights["b"] = halves[0] + halves[1]
        torch.func.functional_call(cell, weights, (u,))[0].square().sum().backward()
        one.step(), two.step()
    torch.testing.assert_close(twin.b, halves[0] + halves[1], atol=1e-9, rtol=0)
    torch.testing.assert_close(twin.W, cell.W, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["rnn", "lu_rnn", "inverse_rnn"])
def test_the_adding_problems_author_starts_almost_linear(name):
    cell = started(name, "adding_author", p=2)
    L_U = cell.weights()
    W = L_U.L @ L_U.U if name == "lu_rnn" else cell.W
    torch.testing.assert_close(W @ W.T, torch.eye(D), atol=1e-4, rtol=0)
    assert spread(cell.R) == pytest.approx(1 / 50, rel=0.1) and not cell.b.any()
    assert [part.requires_grad for part in cell.x0] == [True, False][: cell.states]


def test_the_adding_problems_other_starts():
    for like in ("text", "library", "identity"):
        cell = started("rnn", f"adding_{like}", p=2, d=20)
        torch.testing.assert_close(cell.W @ cell.W.T, torch.eye(20), atol=1e-5, rtol=0)
        assert (like == "identity") == torch.equal(cell.W, torch.eye(20)) and cell.x0 is None
    cell = started("lstm", "adding_text", p=2, d=20)
    mean = torch.tensor([0.5, 2 / 50])
    forget = torch.cat([part * torch.ones(20) for part in (0, 1, 0, 0)])
    torch.testing.assert_close(cell.R @ mean + cell.b, forget)
    assert cell.R.abs().max() <= 1 / math.sqrt(2)
    with pytest.raises(ValueError, match="a value and a mark, got 3 features"):
        started("rnn", "adding_text", p=3)


def test_padding_starts_as_its_settings_say():
    settings = {"initialisation": "glorot", "input_scale": "0.1"}
    cell = make_cell("lstm", P, 20).start("padding", time_steps=40, **settings)
    limit = math.sqrt(6 / (P + 80))
    assert cell.R.abs().max().item() == pytest.approx(0.1 * limit, rel=0.05)
    assert cell.W.abs().max().item() == pytest.approx(math.sqrt(6 / 100), rel=0.05)
    assert cell.b[20:40].tolist() == [1] * 20 and cell.b.sum() == 20
    cell = make_cell("rnn", P, D).start("padding", time_steps=40)
    assert spread(cell.R) == pytest.approx(1 / 40, rel=0.1)
    torch.testing.assert_close(cell.W @ cell.W.T, torch.eye(D), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("start", "settings", "complaint"),
    [
        ("adding_author", {}, "'adding_author' depends on the sequences' length; give time_steps"),
        ("padding", {"input_scale": "2/T"}, "input_scale to be 1/T or a positive number"),
        ("padding", {"input_scale": True}, "input_scale to be"),
        ("padding", {"initialisation": "he"}, "one of orthogonal, glorot, got 'he'"),
        ("text", {"input_scale": 1}, "hyper-parameters among none, got 'input_scale'"),
    ],
)
def test_starts_that_lack_something_are_refused(start, settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        make_cell("rnn", 2, 3).start(start, **settings)
    if settings:
        with pytest.raises(ValueError, match=complaint):
            check_start("rnn", start, settings)
    else:
        assert check_start("rnn", start) and not check_start("rnn", "author")
