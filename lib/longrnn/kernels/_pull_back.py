"""The interface of kernels that pull adjoint states back, on all devices.

To pull an adjoint back over a step is to multiply it by the transposed Jacobian of the step. The
kernels do this for the LSTM and the GRU, with a unit vector per sequence. Every few steps they
normalize it again, and add the log10 of its norm to the log10 norm of the sequence's adjoint.
`longrnn.probes.adjoint` calls them.
"""

from typing import Protocol

import torch
from torch import Tensor


class Carried:
    """The adjoints of a batch at one time: unit vectors, log10 norms, and what was lost.

    Attributes
    ----------
    adjoint : (states, batch, hidden)
        Adjoints divided by their norms.
    log_norm : (batch,)
        log10 of these norms.
    lost : (batch,)
        Not zero for a sequence whose adjoint left the range of floats between two normalizations.
    """

    def __init__(self, adjoint: tuple[Tensor, ...], log_norm: Tensor) -> None:
        self.adjoint = torch.stack(adjoint)
        self.log_norm = log_norm.clone()
        self.lost = torch.zeros_like(self.log_norm)


class PullBack(Protocol):
    """The steps of a cell, and the adjoints that are pulled back over them."""

    vectors: int
    """Vectors of the hidden size that are stored per step and sequence."""
    stored_bytes: int
    """Bytes that one stretch of steps may store."""

    @staticmethod
    def forward(weights, state, u):
        """Run some steps.

        Parameters
        ----------
        weights : tuple
            W, R and b; see the `step` of the cell, such as `longrnn.cells.lstm.LSTMCore.step`.
        state : tuple of (batch, d)
            The state before the first step.
        u : (time, batch, p)
            The inputs of the steps.

        Returns
        -------
        state : tuple of (batch, d)
            The state after the last step.
        saved : tuple of Tensor
            What `pull_back` needs.
        """

    @staticmethod
    def pull_back(weights, saved, carried, every, wanted):
        """Pull adjoints back over some steps.

        Parameters
        ----------
        weights : tuple
            As for `forward`.
        saved : tuple of Tensor
            From `forward`.
        carried : Carried
            The adjoints after the last step; they become those before the first.
        every : int
            Number of steps between two normalizations.
        wanted : (time,)
            Not zero at the steps before which norms are wanted.

        Returns
        -------
        readout, full : (time, batch)
            log10 norms of the adjoints of h and of the full state, before the wanted steps.
        """
