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


def _gradients(dt, alpha, time_steps, drive, way, dtype=torch.float32):
    """Return the gradients by every weight of a fresh layer."""
    rng = np.random.default_rng(3)
    torch.manual_seed(0)
    options = {"backward": "reversible" if way == "plain" else way, "checkpoint": WAYS[way]}
    cell = make_cell("unicornn", 2, 32, layers=1, dt=dt, alpha=alpha, **options).to(dtype)
    u = rng.standard_normal((time_steps, 4, 2))
    if drive == "correlated":  # over a hundred steps
        u[1:] *= np.sqrt(1 - np.exp(-0.02))
        u = lfilter([1.0], [1.0, -np.exp(-0.01)], u, axis=0)
    if drive == "smooth":
        times = np.arange(time_steps)[:, None, None] / time_steps
        phase = times * rng.uniform(1, 5, (4, 2)) + rng.random((4, 2))
        u = np.sqrt(2) * np.sin(2 * np.pi * phase)
    outputs, _ = cell(torch.from_numpy(u).float().to(dtype), engine="numba-cpu")
    weight = torch.from_numpy(rng.standard_normal((4, 32))).float().to(dtype)
    return torch.autograd.grad((outputs[-1] * weight).sum(), list(cell.parameters()))


def _errors(found, truth):
    pairs = zip(found, truth, strict=True)
    return [((one.double() - two).norm() / two.norm()).item() for one, two in pairs]


def test_the_published_settings_are_the_seven_of_table_6():
    assert len(SETTINGS) == 9 and max(one.values[2] for one in SETTINGS) == 17_984


@pytest.mark.parametrize("way", ["stored", "recovered", "reversible"])
@pytest.mark.parametrize("drive", ["white", "smooth"])
@pytest.mark.parametrize(("dt", "alpha", "time_steps"), SETTINGS)
def test_every_gradient_is_kept(dt, alpha, time_steps, drive, way):
    case = dt, alpha, time_steps, drive
    assert max(_errors(_gradients(*case, way), _gradients(*case, way, torch.float64))) < LIMIT


def test_plain_reversal_loses_the_gradient_along_the_states_that_others_keep():
    (worms,) = (one.values for one in SETTINGS if one.id == "EigenWorms 0.0343")
    along = {way: _gradients(*worms, "correlated", way) for way in WAYS}
    truth = [part.double() for part in along["stored"]]
    assert max(_errors(along["plain"], truth)) > 0.1
    assert max(_errors(along["reversible"], truth)) < LIMIT


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
