"""What UnICORNN's ways back keep; what they lose in float32 at the published settings, notebook 51 measures and checks."""

import torch
from torch.autograd.graph import saved_tensors_hooks

from lib.cells import make_cell


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
