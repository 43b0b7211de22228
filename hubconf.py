"""Entry points for `torch.hub`: one per layer class, in lower case.

>>> lem = torch.hub.load(".", "lem", input_size=10, hidden_size=20, source="local")

An entry point takes the arguments of its layer class; see `longrnn.LEM` for an example.
"""

import sys
from pathlib import Path

dependencies = ["torch", "numba", "numpy"]

# The packages are in lib/, whether or not they are installed.
sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))

from longrnn import (  # noqa: E402
    GRU,
    LEM,
    LRU,
    LSTM,
    LURNN,
    RNN,
    SRU,
    AntisymmetricRNN,
    ChronoLSTM,
    CoRNN,
    DtLSTM,
    ExponentialRNN,
    FastGRNN,
    FastRNN,
    GatedAntisymmetricRNN,
    IncrementalRNN,
    IndRNN,
    InverseRNN,
    LinearRNN,
    LipschitzRNN,
    MinGRU,
    UnICORNN,
)

antisymmetric = AntisymmetricRNN
chrono_lstm = ChronoLSTM
cornn = CoRNN
dt_lstm = DtLSTM
exponential = ExponentialRNN
fastgrnn = FastGRNN
fastrnn = FastRNN
gated_antisymmetric = GatedAntisymmetricRNN
gru = GRU
indrnn = IndRNN
inverse_rnn = InverseRNN
irnn = IncrementalRNN
lem = LEM
linear_rnn = LinearRNN
lipschitz = LipschitzRNN
lstm = LSTM
lru = LRU
lu_rnn = LURNN
mingru = MinGRU
rnn = RNN
sru = SRU
unicornn = UnICORNN
