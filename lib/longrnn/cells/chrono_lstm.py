r"""The LSTM with chrono initialization.

C. Tallec, Y. Ollivier, *Can recurrent neural networks warp time?*, ICLR 2018, as quoted in appendix
B.3 of Rusch et al., *Long expressive memory for sequence modeling*, ICLR 2022. The recurrence is
that of `longrnn.cells.lstm`; the biases start at

.. math:: b_f \sim \log U[1, T_{\max} - 1], \qquad b_i = -b_f, \qquad b_g = b_o = 0

so that the units forget over times spread up to T_max.
"""

import torch
from torch import nn

from longrnn.cells._keywords import Number
from longrnn.cells._one_step import one_step
from longrnn.cells._recurrent import Recurrent
from longrnn.cells.lstm import LSTMCore


class ChronoLSTMCore(LSTMCore, name="chrono_lstm"):
    """The LSTM whose gates start with time scales up to T_max."""

    title = "chrono-LSTM"
    source = "Tallec and Ollivier 2018; Rusch et al. 2022, B.3"
    hyper_parameters = {
        # T_max in steps; the default is the length of sequential MNIST.
        "chrono": Number(784, "[2, inf)"),
    }
    biases = ()  # without biases it would be the LSTM

    def start_paper(self) -> None:
        super().start_paper()
        nn.init.zeros_(self.b)
        i, f, *_ = self.b.chunk(4)
        i.copy_(-f.uniform_(1, self.chrono - 1).log_())


class ChronoLSTM(Recurrent, core=ChronoLSTMCore):
    """The LSTM with chrono initialization (Tallec and Ollivier 2018).

    ::

        the LSTM, with b_f ~ log U[1, T_max - 1], b_i = -b_f, b_g = b_o = 0 at the start

    Parameters
    ----------
    input_size, hidden_size
        Number p of features of the input, and number d of units.
    num_layers
        Number of layers; each reads the outputs of the one below.
    chrono
        T_max, the longest time scale, in steps. The default is the length of sequential MNIST.
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
    ``output, state = layer(input, state)`` takes and returns sequences as `torch.nn.LSTM` does;
    see `Recurrent.forward`. The state is the tuple (h, c): the hidden state, which is the output,
    and the cell state. Its tensors are (num_layers * num_directions, batch, hidden_size).

    Weights of the first layer, in ``layer.cells.l0``: ``W`` (4d, d), ``R`` (4d, p), ``b`` (4d,),
    gates in the order i f g o.

    Examples
    --------
    >>> import torch
    >>> from longrnn import ChronoLSTM
    >>> lstm = ChronoLSTM(10, 20, num_layers=2)
    >>> output, (h_n, c_n) = lstm(torch.randn(5, 3, 10))
    >>> output.shape, h_n.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        chrono: float = 784,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        hyper_parameters = {
            "chrono": chrono,
        }
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            hyper_parameters,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            device=device,
            dtype=dtype,
        )


ChronoLSTMCell = one_step(ChronoLSTM)
