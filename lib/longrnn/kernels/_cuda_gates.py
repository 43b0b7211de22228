"""What the two kinds of GPU kernels of a gated cell share: the adjoint of a step, and an operator.

The kinds are those of `longrnn.kernels.cuda_lstm` and `longrnn.kernels.cuda_gru`, and those of
`longrnn.kernels.cuda_persistent_lstm` and `longrnn.kernels.cuda_persistent_gru`.
"""

from longrnn.kernels import cpu_dt_lstm
from longrnn.kernels._cuda import device
from longrnn.kernels._cuda_device import ONE, tanh
from longrnn.kernels._runs import scalars_like


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


LSTM = {
    "settings": "float iota, float phi",
    "inputs": "W g:1 h0:0 c0:0",
    "results": "outputs h_end c_end cells gates",
    "final": 2,
    "saved": "W h0 c0 outputs cells gates",
    "shapes": cpu_dt_lstm.shapes,
    "reference": _lstm_reference,
    "arrays": False,
    "runs": True,
}
"""Arguments of `longrnn.kernels._recurrence.Recurrence` for the LSTM and the dt-LSTM."""
