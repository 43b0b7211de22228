"""Experiment 2.2: linear networks on the long time gap task, all of a job in one pass."""

import numpy as np
import pytest
import torch
from designs import one_job, single_job
from longrnn.cells import make_cell
from study.results.schema import COMPLETED, DIVERGED
from study.tasks.long_time_gap import draw_signs
from study.training.checkpoint import Checkpoint
from study.training.linear_gaps import initial_networks, train_networks


@pytest.fixture(scope="module")
def small():
    """Three networks on sequences of seven steps, of which the fifth counts."""
    task = {"place": 5, "time_steps": 7, "orthogonality": 0.0, "test_size": 500}
    recipe = {"networks": 3, "steps": 300, "batch_size": 32, "learning_rate": 0.01}
    return one_job("linear_gaps", **task, **recipe).config


@pytest.mark.parametrize("name", ["linear_gaps", "latching", "adding"])
def test_resumed_runs_on_drawn_sequences_equal_whole_ones(name, small, tmp_path, monkeypatch):
    job = single_job(small, steps=6) if name == "linear_gaps" else one_job(name)
    whole = job.train()
    checkpoint = Checkpoint(tmp_path / "a.state")

    def cut(self, total):
        if self._state.step > total // 2:  # what is recorded has drawn, too
            self.save()
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save_if_due", cut)
    with pytest.raises(KeyboardInterrupt):
        job.train(checkpoint=Checkpoint(tmp_path / "a.state"))
    monkeypatch.undo()
    np.testing.assert_equal(dict(job.train(checkpoint=checkpoint)), dict(whole))
    assert checkpoint.resumed


@pytest.mark.parametrize("T", [1, 2, 75])
def test_emphasis_of_a_linear_cell_is_exact(small, T):
    networks = initial_networks(small)
    u = torch.from_numpy(draw_signs(1, T, 6, np.random.default_rng(0)).inputs).double()
    with torch.no_grad():
        _, predictions = networks.losses(u[None, :, :, 0], torch.zeros(1, 6).double())
        for one in range(small.networks):
            cell = make_cell("linear_rnn", 1, small.width).double()
            cell.W.copy_(networks.W[one])
            cell.R.copy_(networks.R[one])
            cell.b.zero_()
            outputs, _ = cell(u.transpose(0, 1))
            torch.testing.assert_close(outputs[-1] @ networks.V[one, 0], predictions[one])


def test_replicates_do_not_depend_on_their_number(small):
    three = train_networks(small)
    two = train_networks(small.copy_with(networks=2))
    assert (np.abs(three["emphasis"]).argmax(1) == small.place - 1).all()
    assert (three["accuracy"] > 0.9).all() and (three["status"] == COMPLETED).all()
    np.testing.assert_allclose(three["emphasis"][:2], two["emphasis"], rtol=1e-9)
    assert not np.allclose(three["emphasis"][0], three["emphasis"][1])


def test_orthogonal_penalty_keeps_matrix_near_orthogonality(small):
    free = small
    bound = small.copy_with(orthogonality=1.0)
    starts = (list(initial_networks(job).parameters()) for job in (free, bound))
    assert all(map(torch.equal, *starts))
    assert (train_networks(bound)["departure"] < train_networks(free)["departure"]).all()


def test_diverged_network_leaves_the_others_alone(small, monkeypatch):
    expected = train_networks(small)
    networks = initial_networks(small)
    with torch.no_grad():
        networks.W[1] *= 1e200
    monkeypatch.setattr("study.training.linear_gaps.initial_networks", lambda job: networks)
    arrays = train_networks(small)
    assert arrays["status"].tolist() == [COMPLETED, DIVERGED, COMPLETED]
    assert np.isnan(arrays["emphasis"][1]).all() and np.isnan(arrays["loss"][1])
    np.testing.assert_allclose(arrays["emphasis"][[0, 2]], expected["emphasis"][[0, 2]], rtol=1e-9)
