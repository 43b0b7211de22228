"""What two kinds of GPU kernels share: the adjoint of a step, and the arguments of operators.

The LSTM, the GRU and LEM have both kinds: dense kernels, such as those of
`longrnn.kernels.cuda_lstm`, and kernels with weights that stay on the multiprocessor, such as those
of `longrnn.kernels.cuda_persistent_lstm`.
"""

import torch
from torch import Tensor

from longrnn.kernels import cpu_dt_lstm, cpu_lem
from longrnn.kernels._cuda import device
from longrnn.kernels._cuda_device import ONE, device_version, tanh
from longrnn.kernels._runs import scalars_like

clip_step = device_version(cpu_lem.clip_step)
relax = device_version(cpu_lem.relax)
relax_adjoint = device_version(cpu_lem.relax_adjoint)


@device
def lstm_deltas(iota, phi, gates, before, c, lambda_, mu):
    """Return the gradients of the arguments of i f g o of a unit, and mu through the forget gate.

    The equations are in `longrnn.kernels.cpu_dt_lstm`.

    Parameters
    ----------
    iota, phi : float
        Factors of the input and the forget gate, 1 in the LSTM.
    gates : tuple of float
        The values of i f g o.
    before, c : float
        The cell before and after the step.
    lambda_, mu : float
        Gradient of h after the step, and that of c through later steps alone.

    Returns
    -------
    delta_i, delta_f, delta_new, delta_o, mu : float
    """
    i, f, new, o = gates
    squashed = tanh(c)
    mu += lambda_ * o * (ONE - squashed * squashed)
    delta_i = iota * mu * new * i * (ONE - i)
    delta_f = phi * mu * before * f * (ONE - f)
    delta_new = iota * mu * i * (ONE - new * new)
    delta_o = lambda_ * squashed * o * (ONE - o)
    return delta_i, delta_f, delta_new, delta_o, mu * phi * f


@device
def gru_deltas(gates, product, before, lambda_):
    """Return the gradients of the arguments of r z n of a unit.

    The equations are in `longrnn.kernels.cpu_gru`.

    Parameters
    ----------
    gates : tuple of float
        The values of r z n.
    product : float
        The state's part of n.
    before, lambda_ : float
        The state before the step, and the gradient of that after it.

    Returns
    -------
    delta_r, delta_z, delta_n : float
    """
    r, z, n = gates
    delta_n = lambda_ * (ONE - z) * (ONE - n * n)
    delta_r = delta_n * product * r * (ONE - r)
    delta_z = lambda_ * (before - n) * z * (ONE - z)
    return delta_r, delta_z, delta_n


def _lstm_reference(iota, phi, W, g, h0, c0):
    return cpu_dt_lstm.reference(scalars_like(g, iota, phi), W, g, h0, c0)


LSTM_DESCRIPTION = {
    "settings": "float iota, float phi",
    "inputs": "W g:1 h0:0 c0:0",
    "results": "outputs h_end c_end cells gates",
    "final": 2,
    "saved": "W h0 c0 outputs cells gates",
    "shapes": cpu_dt_lstm.shapes,
    "reference": _lstm_reference,
    "arrays": False,
    "takes_networks": True,
}
"""Arguments of `longrnn.kernels._recurrence.Recurrence` that the LSTM's operators share."""


def _lem_reference(dt, least, most, W, W_y, g, y0, z0):
    rows = W.shape[-2]
    numbers = scalars_like(g, dt, least, most)
    return cpu_lem.reference(numbers, W, W_y, g[..., :rows], g[..., rows:], y0, z0)


def _split_lem_drive(drive, arguments):
    """Compute the input that is not saved for the backward pass, g, from the drive."""
    return (add_infinite_gates(drive, arguments.W),)


def add_infinite_gates(g: Tensor, W: Tensor) -> Tensor:
    """Return the drives of both gates and both targets of LEM.

    With a single scale, `g` has only those of the targets. Infinite drives of the gates are put
    before them, so that both gates are 1.

    Parameters
    ----------
    g : (time, batch, 4 d) or (time, batch, 2 d)
        The drive.
    W : (3 d, d) or (runs, 3 d, d)
        Weights, which are zero for the gates with a single scale.

    Returns
    -------
    (time, batch, 4 d)
    """
    rows, d = W.shape[-2:]
    if g.shape[2] == rows + d:
        return g
    return torch.cat([torch.full_like(g, torch.inf), g], dim=-1)


def _lem_shapes(a):
    """Return the shapes of y, y_end, z_end, z and gates."""
    sequence = (a.g.shape[0], *a.y0.shape)  # `len` would fix the length in a traced program
    return [sequence, a.y0.shape, a.z0.shape, sequence, a.g.shape]


LEM_DESCRIPTION = {
    "settings": "float dt, float least, float most",
    "inputs": "W W_y g:1 y0:0 z0:0",  # name:axis of the batch; weights have none
    "results": "y y_end z_end z gates",  # outputs, final states, then what the adjoint needs
    "final": 2,  # of the results: y_end and z_end
    "saved": "W W_y y0 z0 y z gates",
    "shapes": _lem_shapes,
    "reference": _lem_reference,
    "split": _split_lem_drive,
    "arrays": False,
    "takes_networks": True,
}
"""Arguments of `longrnn.kernels._recurrence.Recurrence` that LEM's operators share."""
