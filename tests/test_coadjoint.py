"""The coadjoint method: double backward and the fused engine are one gradient; notebook 40 holds it to Algorithm 2 and (2.21)."""

import pytest
import torch
from torch.nn import functional as F

from lib import kernels
from lib.cells import cell_names, make_cell
from lib.probes import Diverged
from lib.probes.coadjoint import coadjoint_loss, scaled_variance, soft_orthogonality

TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-4}
KINKED = {"exponential": {}, "indrnn": {}, "irnn": {}, "rnn": {"activation": "relu"}}
both_engines = pytest.mark.parametrize("engine", ["reference", "numba-cpu"])


class Case:
    """A network with an output layer and labels of two classes."""

    def __init__(self, name, sizes, dtype=torch.float64):
        self.T, self.batch, hidden, inputs = sizes
        torch.manual_seed(sum(sizes))
        self.cell = make_cell(name, inputs, hidden).to(dtype)
        self.output = torch.nn.Linear(hidden, 2).to(dtype)
        self.u = torch.randn(self.T, self.batch, inputs, dtype=dtype)
        self.labels = torch.randint(0, 2, (self.batch,))
        self.parameters = [*self.cell.parameters(), *self.output.parameters()]

    def losses(self, x):
        return F.cross_entropy(self.output(x), self.labels, reduction="none")

    def penalised(self, kappa=3.0, **more):
        return coadjoint_loss(self.cell, self.u, self.losses, kappa=kappa, **more)

    def gradient(self, **more):
        total = self.penalised(**more).total
        how = {"allow_unused": True, "materialize_grads": True}
        found = torch.autograd.grad(total, self.parameters, **how)
        return dict(zip(("W", "R", "b_1", "V", "b_2"), found, strict=True))


def assert_equal(found, expected, tolerance):
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


SIZES = [(1, 1, 1, 1), (1, 4, 3, 2), (2, 1, 5, 1), (38, 5, 11, 4), (140, 32, 20, 28)]
"""T, batch, hidden, input."""


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_fused_engine_equals_double_backward(sizes, dtype):
    case = Case("rnn", sizes, dtype)
    assert kernels.engine_names("rnn/adjoints") == ["reference", "numba-cpu"]
    expected = case.gradient(engine="reference")
    assert_equal(case.gradient(engine="numba-cpu"), expected, TOLERANCE[dtype])
    case.u.requires_grad_()
    totals = [case.penalised(engine=engine).total for engine in ("numba-cpu", "reference")]
    by_input = [torch.autograd.grad(total, case.u)[0] for total in totals]
    torch.testing.assert_close(*by_input, rtol=10 * TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_engines_agree_on_adjoints_of_zero_too():
    case = Case("rnn", (17, 3, 6, 2))
    with_penalty, plain = (case.gradient(kappa=k, engine="reference") for k in (3.0, 0.0))
    assert (with_penalty["W"] - plain["W"]).abs().max() > 1e-6  # the penalty does count
    torch.nn.init.zeros_(case.output.weight)
    expected = case.gradient(engine="reference")
    assert all(part.isfinite().all() for part in expected.values())
    assert_equal(case.gradient(engine="numba-cpu"), expected, 1e-12)


@pytest.mark.parametrize("name", sorted({*cell_names()} - {*KINKED} | {"rnn"}))
def test_any_smooth_cell_has_the_gradient_of_finite_differences(name):
    case = Case(name, (5, 3, 4, 2))
    parameters = [p for p in case.parameters if p.requires_grad]

    def total(*_):  # of the parameters, which are moved where they lie
        return case.penalised(kappa=5.0, engine="reference").total

    how = {"eps": 1e-5, "rtol": 1e-5, "atol": 1e-7, "fast_mode": True}
    assert torch.autograd.gradcheck(total, parameters, **how)


@pytest.mark.parametrize("name", KINKED)
def test_cells_with_kinks_are_refused_and_smooth_ones_taken(name):
    loss, u = lambda x: x.sum(1), torch.randn(3, 2, 2)
    told = f"{name} cannot be trained .* choose a smooth activation"
    with pytest.raises(ValueError, match=told):
        coadjoint_loss(make_cell(name, 2, 4, **KINKED[name]), u, loss, kappa=1.0)
    if name in ("indrnn", "irnn"):
        cell = make_cell(name, 2, 4, phi="tanh")
        coadjoint_loss(cell, u, loss, kappa=1.0).total.backward()


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"kappa": -1.0}, "expected kappa, the penalty's weight, to be 0 or positive"),
        ({"kappa": float("nan")}, "to be 0 or positive, got nan"),
        ({"kappa": float("inf")}, "to be 0 or positive, got inf"),
        ({"losses": lambda x: x.mean()}, r"one loss a sequence, \(2,\), got \(\)"),
    ],
)
@both_engines
def test_what_cannot_be_penalised_is_refused(engine, wrong, complaint):
    case = Case("rnn", (3, 2, 4, 1))
    given = {"losses": case.losses, "kappa": 1.0, "engine": engine} | wrong
    with pytest.raises(ValueError, match=complaint):
        coadjoint_loss(case.cell, case.u, **given)


@both_engines
def test_a_penalty_beyond_the_range_has_its_own_error(engine):
    case = Case("rnn", (60, 2, 4, 1), torch.float32)
    with torch.no_grad():
        case.cell.W.mul_(1e-3)
        case.cell.R.mul_(1e-3)
        case.output.weight.mul_(1e25)  # the adjoints are finite, their squares are not
    told = "penalised loss is not finite: F = .*, G = (inf|nan), kappa = 3"
    with pytest.raises(Diverged, match=told):
        case.gradient(engine=engine)


def test_kappa_zero_is_backpropagation_and_still_measures_the_penalty():
    case = Case("rnn", (12, 3, 5, 2))
    outputs, _ = case.cell(case.u)
    expected = torch.autograd.grad(case.losses(outputs[-1]).mean(), case.parameters)
    assert_equal(tuple(case.gradient(kappa=0.0).values()), expected, 1e-12)
    free, weighted = case.penalised(kappa=0.0), case.penalised(kappa=4.0)
    torch.testing.assert_close(free.penalty, weighted.penalty)
    torch.testing.assert_close(weighted.total, free.loss + 4 * free.penalty)


def test_both_penalties_by_hand():
    assert scaled_variance(torch.tensor([[5.0], [1.0]])).tolist() == [8.0]  # mean 3
    assert soft_orthogonality(torch.tensor([[0.0, -1.0], [1.0, 0.0]])) == 0
    # W'W - I has one entry 3 for diag(2, 1), and so has WW' - I.
    stretched = torch.diag(torch.tensor([2.0, 1.0]))
    assert soft_orthogonality(stretched) == 18
    assert soft_orthogonality(torch.stack([stretched, torch.eye(2)])).tolist() == [18, 0]
