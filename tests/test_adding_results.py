"""What W and its inverse do to adjoint states."""

import numpy as np
import pytest
import torch

from lib.cells import make_cell
from lib.probes.adjoint import adjoint_norms


@pytest.mark.parametrize("scale", [0.5, 2.0])
@pytest.mark.parametrize("name", ["rnn", "inverse_rnn", "lu_rnn"])
def test_one_turn_of_w_and_its_inverse_preserves_the_adjoint_state_of_a_linear_network(name, scale):
    """Section 2.9: whatever the scale of W. In the middle of a turn the adjoint state has felt one of the two alone."""
    draw = torch.Generator().manual_seed(0)
    A = torch.randn(4, 4, generator=draw) / 6
    W, tau = scale * torch.linalg.matrix_exp(A - A.T), 3
    hyper_parameters = {} if name == "rnn" else {"tau": tau}
    cell = make_cell(name, 2, 4, **hyper_parameters).requires_grad_(False)
    cell.set_matrix(W) if name == "lu_rnn" else cell.W.copy_(W)
    cell.R.mul_(1e-8)  # tanh is a straight line
    cell.b.zero_()
    u = torch.rand(12, 2, 2, generator=draw)
    norms = adjoint_norms(cell, u, lambda x: x.sum()).readout
    ratio = (norms - norms[-1]).median(dim=1).values
    step = np.log10(scale)
    whole, half = (6 * step, 3 * step) if name == "rnn" else (0, -3 * step)
    assert ratio[5] == pytest.approx(whole, abs=1e-4)
    assert ratio[8] == pytest.approx(half, abs=1e-4)
