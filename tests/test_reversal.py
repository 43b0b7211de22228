"""What UnICORNN's ways back lose in float32 at the published settings, and what they keep."""

import numpy as np
import pytest
import torch
from scipy.signal import lfilter
from torch.autograd.graph import saved_tensors_hooks

from lib.cells import make_cell
from lib.results.published import load_published

LIMIT = 1e-4
"""What the default way back, and those that replace it, may lose of any gradient."""
WAYS = {"stored": 64, "recovered": 64, "reversible": 64, "plain": 10**9}


def _settings():
    """Return the layers of the report's Table 6: its seven architectures, two with a first layer of their own."""
    for row in load_published("unicornn-tab-6").itertuples():
        for dt in dict.fromkeys((row.dt, row.dt_first)):
            yield pytest.param(dt, row.alpha, row.time_steps, id=f"{row.experiment} {dt}")


SETTINGS = list(_settings())


def _errors(dt, alpha, time_steps, drive, way):
    """Return the relative error of each gradient of a fresh layer, forward rounding included."""
    rng = np.random.default_rng(3)
    torch.manual_seed(0)
    options = {"backward": "reversible" if way == "plain" else way, "checkpoint": WAYS[way]}
    cell = make_cell("unicornn", 2, 32, layers=1, dt=dt, alpha=alpha, **options)
    u = rng.standard_normal((time_steps, 4, 2))
    if drive == "correlated":  # over a hundred steps
        u[1:] *= np.sqrt(1 - np.exp(-0.02))
        u = lfilter([1.0], [1.0, -np.exp(-0.01)], u, axis=0)
    if drive == "smooth":
        times = np.arange(time_steps)[:, None, None] / time_steps
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
    exact = make_cell("unicornn", 2, 32, layers=1, dt=dt, alpha=alpha).double()
    exact.load_state_dict(cell.state_dict())
    return {
        name: ((single[name].double() - truth).norm() / truth.norm()).item()
        for name, truth in gradients(exact, u.double()).items()
    }


def test_the_published_settings_are_the_seven_of_table_6():
    assert len(SETTINGS) == 9 and max(one.values[2] for one in SETTINGS) == 17_984


@pytest.mark.parametrize("way", ["stored", "recovered", "reversible"])
@pytest.mark.parametrize("drive", ["white", "smooth"])
@pytest.mark.parametrize(("dt", "alpha", "time_steps"), SETTINGS)
def test_every_gradient_is_kept(dt, alpha, time_steps, drive, way):
    assert max(_errors(dt, alpha, time_steps, drive, way).values()) < LIMIT


def test_plain_reversal_loses_the_gradient_of_correlated_inputs():
    (worms,) = (one.values for one in SETTINGS if one.id == "EigenWorms 0.0343")
    plain, stored = (_errors(*worms, "correlated", way).values() for way in ("plain", "stored"))
    assert max(plain) > 0.1 > 20 * max(stored)  # which the forward pass's own rounding leaves


def _kept_bytes(way, layers, time_steps, batch, hidden):
    cell = make_cell("unicornn", 1, hidden, layers=layers, backward=way)
    u, storages = torch.zeros(time_steps, batch, 1), {}
    known = {part.untyped_storage().data_ptr() for part in (u, *cell.parameters())}

    def pack(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs, _ = cell(u, engine="numba-cpu")
    assert outputs.requires_grad
    return sum(one.nbytes() for pointer, one in storages.items() if pointer not in known)


def test_what_each_way_back_keeps():
    sizes = layers, T, batch, hidden = 3, 640, 2, 8
    sequence, state = 4 * T * batch * hidden, 4 * batch * hidden
    # w and h of each chain, the first state, and the logistic function of c
    per_layer = 3 * state + 4 * hidden
    assert _kept_bytes("stored", *sizes) == layers * (3 * sequence + per_layer)
    assert _kept_bytes("recovered", *sizes) == layers * (sequence + per_layer)
    # Below the last layer, the output is kept as the next one's input; two states for each of T / 64 checkpoints and the end.
    ends = 2 * state * (T // 64) + 2 * state
    expected = (layers - 1) * sequence + layers * (ends + per_layer - state)
    assert _kept_bytes("reversible", *sizes) == expected
