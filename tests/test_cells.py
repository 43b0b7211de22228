"""Each cell against hand-written equations, its source's properties, and its engines' contract."""

import numpy as np
import pytest
import torch

from lib import kernels
from lib.cells import cell_names, make_cell
from lib.results.published import load_published

T, B, P, D = 7, 3, 2, 5


def _cell(name, **hyper_parameters):
    torch.manual_seed(0)
    return make_cell(name, P, D, **hyper_parameters).double()


@pytest.fixture(params=cell_names())
def cell(request):
    return _cell(request.param)


@pytest.fixture
def u():
    return torch.randn(T, B, P, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


# The paper's equations, transcribed a second time: numpy, one sequence, one neuron formula a line.


def _numpy_rnn(cell, u):
    W, R, b = (p.detach().numpy() for p in (cell.W, cell.R, cell.b))
    x, out = np.zeros(D), []
    for u_t in u:
        x = np.tanh(W @ x + R @ u_t + b)
        out.append(x)
    return out


def _sigmoid(a):
    return 1 / (1 + np.exp(-a))


def _numpy_lstm(cell, u):
    W, R, b = (p.detach().numpy() for p in (cell.W, cell.R, cell.b))
    h, c, out = np.zeros(D), np.zeros(D), []
    for u_t in u:
        i, f, g, o = ((W @ h + R @ u_t + b)[k * D : (k + 1) * D] for k in range(4))
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        out.append(h)
    return out


def _numpy_gru(cell, u):
    W, R, b = (p.detach().numpy() for p in (cell.W, cell.R, cell.b))
    Wr, Wz, Wn = W[:D], W[D : 2 * D], W[2 * D :]
    Rr, Rz, Rn = R[:D], R[D : 2 * D], R[2 * D :]
    br, bz, bn = b[:D], b[D : 2 * D], b[2 * D :]
    h, out = np.zeros(D), []
    for u_t in u:
        r = _sigmoid(Wr @ h + Rr @ u_t + br)
        z = _sigmoid(Wz @ h + Rz @ u_t + bz)
        n = np.tanh(r * (Wn @ h) + Rn @ u_t + bn)
        h = (1 - z) * n + z * h
        out.append(h)
    return out


def _numpy_antisymmetric(cell, u):
    M, R, b = (p.detach().numpy() for p in (cell.M, cell.R, cell.b))
    x, out = np.zeros(D), []
    for u_t in u:
        x = x + cell.epsilon * np.tanh((M - M.T - cell.gamma * np.eye(D)) @ x + R @ u_t + b)
        out.append(x)
    return out


def _numpy_lipschitz(cell, u):
    M_A, M_W, R, b = (p.detach().numpy() for p in (cell.M_A, cell.M_W, cell.R, cell.b))
    s, k = 1 - cell.beta, cell.beta
    A = s * (M_A + M_A.T) + k * (M_A - M_A.T) - cell.gamma * np.eye(D)
    W = s * (M_W + M_W.T) + k * (M_W - M_W.T) - cell.gamma * np.eye(D)
    x, out = np.zeros(D), []
    for u_t in u:
        x = x + cell.epsilon * (A @ x + np.tanh(W @ x + R @ u_t + b))
        out.append(x)
    return out


def _numpy_exponential(cell, u):
    B_matrix, R, b = (p.detach().numpy() for p in (cell.B, cell.R, cell.b))
    x, out = np.zeros(D), []
    for u_t in u:
        a = B_matrix @ x + R @ u_t
        x = np.where(np.abs(a) + b > 0, a / np.abs(a) * (np.abs(a) + b), 0.0)
        out.append(x)
    return out


def _numpy_unicornn(cell, u):
    layer_input = list(u)
    for w, V, b, c in zip(cell.w, cell.V, cell.b, cell.c, strict=True):
        w, V, b, c = (p.detach().numpy() for p in (w, V, b, c))
        h = cell.dt * _sigmoid(c)
        y, z, out = np.zeros(D), np.zeros(D), []
        for x in layer_input:
            z = z - h * (np.tanh(w * y + V @ x + b) + cell.alpha * y)
            y = y + h * z
            out.append(y)
        layer_input = out
    return layer_input


TRANSCRIBED = {
    name.removeprefix("_numpy_"): function
    for name, function in list(globals().items())
    if name.startswith("_numpy_")
}


@pytest.mark.parametrize("name", sorted(TRANSCRIBED))
def test_reference_equals_an_independent_transcription(name, u):
    cell = _cell(name)
    with torch.no_grad():  # away from the special values of the initialisation
        for parameter in cell.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    outputs, _ = cell(u, engine="reference")
    for sequence in range(B):
        expected = TRANSCRIBED[name](cell, u[:, sequence].numpy())
        np.testing.assert_allclose(outputs[:, sequence].detach(), expected, atol=1e-12)


def test_reference_passes_gradcheck(cell, u):
    def last(u, *parameters):
        names = [name for name, _ in cell.named_parameters()]
        call = torch.func.functional_call(
            cell, dict(zip(names, parameters, strict=True)), (u,), {"engine": "reference"}
        )
        return call[0][-1]

    u = u[:3].clone().requires_grad_()
    assert torch.autograd.gradcheck(last, (u, *cell.parameters()))


def test_a_split_sequence_continues_from_its_state(cell, u):
    whole, end = cell(u, engine="reference")
    first, middle = cell(u[:4], engine="reference")
    second, split_end = cell(u[4:], middle, engine="reference")
    torch.testing.assert_close(torch.cat([first, second]), whole)
    for part, expected in zip(split_end, end, strict=True):
        torch.testing.assert_close(part, expected)


def test_the_readout_is_part_of_the_state(cell, u):
    outputs, state = cell(u, engine="reference")
    assert len(state) == cell.states
    torch.testing.assert_close(outputs[-1], state[cell.readout])


@pytest.mark.parametrize(
    "shape, complaint",
    [
        ((T, B, P + 1), "expected input .time, batch, input. with input=2, got .7, 3, 3."),
        ((T, P), "expected input"),
        ((0, B, P), "at least one time step"),
        ((T, 0, P), "at least one time step and one sequence"),
    ],
)
def test_wrong_shapes_are_refused_in_one_sentence(cell, shape, complaint):
    with pytest.raises(ValueError, match=complaint):
        cell(torch.zeros(shape, dtype=torch.float64))


def test_wrong_types_are_refused(cell, u):
    with pytest.raises(
        ValueError, match=r"expected input of torch.float64 on cpu, got torch.float16"
    ):
        cell(u.half())


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_wrong_sizes_are_refused(size):
    with pytest.raises(ValueError, match="expected hidden_size to be a positive integer"):
        make_cell("rnn", 1, size)


def test_an_unknown_architecture_lists_the_known_ones():
    with pytest.raises(
        ValueError, match=r"unknown architecture 'lstn'; known: antisymmetric, .*lstm"
    ):
        make_cell("lstn", 1, 1)


def test_parameter_counts_equal_table_3_3():
    published = load_published("diss-tab-3.3")
    assert len(published) == 28
    for row in published.itertuples():
        cell = make_cell(row.architecture, 1, int(row.width))
        ours = sum(parameter.numel() for parameter in cell.parameters())
        assert ours == row.parameters, (row.architecture, row.width)


def test_exponential_matrix_stays_orthogonal_through_training():
    torch.manual_seed(0)
    cell = make_cell("exponential", P, 32)
    optimiser = torch.optim.Adam(cell.parameters(), lr=0.1)
    start = cell.B.detach().clone()
    for _ in range(20):
        outputs, _ = cell(torch.randn(5, 4, P))
        optimiser.zero_grad()
        outputs.square().sum().backward()
        optimiser.step()
    matrix = cell.B.detach()
    assert (matrix - start).abs().max() > 0.1, "training did not move the matrix"
    assert (matrix @ matrix.T - torch.eye(32)).abs().max() < 1e-5


def test_unicornn_step_preserves_volume(u):
    cell = _cell("unicornn", layers=2)
    weights = cell.weights()
    flat = torch.randn(4 * D, dtype=torch.float64)

    def step(flat):
        state = tuple(part[None] for part in flat.split(D))
        return torch.cat([part[0] for part in cell.step(weights, state, u[0, :1])])

    jacobian = torch.autograd.functional.jacobian(step, flat)
    assert torch.linalg.det(jacobian).item() == pytest.approx(1, abs=1e-12)
    # Symplectic within each layer: J' Omega J = Omega on the first layer's (y, z) block.
    block = jacobian[: 2 * D, : 2 * D]
    zero, identity = torch.zeros(D, D).double(), torch.eye(D).double()
    omega = torch.cat([torch.cat([zero, identity], 1), torch.cat([-identity, zero], 1)])
    torch.testing.assert_close(block.T @ omega @ block, omega)


def test_antisymmetric_matrix_is_antisymmetric_up_to_its_diffusion():
    cell = _cell("antisymmetric", gamma=0.3)
    W = cell.weights().W
    torch.testing.assert_close(W + W.T, -2 * 0.3 * torch.eye(D, dtype=torch.float64))


def test_lipschitz_matrices_have_the_stated_symmetric_part():
    cell = _cell("lipschitz", beta=0.8, gamma=0.1)
    A = cell.weights().A
    symmetric = (1 - 0.8) * (cell.M_A + cell.M_A.T) - 0.1 * torch.eye(D)
    torch.testing.assert_close((A + A.T) / 2, symmetric)


@pytest.mark.parametrize("name", ["rnn", "lu_rnn", "inverse_rnn"])
def test_relu_in_the_place_of_tanh_is_left_to_the_reference(name, u):
    cell, tanh = (_cell(name, activation=phi) for phi in ("relu", "tanh"))
    assert kernels.choose(name, "cpu", torch.float32, tanh.engine_options) != "reference"
    assert kernels.choose(name, "cpu", torch.float32, cell.engine_options) == "reference"
    one, _ = cell(u[:1], engine="auto")
    assert one.min() == 0 and one.max() > 0
    before = torch.atanh(tanh(u[:1], engine="reference")[0])
    torch.testing.assert_close(one, torch.relu(before))
    assert cell(u)[1][0].isfinite().all()
    with pytest.raises(ValueError, match=f"cannot run {name}: it has no option 'activation'"):
        cell(u, engine="numba-cpu")
