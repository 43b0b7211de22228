"""Experiment 2.2: linear networks on the long time gap task."""

import numpy as np
import pytest
import torch
from designs import one_job

from lib.cells import make_cell
from lib.results.schema import COMPLETED, DIVERGED
from lib.tasks.long_time_gap import draw_signs
from lib.training.linear_gaps import initial_networks

TASK = {"place": 5, "time_steps": 7, "orthogonality": 0.0, "test_size": 500}
SMALL = one_job("linear_gaps", **TASK, networks=3, steps=300, batch_size=32, learning_rate=0.01)


def run_job(job):
    return job.compute(None, None)


@pytest.mark.parametrize("T", [1, 2, 75])
def test_emphasis_is_what_the_linear_cell_does_to_its_inputs(T):
    networks = initial_networks(SMALL)
    part = draw_signs(1, T, 6, np.random.default_rng(0))
    u = torch.from_numpy(part.inputs).double()
    with torch.no_grad():
        _, predictions = networks.losses(u[None, :, :, 0], torch.zeros(1, 6).double())
        for one in range(SMALL.networks):
            cell = make_cell("linear_rnn", 1, SMALL.width).double()
            cell.W.copy_(networks.W[one])
            cell.R.copy_(networks.R[one])
            cell.b.zero_()
            outputs, _ = cell(u.transpose(0, 1))
            torch.testing.assert_close(outputs[-1] @ networks.V[one, 0], predictions[one])


def test_replicates_learn_a_short_task_differ_and_do_not_depend_on_their_number():
    three, two = run_job(SMALL), run_job(SMALL.at(networks=2))
    assert (np.abs(three["emphasis"]).argmax(1) == SMALL.place - 1).all()
    assert (three["accuracy"] > 0.9).all() and (three["status"] == COMPLETED).all()
    np.testing.assert_allclose(three["emphasis"][:2], two["emphasis"], rtol=1e-9)
    assert not np.allclose(three["emphasis"][0], three["emphasis"][1])


def test_the_penalty_keeps_the_matrix_near_orthogonality_from_the_same_start():
    free, bound = SMALL, SMALL.at(orthogonality=1.0)
    starts = (list(initial_networks(job).parameters()) for job in (free, bound))
    assert all(map(torch.equal, *starts))
    assert (run_job(bound)["departure"] < run_job(free)["departure"]).all()


def test_a_diverged_network_is_recorded_and_leaves_the_others_alone(monkeypatch):
    expected, networks = run_job(SMALL), initial_networks(SMALL)
    with torch.no_grad():
        networks.W[1] *= 1e200
    monkeypatch.setattr("lib.training.linear_gaps.initial_networks", lambda job: networks)
    arrays = run_job(SMALL)
    assert arrays["status"].tolist() == [COMPLETED, DIVERGED, COMPLETED]
    assert np.isnan(arrays["emphasis"][1]).all() and np.isnan(arrays["loss"][1])
    np.testing.assert_allclose(arrays["emphasis"][[0, 2]], expected["emphasis"][[0, 2]], rtol=1e-9)
