"""The incremental RNN near its equilibrium; notebook 54 checks proposition 2."""

import pytest
import torch

from lib.cells import make_cell
from lib.probes.equilibria import signs, stability
from lib.results.rows import REAL_PARTS

D, P = 6, 3


def _cell(norm=0.6, **more):
    torch.manual_seed(0)
    settings = {"phi": "tanh", "inner_steps": 1, "eta": 0.4, "train_eta": "fixed"} | more
    cell = make_cell("irnn", P, D, **settings).double().requires_grad_(False)
    cell.U.mul_(norm / torch.linalg.matrix_norm(cell.U, 2))
    cell.b.normal_()
    return cell


@pytest.mark.parametrize("form", [5, 8])
def test_a_low_rank_leaves_eigenvalues_of_zero_where_more_neurons_are_active(form):
    rank = 2
    cell = make_cell("irnn", P, D, rank=rank, form=form, inner_steps=2).double()
    cell.requires_grad_(False)
    cell.b.fill_(5.0)  # all neurons active
    found = stability(cell, torch.randn(4, 3, P, dtype=torch.float64))
    assert found.shape == (4, 3, D)
    assert ((found.abs() < 1e-9).sum(-1) == D - rank).all()
    by_sign, by_size = signs(found)
    assert by_sign[1] == pytest.approx((D - rank) / D)
    assert by_sign.sum() == pytest.approx(1) == by_size.sum()
    assert by_size[REAL_PARTS.index(0.0)] >= by_sign[1]
    full = stability(_cell(0.6), torch.randn(4, 3, P, dtype=torch.float64))
    assert (full.real < 0).all(), "||U|| < alpha"
    assert (stability(_cell(9.0), torch.randn(20, 3, P, dtype=torch.float64)).real > 0).any()


def test_signs_and_classes_of_real_parts_are_counted():
    by_sign, by_size = signs(torch.tensor([-9 + 1j, -0.96, 1e-10, -1e-10 + 2j, 0.3]))
    assert by_sign.tolist() == [0.4, 0.4, 0.2]
    counted = {REAL_PARTS[k]: share for k, share in enumerate(by_size) if share}
    assert counted == {-3.0: 0.2, -1.0: 0.2, 0.0: 0.4, 0.3: 0.2}
    with pytest.raises(ValueError, match="gru: expected an iRNN.*leave eigenvalues out"):
        stability(make_cell("gru", P, D), torch.zeros(2, 1, P))
