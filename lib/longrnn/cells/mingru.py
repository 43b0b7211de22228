r"""minGRU: a gated recurrent unit whose gates do not read the state.

L. Feng, F. Tung, M. O. Ahmed, Y. Bengio, H. Hajimirsadeghi, *Were RNNs all we needed?*, 2024,
arXiv:2410.01201, section 3.1:

.. math::
    z_t &= \sigma(W_z u_t + b_z) \\
    \tilde h_t &= W_h u_t + b_h \\
    h_t &= (1 - z_t) \odot h_{t-1} + z_t \odot \tilde h_t

The recurrence is linear in the state and could be computed in parallel over time. Here it is a
plain loop. The Jacobian is the diagonal matrix of 1 - z_t, whose entries lie in (0, 1). So
gradients decay at the rate that the gates set, and never grow. None of the papers that this
repository reproduces has this cell; it is a modern baseline.

=======  ========  ==========  ==============================
symbol   name      shape       meaning
=======  ========  ==========  ==============================
W_z,W_h  ``W``     (2d, p)     input weights, gate first
b_z,b_h  ``b``     (2d,)       biases, gate first
h_t      ``h``     (batch, d)  state and output
=======  ========  ==========  ==============================
"""

import torch
from torch import Tensor

from longrnn.cells._cell import Cell, State
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent


class MinGRUCore(Cell, name="mingru"):
    """The minimal GRU."""

    title = "minGRU"
    source = "Feng et al. 2024, section 3.1"
    shapes = {
        "W": "2d p",  # input weights, in the order z h
        "b": "2d",  # biases, in the order z h
    }
    Weights = "W b"

    @staticmethod
    def step(weights: tuple, state: State, u: Tensor) -> State:
        """Take one step (section 3.1).

        Parameters
        ----------
        weights : tuple
            ``W`` (2d, p) and ``b`` (2d,), in the order z h.
        state : tuple of (batch, d)
            ``(h,)``, the state h_{t-1}, which is also the output.
        u : (batch, p)
            The input u_t.

        Returns
        -------
        tuple of (batch, d)
            ``(h,)``, the state h_t.
        """
        W, b = weights
        (h,) = state
        gate, candidate = (u @ W.T + b).chunk(2, dim=-1)
        z = torch.sigmoid(gate)
        return ((1 - z) * h + z * candidate,)


class MinGRU(Recurrent, core=MinGRUCore):
    """The minimal GRU (Feng et al. 2024, section 3.1).

    ::

        z_t = sigmoid(W_z u_t + b_z)
        h_t = (1 - z_t) * h_{t-1} + z_t * (W_h u_t + b_h)

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    bias
        Whether the cells have biases.
    batch_first
        Whether inputs and outputs are (batch, time, features).
    dropout
        Dropout probability in training, for the outputs of all layers but the last.
    bidirectional
        Whether each layer also reads the sequences backward.
    device, dtype
        Device and dtype of the weights.

    Notes
    -----
    ``output, state = layer(input, state)`` takes and returns sequences as `torch.nn.GRU` does;
    see `Recurrent.forward`. The state is the tensor h, (num_layers * num_directions, batch,
    hidden_size).

    The layer runs step by step in Python, as it has no compiled engine. `torch.compile` unrolls
    this loop, and compiles again for every length of the sequences.

    Weights of the first layer, in ``layer.cells.l0``: ``W`` (2d, p) and ``b`` (2d,).

    Examples
    --------
    >>> import torch
    >>> from longrnn import MinGRU
    >>> mingru = MinGRU(10, 20)
    >>> output, h_n = mingru(torch.randn(5, 3, 10))
    >>> output.shape, h_n.shape
    (torch.Size([5, 3, 20]), torch.Size([1, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            {},
            bias=bias,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
            dtype=dtype,
        )


MinGRUCell = one_step(MinGRU)
