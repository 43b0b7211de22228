"""What UnICORNN's ways back lose in float32 at the published settings, and what they keep."""

import numpy as np
import pytest
import torch

from lib.cells import make_cell
from lib.probes.reversal import DRIVES, Setting, gradient_errors, kept_bytes, published_settings

SETTINGS = published_settings()
LIMIT = 1e-4
"""What the default way back, and those that replace it, may lose of any gradient."""


def test_the_published_settings_are_the_seven_of_table_6():
    assert len({setting.experiment for setting in SETTINGS}) == 7
    assert {s.experiment for s in SETTINGS if s.layer == "first"} == {"IMDB", "EigenWorms"}
    assert max(setting.time_steps for setting in SETTINGS) == 17_984


@pytest.mark.parametrize("drive", DRIVES)
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.label)
def test_stored_and_recovered_states_keep_the_gradient(setting, drive):
    stored = gradient_errors(setting, drive, "stored")
    recovered = gradient_errors(setting, drive, "recovered")
    assert max(stored.values()) < LIMIT
    assert max(recovered.values()) < LIMIT
    assert stored["w"] == recovered["w"], "what is recovered enters the gradient of c alone"


@pytest.mark.parametrize("drive", DRIVES)
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.label)
def test_checkpoints_keep_the_gradient(setting, drive):
    errors = gradient_errors(setting, drive, "reversible", checkpoint=64)
    assert max(errors.values()) < LIMIT


def test_plain_reversal_loses_everything_on_smooth_inputs():
    (worms,) = (s for s in SETTINGS if s.experiment == "EigenWorms" and s.layer == "others")
    plain = gradient_errors(worms, "smooth", "reversible", checkpoint=10**6)
    assert min(plain.values()) > 0.1
    imdb = next(s for s in SETTINGS if s.experiment == "IMDB" and s.layer == "others")
    longer = gradient_errors(imdb, "smooth", "reversible", checkpoint=10**6, time_steps=4000)
    assert min(longer.values()) > 0.1


# The gradient of the whole in float32, forward rounding included, through the cell as appendix A initialises it.
@pytest.mark.parametrize("drive", DRIVES)
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.label)
def test_the_default_keeps_every_gradient_of_a_fresh_layer(setting, drive):
    rng = np.random.default_rng(3)
    torch.manual_seed(0)
    cell = make_cell("unicornn", 2, 32, layers=1, dt=setting.dt, alpha=setting.alpha)
    u = rng.standard_normal((setting.time_steps, 4, 2))
    if drive == "smooth":
        times = np.arange(setting.time_steps)[:, None, None] / setting.time_steps
        u = np.sqrt(2) * np.sin(
            2 * np.pi * (times * rng.uniform(1, 5, (4, 2)) + rng.random((4, 2)))
        )
    u = torch.from_numpy(u).float()
    weight = torch.from_numpy(rng.standard_normal((4, 32))).float()

    def gradients(cell, u):
        outputs, _ = cell(u, engine="numba-cpu")
        found = torch.autograd.grad(
            (outputs[-1] * weight.to(u.dtype)).sum(), list(cell.parameters())
        )
        return dict(zip(dict(cell.named_parameters()), found, strict=True))

    single = gradients(cell, u)
    for name, truth in gradients(cell.double(), u.double()).items():
        error = (single[name].double() - truth).norm() / truth.norm()
        assert error < LIMIT, f"{name}: {error:.1e}"


# ---------------------------------------------------------------------------------- memory


def test_what_each_way_back_keeps():
    layers, T, batch, hidden = 3, 640, 2, 8
    sequence, state = 4 * T * batch * hidden, 4 * batch * hidden
    sizes = {"layers": layers, "time_steps": T, "batch": batch, "hidden": hidden}
    per_layer = (
        3 * state + 4 * hidden
    )  # w and h of each chain, the first state, and the logistic function of c
    assert kept_bytes("stored", **sizes) == layers * (3 * sequence + per_layer)
    assert kept_bytes("recovered", **sizes) == layers * (sequence + per_layer)
    # Below the last layer, the output is kept as the next one's input; two states for each of T / 64 checkpoints and the end.
    ends = 2 * state * (T // 64) + 2 * state
    expected = (layers - 1) * sequence + layers * (ends + per_layer - state)
    assert kept_bytes("reversible", **sizes) == expected


def test_an_unknown_drive_is_refused():
    with pytest.raises(ValueError, match="expected a drive among white, smooth, got 'pink'"):
        gradient_errors(Setting("none", "others", 0.1, 0.0, 10), "pink", "stored")
