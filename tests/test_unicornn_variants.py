"""UnICORNN's masks, and its variants where they must be the plain equation."""

import numpy as np
import pytest
import torch

from lib.cells import make_cell, unroll
from lib.probes.adjoint import adjoint_norms
from tests.transcriptions import B, D, P, an_input, perturbed, unicornn


@pytest.fixture
def u():
    return an_input()


def test_masks_act_between_the_layers_and_are_the_same_at_all_times(u):
    cell = perturbed("unicornn", layers=4, skip=2, dropout=0.4).train()
    torch.manual_seed(7)
    outputs, _ = cell(u)
    torch.manual_seed(7)
    keep = 1 - 0.4
    masks = [torch.empty(B, D, dtype=torch.float64).bernoulli_(keep) / keep for _ in range(3)]
    assert len(torch.stack(masks).unique()) == 2
    for sequence in range(B):
        own = [mask[sequence].numpy() for mask in masks]
        expected = unicornn(cell, u[:, sequence].numpy(), own)
        np.testing.assert_allclose(outputs[:, sequence].detach(), np.stack(expected), atol=1e-12)


def test_masks_are_drawn_in_training_alone_and_anew_for_each_call(u):
    cell = perturbed("unicornn", dropout=0.5)
    plain = perturbed("unicornn")
    assert not torch.equal(cell(u)[0], cell(u)[0])
    cell.eval()
    torch.testing.assert_close(cell(u)[0], plain(u)[0], rtol=0, atol=0)


def test_masks_leave_the_step_pure_and_the_adjoint_alone(u):
    cell = perturbed("unicornn", dropout=0.5).train()
    weights = cell.weights(cell._draw_masks(u))
    first, _ = unroll(cell.step, weights, cell.initial_state(B), u, readout=cell.readout)
    second, _ = unroll(cell.step, weights, cell.initial_state(B), u, readout=cell.readout)
    assert torch.equal(first, second)
    measured, expected = (
        adjoint_norms(one, u, torch.sum).full for one in (cell, perturbed("unicornn"))
    )
    assert torch.equal(measured, expected)


def test_equal_steps_in_every_layer_are_the_plain_equation(u):
    one, each = perturbed("unicornn", dt=0.2), perturbed("unicornn", dt=(0.2, 0.2))
    assert each.dt == 0.2
    assert torch.equal(one(u)[0], each(u)[0])


def test_a_fixed_c_is_not_trained():
    cell = make_cell("unicornn", P, D, train_c=False)
    trained = {name.split(".")[0] for name, p in cell.named_parameters() if p.requires_grad}
    assert trained == {"w", "V", "b"}
