"""The coadjoint method: double backward and the fused engine are one gradient; notebook 40 compares Algorithm 2 with it."""

import pytest
import torch
from torch.nn import functional as F

from lib.cells import cell_names, make_cell
from lib.probes import Diverged
from lib.probes.coadjoint import (
    adjoint_states,
    coadjoint_loss,
    engine_names,
    penalty_names,
    scaled_variance,
    soft_orthogonality,
)
from lib.probes.coadjoint.penalties import find_penalty, weighted_variance

WEIGHTS = ("W", "R", "b_1", "V", "b_2")
TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-4}
SIZES = [(1, 1, 1, 1), (1, 4, 3, 2), (2, 1, 5, 1), (3, 2, 1, 3)]  # T, batch, hidden, input


def random_sizes(seed):
    generator = torch.Generator().manual_seed(seed)
    highest = (40, 9, 12, 5)
    return tuple(int(torch.randint(1, high, (), generator=generator)) for high in highest)


SIZES += [random_sizes(seed) for seed in range(6)]


class Case:
    """A network with an output layer and labels of two classes."""

    def __init__(self, name, sizes, dtype=torch.float64):
        self.T, self.batch, hidden, inputs = sizes
        torch.manual_seed(sum(sizes))
        self.cell = make_cell(name, inputs, hidden).to(dtype)
        self.output = torch.nn.Linear(hidden, 2).to(dtype)
        self.u = torch.randn(self.T, self.batch, inputs, dtype=dtype)
        self.labels = torch.randint(0, 2, (self.batch,))

    def losses(self, x):
        return F.cross_entropy(self.output(x), self.labels, reduction="none")

    def parameters(self):
        cell, output = self.cell, self.output
        return cell.W, cell.R, cell.b, output.weight, output.bias

    def gradient(self, engine, kappa=3.0, penalty="scaled_variance"):
        penalised = coadjoint_loss(
            self.cell, self.u, self.losses, penalty, kappa=kappa, engine=engine
        )
        return torch.autograd.grad(
            penalised.total, self.parameters(), allow_unused=True, materialize_grads=True
        )


def assert_equal(found, expected, tolerance):
    for name, one, other in zip(WEIGHTS, found, expected, strict=True):
        scale = max(1.0, other.abs().max().item())
        deviation = (one - other).abs().max().item() / scale
        assert deviation < tolerance, f"gradient of {name} is off by {deviation:.1e}"


@pytest.mark.parametrize("name", ["rnn", "linear_rnn"])
def test_adjoints_follow_their_recursion(name):
    """(2.21), from the last adjoint back."""
    case = Case(name, (9, 3, 5, 2))
    read, adjoints = adjoint_states(case.cell, case.u, case.losses, engine="reference")
    states = torch.zeros(1, 3, 5, dtype=torch.float64)
    for u_t in case.u:
        z = states[-1] @ case.cell.W.T + u_t @ case.cell.R.T + case.cell.b
        states = torch.cat([states, (torch.tanh(z) if name == "rnn" else z)[None]])
    torch.testing.assert_close(read, states[-1])
    slopes = 1 - states**2 if name == "rnn" else torch.ones_like(states)
    last = torch.softmax(case.output(read), 1) - F.one_hot(case.labels, 2)
    torch.testing.assert_close(adjoints[-1], -last @ case.output.weight)
    back = (slopes[-8:] * adjoints[1:]) @ case.cell.W
    torch.testing.assert_close(adjoints[:-1], back)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("sizes", [*SIZES, (140, 32, 20, 28)], ids=str)
def test_the_fused_engine_equals_double_backward(sizes, dtype):
    case = Case("rnn", sizes, dtype)
    assert engine_names(case.cell) == ["reference", "numba-cpu"]
    assert_equal(case.gradient("numba-cpu"), case.gradient("reference"), TOLERANCE[dtype])


@pytest.mark.parametrize("penalty", penalty_names())
def test_engines_agree_for_every_penalty(penalty):
    case = Case("rnn", (17, 3, 6, 2))
    expected = case.gradient("reference", penalty=penalty)
    assert_equal(case.gradient("numba-cpu", penalty=penalty), expected, 1e-8)
    plain = case.gradient("reference", kappa=0.0)
    assert (expected[0] - plain[0]).abs().max() > 1e-6  # the penalty does count


def test_gradient_of_the_initial_state_and_the_inputs_passes_the_engine():
    case = Case("rnn", (7, 2, 4, 3))
    found = []
    for engine in ("reference", "numba-cpu"):
        u = case.u.clone().requires_grad_()
        total = coadjoint_loss(case.cell, u, case.losses, kappa=2.0, engine=engine).total
        found.append(torch.autograd.grad(total, u)[0])
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-12)


def smooth_cells():
    kinked = {"exponential", "indrnn", "irnn"}
    return [name for name in cell_names() if name not in kinked]


@pytest.mark.parametrize("name", smooth_cells())
def test_any_smooth_cell_has_the_gradient_of_finite_differences(name):
    torch.manual_seed(2)
    cell = make_cell(name, 2, 4).double()
    output = torch.nn.Linear(4, 2).double()
    u, labels = torch.randn(5, 3, 2, dtype=torch.float64), torch.tensor([0, 1, 1])

    def losses(x):
        return F.cross_entropy(output(x), labels, reduction="none")

    def total():
        return coadjoint_loss(cell, u, losses, kappa=5.0, engine="reference").total

    parameters = [p for p in (*cell.parameters(), *output.parameters()) if p.requires_grad]
    total().backward()
    generator = torch.Generator().manual_seed(3)
    direction = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters]
    expected = sum(
        (p.grad * d).sum() for p, d in zip(parameters, direction, strict=True) if p.grad is not None
    )
    step, values = 1e-5, []
    for sign in (1, -2):
        with torch.no_grad():
            for parameter, d in zip(parameters, direction, strict=True):
                parameter += sign * step * d
        values.append(total().item())
    difference = (values[0] - values[1]) / (2 * step)
    assert difference == pytest.approx(expected.item(), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", ["exponential", "indrnn", "irnn"])
def test_cells_with_kinks_are_refused(name):
    case = make_cell(name, 2, 4)
    with pytest.raises(ValueError, match=f"{name} cannot be trained .* choose a smooth activation"):
        coadjoint_loss(case, torch.zeros(3, 2, 2), lambda x: x.sum(1), kappa=1.0)


@pytest.mark.parametrize("name", ["indrnn", "irnn"])
def test_the_same_cells_with_a_smooth_activation_are_taken(name):
    cell = make_cell(name, 2, 4, phi="tanh")
    penalised = coadjoint_loss(cell, torch.randn(3, 2, 2), lambda x: x.sum(1), kappa=1.0)
    penalised.backward(cell.parameters())


@pytest.mark.parametrize("kappa", [-1.0, float("nan"), float("inf")])
def test_bad_kappa_is_refused(kappa):
    case = Case("rnn", (3, 2, 4, 1))
    with pytest.raises(
        ValueError, match="expected kappa, the penalty's weight, to be 0 or positive"
    ):
        case.gradient("auto", kappa=kappa)


def test_losses_that_were_averaged_are_refused():
    case = Case("rnn", (3, 2, 4, 1))
    for engine in engine_names(case.cell):
        with pytest.raises(ValueError, match=r"one loss a sequence, \(2,\), got \(\)"):
            coadjoint_loss(
                case.cell, case.u, lambda x: case.losses(x).mean(), kappa=1.0, engine=engine
            )


def test_unknown_penalty_is_refused():
    with pytest.raises(ValueError, match="unknown penalty 'entropy'; known: absolute_deviation,"):
        find_penalty("entropy")


@pytest.mark.parametrize("engine", ["reference", "numba-cpu"])
def test_a_penalty_beyond_the_range_has_its_own_error(engine):
    case = Case("rnn", (60, 2, 4, 1), torch.float32)
    with torch.no_grad():
        case.cell.W.mul_(1e-3)
        case.cell.R.mul_(1e-3)
        case.output.weight.mul_(1e25)
    # The adjoints are finite, their squares are not.
    with pytest.raises(
        Diverged, match="penalised loss is not finite: F = .*, G = (inf|nan), kappa = 3"
    ):
        case.gradient(engine)


@pytest.mark.parametrize("engine", ["reference", "numba-cpu"])
def test_a_second_derivative_beyond_the_range_has_its_own_error(engine):
    case = Case("rnn", (60, 2, 4, 1), torch.float32)
    with torch.no_grad():
        case.cell.W.copy_(15 * torch.eye(4))
    torch.nn.init.zeros_(case.cell.R)  # at rest tanh has slope 1
    torch.nn.init.zeros_(case.cell.b)

    def small(adjoints):  # finite, while its derivative is carried through all steps
        return 1e-37 * adjoints[-1, :, 0] + 1e-38 * adjoints[30, :, 0]

    penalised = coadjoint_loss(case.cell, case.u, case.losses, small, kappa=1.0, engine=engine)
    with pytest.raises(Diverged, match=r"gradient of parameter 0, \(4, 4\), is not finite"):
        penalised.backward([*case.cell.parameters(), *case.output.parameters()])


def test_kappa_zero_is_backpropagation_and_still_measures_the_penalty():
    case = Case("rnn", (12, 3, 5, 2))
    outputs, _ = case.cell(case.u)
    expected = torch.autograd.grad(case.losses(outputs[-1]).mean(), case.parameters())
    assert_equal(case.gradient("auto", kappa=0.0), expected, 1e-12)
    free = coadjoint_loss(case.cell, case.u, case.losses, kappa=0.0)
    weighted = coadjoint_loss(case.cell, case.u, case.losses, kappa=4.0)
    torch.testing.assert_close(free.penalty, weighted.penalty)
    torch.testing.assert_close(weighted.total, free.loss + 4 * free.penalty)


# ---------------------------------------------------------------------------------- penalties


def test_scaled_variance_by_hand():
    adjoints = torch.tensor([[[3.0, 4.0]], [[0.0, 1.0]]])  # norms 5 and 1, mean 3
    assert scaled_variance(adjoints).tolist() == [8.0]
    assert weighted_variance(torch.tensor([1.0, 0.0]))(adjoints).tolist() == [4.0]
    by_name = {name: find_penalty(name)(adjoints).item() for name in penalty_names()}
    assert by_name == {
        "absolute_deviation": 4.0,
        "early_variance": 4 * 1.5 + 4 * 0.5,
        "maximum_norm_variance": 2 * 1.5**2,
        "scaled_variance": 8.0,
        "successive_differences": 8.0,
    }


def test_deviations_of_early_adjoints_weigh_most():
    adjoints = torch.tensor([[[5.0]], [[1.0]], [[3.0]]])  # squared distances from the mean 4, 4, 0
    early = find_penalty("early_variance")(adjoints)
    torch.testing.assert_close(early, torch.tensor([4 * 5 / 3 + 4 * 3 / 3 + 0 * 1 / 3]))


def test_an_orthogonal_linear_network_has_no_scaled_variance():
    case = Case("linear_rnn", (20, 3, 6, 2))
    with torch.no_grad():
        torch.nn.init.orthogonal_(case.cell.W)
    penalised = coadjoint_loss(case.cell, case.u, case.losses, kappa=1.0)
    assert penalised.penalty < 1e-24


@pytest.mark.parametrize("name", penalty_names())
def test_penalties_have_gradients_where_adjoints_vanish(name):
    adjoints = torch.zeros(5, 2, 3, requires_grad=True)
    find_penalty(name)(adjoints).sum().backward()
    assert adjoints.grad.isfinite().all()


@pytest.mark.parametrize("name", penalty_names())
def test_the_fused_engine_takes_adjoints_of_zero(name):
    case = Case("rnn", (6, 2, 4, 1))
    torch.nn.init.zeros_(case.output.weight)
    assert_equal(
        case.gradient("numba-cpu", penalty=name), case.gradient("reference", penalty=name), 1e-12
    )


def test_a_penalty_may_be_any_function():
    weighted = weighted_variance(torch.arange(17).double(), order=1.0)
    case = Case("rnn", (17, 3, 6, 2))
    for penalty in (weighted, lambda adjoints: adjoints.square().sum((0, 2))):
        expected = case.gradient("reference", penalty=penalty)
        assert_equal(case.gradient("numba-cpu", penalty=penalty), expected, 1e-8)


def test_soft_orthogonality_by_hand():
    assert soft_orthogonality(torch.tensor([[0.0, -1.0], [1.0, 0.0]])) == 0
    # W'W - I has one entry 3 for diag(2, 1), and so has WW' - I.
    stretched = torch.diag(torch.tensor([2.0, 1.0]))
    assert soft_orthogonality(stretched) == 18
    assert soft_orthogonality(torch.stack([stretched, torch.eye(2)])).tolist() == [18, 0]
