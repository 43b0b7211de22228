r"""The LSTM with chrono initialisation.

C. Tallec, Y. Ollivier, *Can recurrent neural networks warp time?*, ICLR 2018, as quoted in appendix B.3 of
Rusch et al., *Long expressive memory for sequence modeling*, ICLR 2022. The recurrence is that of `longrnn.cells.lstm`; the biases start at

.. math:: b_f \sim \log U[1, T_{\max} - 1], \qquad b_i = -b_f, \qquad b_g = b_o = 0

so that a cell forgets over times spread up to T_max.
"""

from torch import nn

from longrnn.cells._keywords import Number
from longrnn.cells.lstm import LSTM


class ChronoLSTM(LSTM, name="chrono_lstm"):
    """The LSTM whose gates start with times up to T_max."""

    title = "chrono-LSTM"
    source = "Tallec and Ollivier 2018; Rusch et al. 2022, B.3"
    hyper_parameters = {
        # T_max in steps, by default the length of sequential MNIST.
        "chrono": Number(784, "[2, inf)"),
    }

    def start_text(self) -> None:
        super().start_text()
        nn.init.zeros_(self.b)
        i, f, *_ = self.b.chunk(4)
        i.copy_(-f.uniform_(1, self.chrono - 1).log_())
