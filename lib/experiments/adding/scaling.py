"""The text's own illustration, measured: what a matrix that is too large or too small does to the adjoint states.

Section 2.9 considers a W of norm 2 with the slope of the activation set to 1. Here the networks start as in the
experiment, W is multiplied by a number, and the adjoint states of untrained networks are measured; inputs that are turned
down to almost nothing make tanh's slope 1.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
import torch
from torch.nn import functional as F

from lib.experiments.adding.training import Adder, Training, start
from lib.probes.adjoint import adjoint_norms
from lib.tasks.adding import draw_sums

NETWORKS = ("rnn", "inverse_rnn", "lu_rnn")


def scaled_adjoints(
    scales: Sequence[float],
    loudness: Sequence[float],
    *,
    width: int,
    time_steps: int,
    tau: int,
    size: int,
) -> pd.DataFrame:
    """Measure the adjoint states of untrained networks whose W is multiplied by each of `scales`.

    Parameters
    ----------
    scales
        Factors of the matrix that is orthogonal at 1.
    loudness
        Factors of the inputs' effect R u + b; near 0 the network is linear.
    width, time_steps, tau
        Recurrent dimension, length of the sequences, and steps between interchanges.
    size
        Number of sequences.

    Returns
    -------
    pandas.DataFrame
        Columns ``architecture``, ``scale``, ``loudness``, ``time`` and ``log10_ratio``, the median over sequences of the
        adjoint state's length relative to the last one.
    """
    part = draw_sums(time_steps, size, np.random.default_rng(0))
    u = torch.from_numpy(part.inputs).transpose(0, 1)
    rows = []
    for name, scale, level in product(NETWORKS, scales, loudness):
        model = _network(name, scale, level, width, time_steps, tau)
        output, sums = model.output.double(), torch.from_numpy(part.targets[:, 0]).double()
        norms = adjoint_norms(
            model.cell,
            u,
            lambda x, output=output, sums=sums: F.mse_loss(output(x)[:, 0], sums, reduction="sum"),
        )
        relative = (norms.readout - norms.readout[-1]).median(dim=1).values
        rows += [
            {
                "architecture": name,
                "scale": scale,
                "loudness": level,
                "time": t,
                "log10_ratio": value,
            }
            for t, value in zip(norms.times, relative.tolist(), strict=True)
        ]
    return pd.DataFrame(rows)


def _network(name: str, scale: float, level: float, width: int, time_steps: int, tau: int) -> Adder:
    """Return a network as it starts in the experiment, with W and the inputs' effect scaled."""
    model = start(
        Training(
            architecture=name,
            time_steps=time_steps,
            learning_rate=0.001,
            replicate=0,
            training_steps=1,
            width=width,
            tau=tau,
            batch_size=1,
            clip=1.0,
            checkpoints=1,
            test_size=1,
            probe_size=1,
            flush_denormals=False,
            engine="reference",
        )
    )
    cell = model.requires_grad_(False).cell
    if name == "lu_rnn":
        L, U, *_ = cell.weights()
        cell.set_matrix(scale * (L @ U))
    else:
        cell.W.mul_(scale)
    cell.R.mul_(level)
    cell.b.mul_(level)
    return model
