"""The cells beyond the factorial study against second transcriptions of their papers' equations."""

import numpy as np
import pytest
import test_cells
import torch

from lib.cells import cell_class, cell_names
from tests.transcriptions import CASES, B, an_input, perturbed

PARAMETERS = [
    pytest.param(name, transcription, hyper, id=f"{name}-{n}")
    for name, cases in CASES.items()
    for n, (transcription, hyper) in enumerate(cases)
]


@pytest.fixture
def u():
    return an_input()


def test_every_transcription_belongs_to_a_cell():
    assert {*CASES, *test_cells.TRANSCRIBED} <= set(cell_names())


def test_every_hyper_parameter_is_varied():
    for name, cases in CASES.items():
        known = {*cell_class(name).hyper_parameters} - {"activation"}  # which test_cells varies
        varied = set().union(*(hyper for _, hyper in cases))
        of_engines = {"backward", "checkpoint"}  # the reference heeds none
        assert known - varied <= {"dropout"} | of_engines, name  # which has tests of its own


@pytest.mark.parametrize("name, transcription, hyper", PARAMETERS)
def test_reference_equals_an_independent_transcription(name, transcription, hyper, u):
    cell = perturbed(name, **hyper)
    outputs, _ = cell(u, engine="reference")
    assert outputs.std() > 1e-3, "nothing happens in this case"
    for sequence in range(B):
        expected = np.stack(transcription(cell, u[:, sequence].numpy()))
        np.testing.assert_allclose(outputs[:, sequence].detach(), expected, atol=1e-12)


@pytest.mark.parametrize("name, transcription, hyper", PARAMETERS)
def test_variants_pass_gradcheck(name, transcription, hyper, u):
    cell = perturbed(name, **hyper)
    trained = {label: p for label, p in cell.named_parameters() if p.requires_grad}

    def last(u, *parameters):
        call = torch.func.functional_call(
            cell, dict(zip(trained, parameters, strict=True)), (u,), {"engine": "reference"}
        )
        return call[0][-1]

    # Four steps pass an interchange at tau = 3.
    inputs = (u[:4].clone().requires_grad_(), *trained.values())
    assert torch.autograd.gradcheck(last, inputs, fast_mode=True)
