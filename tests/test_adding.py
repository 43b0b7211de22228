"""The adding problem, and the trainings on it: what they keep, and what becomes of those that fail."""

import numpy as np
import pytest
import torch
from designs import one_job, train
from pydantic import ValidationError

from lib.cells.inverse_rnn import SingularMatrixError
from lib.experiments import adding as module
from lib.experiments import load_profile
from lib.experiments.adding import EXPERIMENT, SCHEMA, Adding
from lib.results.schema import COMPLETED, DIVERGED, NOT_PLANNED, ResultsError
from lib.run.params import checked
from lib.tasks.adding import BASELINE, mean_input
from lib.tasks.adding import draw_sums as draw


def _rng(seed=0):
    return np.random.default_rng(seed)


def _training(architecture="lu_rnn", **changes):
    given = {
        "time_steps": 9,
        "learning_rate": 1e-3,
        "training_steps": 6,
        "width": 5,
        "tau": 2,
        "batch_size": 4,
        "clip": 1.0,
        "enough": 0.0,
        "checkpoints": 3,
        "test_size": 8,
        "probe_size": 3,
    }
    return one_job("adding", architecture=architecture, **given | changes)


def _run(job):
    return {name: np.asarray(value) for name, value in module.run(job, None, None).items()}


# ------------------------------------------------------------------------------- the task


@pytest.mark.parametrize("T", [2, 9, 10])
def test_the_sum_is_that_of_one_marked_value_in_each_half(T):
    part = draw(T, 500, _rng())
    values, marks = part.inputs[..., 0], part.inputs[..., 1]
    assert part.inputs.dtype == part.targets[:, 0].dtype == np.float32
    assert set(np.unique(marks)) <= {0, 1}
    assert (marks[:, : T // 2].sum(1) == 1).all() and (marks[:, T // 2 :].sum(1) == 1).all()
    np.testing.assert_allclose((values * marks).sum(1), part.targets[:, 0], rtol=1e-6)
    assert (marks.any(0)).all()  # every position is marked in some sequence
    assert values.min() >= 0 and values.max() < 1


def test_always_predicting_one_costs_the_baseline():
    part = draw(6, 200_000, _rng())
    assert np.mean((part.targets[:, 0] - 1) ** 2) == pytest.approx(BASELINE, rel=0.01)
    assert abs(BASELINE - 0.167) < 5e-4  # remark 2.3
    np.testing.assert_allclose(part.inputs.mean((0, 1)), mean_input(6), rtol=0.01)


def test_a_generator_gives_other_sequences_at_its_next_call():
    rng = _rng()
    first, second = draw(5, 3, rng), draw(5, 3, rng)
    assert not np.array_equal(first.inputs, second.inputs)
    assert np.array_equal(first.inputs, draw(5, 3, _rng()).inputs)


@pytest.mark.parametrize(("T", "size", "complaint"), [(1, 1, "2 time steps"), (4, 0, "size")])
def test_sizes_that_make_no_sense_are_refused(T, size, complaint):
    with pytest.raises(ValueError, match=f"adding problem: expected .*{complaint}.*got"):
        draw(T, size, _rng())


# ------------------------------------------------------------------------------- one training


@pytest.mark.parametrize("architecture", ["lu_rnn", "inverse_rnn", "rnn", "lstm"])
def test_our_own_start_has_rotations_and_no_drift(architecture):
    model = module.start(_training(architecture, width=16, start="text"))
    cell = model.cell
    if architecture == "lu_rnn":
        L, U, *_ = cell.weights()
        matrices = [L @ U]
    else:
        matrices = cell.W.split(16)
    for W in matrices:
        torch.testing.assert_close(W @ W.T, torch.eye(16), atol=1e-5, rtol=0)
        assert torch.linalg.eigvals(W).angle().abs().max() < 1.3
    drift = cell.R @ torch.tensor(mean_input(9)) + cell.b
    expected = torch.zeros_like(drift)
    if architecture == "lstm":
        expected[16:32] = 1
    torch.testing.assert_close(drift, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("start", ["author", "library", "identity"])
@pytest.mark.parametrize("architecture", ["lu_rnn", "inverse_rnn", "rnn", "lstm"])
def test_the_other_starts_are_orthogonal_too_and_have_no_bias(architecture, start):
    T, width = 50, 32
    cell = module.start(_training(architecture, start=start, width=width, time_steps=T)).cell
    if architecture == "lu_rnn":
        L, U, *_ = cell.weights()
        blocks = [L @ U]
    else:
        blocks = cell.W.split(width) if start == "identity" else [cell.W]
    for W in blocks:
        torch.testing.assert_close(W.T @ W, torch.eye(width), atol=1e-4, rtol=0)
    if start == "identity":
        torch.testing.assert_close(blocks[0], torch.eye(width), atol=1e-4, rtol=0)
    forget = slice(width, 2 * width) if architecture == "lstm" else slice(0)
    assert (cell.b[forget] == 1).all() and cell.b.sum() == len(cell.b[forget])
    of_author = start == "author" and architecture != "lstm"
    assert (cell.x0 is not None) == of_author
    if of_author:
        assert cell.R.std().item() == pytest.approx(1 / T, rel=0.4)


@pytest.mark.parametrize("architecture", ["lu_rnn", "inverse_rnn", "rnn"])
def test_relu_takes_the_place_of_tanh_and_nothing_else_does(architecture):
    cells = [
        module.start(_training(architecture, activation=name, start="library", width=6)).cell
        for name in ("tanh", "relu")
    ]
    for part in zip(cells[0].parameters(), cells[1].parameters(), strict=True):
        part[1].data.copy_(part[0].data)
    u = torch.randn(1, 3, 2)
    tanh, relu = (cell(u)[0] for cell in cells)
    torch.testing.assert_close(torch.atanh(tanh).relu(), relu, atol=1e-5, rtol=1e-4)


def test_a_training_that_learned_enough_ends_and_keeps_its_last_error():
    found = _run(_training(enough=1.0, learning_rate=1e-9, training_steps=6))
    full = _run(_training(enough=0.0, learning_rate=1e-9, training_steps=6))
    assert full["steps_completed"] == 6
    ended = found["steps_completed"] < 6
    assert ended == bool((full["validation"] < BASELINE).any())
    if ended:
        assert found["error"][-1] == found["error"][-2]


def test_the_lu_rnn_starts_from_the_same_numbers_whatever_the_length_of_the_training():
    one, other = (module.start(_training(training_steps=n)) for n in (6, 60))
    assert torch.equal(one.cell.factors, other.cell.factors)
    third = module.start(_training(replicate=1))
    assert not torch.equal(one.cell.factors, third.cell.factors)


@pytest.mark.parametrize("architecture", ["lu_rnn", "lstm"])
def test_a_training_comes_out_the_same_twice_and_moves(architecture):
    found, again = (_run(_training(architecture)) for _ in range(2))
    assert found["status"] == COMPLETED and found["steps_completed"] == 6
    for name, value in found.items():
        np.testing.assert_array_equal(value, again[name], err_msg=name)
    assert len(set(found["error"])) == 4 and np.isfinite(found["error"]).all()
    assert np.isfinite(found["adjoint"]).all() and np.isfinite(found["gain"]).all()
    assert (found["gain"][:, 0] >= found["gain"][:, 1]).all()


def test_networks_of_one_length_are_tested_on_the_same_sequences(monkeypatch):
    seen = []
    monkeypatch.setattr(
        module, "_ends", lambda model, job, test: seen.append(test[0]) or module._nothing()
    )
    for architecture in ("rnn", "inverse_rnn"):
        _run(_training(architecture, training_steps=3))
    assert len(seen) == 4 and all(torch.equal(seen[0], other) for other in seen)


def test_it_learns_a_short_sum():
    training = _training(
        "inverse_rnn",
        time_steps=4,
        training_steps=900,
        learning_rate=1e-2,
        width=16,
        batch_size=32,
        test_size=200,
    )
    found = _run(training)
    assert found["error"][0] > BASELINE / 2
    assert found["error"][-1] < BASELINE / 10


def test_a_loss_that_is_not_finite_ends_the_training_and_keeps_what_was_measured(monkeypatch):
    plain, calls = module.F.mse_loss, iter(range(1000))

    def failing(*arguments, **keywords):
        loss = plain(*arguments, **keywords)
        # measured before training (adjoints, two errors), then two steps and their errors, then this
        return loss * float("nan") if next(calls) == 7 else loss

    monkeypatch.setattr(module.F, "mse_loss", failing)
    found = _run(_training())
    assert found["status"] == DIVERGED
    assert found["steps_completed"] == 2
    assert np.isfinite(found["error"][:2]).all() and np.isnan(found["error"][2:]).all()
    assert np.isfinite(found["adjoint"][0]).all() and np.isnan(found["adjoint"][1]).all()


def test_a_matrix_that_becomes_singular_ends_the_training(monkeypatch):
    plain, calls = module.F.mse_loss, iter(range(1000))
    networks = []
    start = module.start
    monkeypatch.setattr(module, "start", lambda job: networks.append(start(job)) or networks[-1])

    def spoil(*arguments, **keywords):
        loss = plain(*arguments, **keywords)
        if (
            next(calls) == 4
        ):  # measured before training (adjoints, two errors), then the second step
            with torch.no_grad():
                networks[0].cell.W[0] = 0
            raise SingularMatrixError("as the next forward pass would")
        return loss

    monkeypatch.setattr(module.F, "mse_loss", spoil)
    found = _run(_training("inverse_rnn"))
    assert found["status"] == DIVERGED and found["steps_completed"] == 1
    assert np.isfinite(found["error"][0]) and np.isnan(found["error"][1:]).all()
    monkeypatch.undo()
    model = module.start(_training("inverse_rnn"))
    with torch.no_grad():
        model.cell.W[0] = 0
    with pytest.raises(SingularMatrixError, match="got a singular one"):
        model(torch.zeros(3, 1, 2))


# ------------------------------------------------------------------------------- the dataset


@pytest.fixture(scope="module")
def designs():
    return load_profile("smoke").designs["adding"]


def _small(design, **changes):
    return design.at(training_steps=4, width=4, checkpoints=2, **changes)


def test_every_treatment_of_every_grid_is_planned_once(designs):
    jobs = EXPERIMENT.plan(designs)
    treatments = [tuple(getattr(job, name) for name in module.LEVELS) for job in jobs]
    assert len(treatments) == len(set(treatments))
    sizes = [
        [len(getattr(design, name)) for name in Adding.factors()] + [design.replicates]
        for design in designs
    ]
    assert len(jobs) == np.prod(sizes, axis=1).sum()


def test_what_no_grid_holds_is_not_planned_and_all_else_is_there(designs, monkeypatch, tmp_path):
    design, _ = designs
    one = {"learning_rate": (0.001,)}
    grids = (
        _small(design, architecture=("rnn",), time_steps=(8,), **one),
        _small(design, architecture=("lu_rnn",), time_steps=(12,), **one),
    )
    ds = train("adding", grids, monkeypatch)
    assert ds["architecture"].values.tolist() == ["rnn", "lu_rnn"]
    status = ds["status"].squeeze().values
    assert status.tolist() == [[COMPLETED, NOT_PLANNED], [NOT_PLANNED, COMPLETED]]
    assert bool(ds["error"].sel(architecture="rnn", time_steps=8).notnull().all())
    path = SCHEMA.save(ds, tmp_path / "adding.nc")
    assert SCHEMA.load(path).identical(ds)
    ds["status"].loc[{"architecture": "rnn", "time_steps": 8}] = NOT_PLANNED
    with pytest.raises(ResultsError, match="exactly where a training is planned"):
        SCHEMA.validate(ds)


def test_a_dataset_with_a_hole_is_refused(designs, monkeypatch):
    ds = train("adding", (_small(designs[0]),), monkeypatch)
    ds["error"][0, 0, 0, 0, 0, 0, 1] = np.nan
    with pytest.raises(ResultsError, match="error: expected values wherever"):
        SCHEMA.validate(ds)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"checkpoints": 5000}, "at least one step for each of the 5000 checkpoints"),
        ({"tau": 0}, "greater than 0"),
        ({"clip": 0.0}, "greater than 0"),
        ({"architecture": ["lu_rmm"]}, "unknown architecture 'lu_rmm'"),
        ({"activation": ["relu"]}, "activation is relu for lstm"),
    ],
)
def test_a_design_that_makes_no_sense_is_refused(designs, change, complaint):
    section = {name: value for name, value in designs[0].values().items() if name != "replicate"}
    with pytest.raises((ValidationError, ValueError), match=complaint):
        checked(Adding, section | change, "adding")
