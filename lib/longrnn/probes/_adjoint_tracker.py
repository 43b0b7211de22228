"""An adjoint state beyond the range of floats: unit vectors and log10 norms, and recorded norms."""

from collections.abc import Sequence

import torch
from torch import Tensor

from longrnn.cells import State


class Tracker:
    """The current adjoint, as a unit vector and a log10 norm per sequence, and recorded norms.

    Parameters
    ----------
    readout
        Index in the state of the tensor that is the output.
    wanted
        Times at which norms are recorded.
    adjoint : tuple of (batch, hidden)
        The last adjoint.
    """

    def __init__(self, readout: int, wanted: set[int], adjoint: State) -> None:
        self.readout = readout
        self.wanted = wanted
        self._recorded: dict[int, tuple[Tensor, Tensor]] = {}
        self.log_norm = adjoint[0].new_zeros(len(adjoint[0]), dtype=torch.float64)
        self.renormalize(adjoint)

    def renormalize(self, adjoint: State) -> None:
        """Make the pulled-back unit vectors the current adjoint, and normalize them.

        Parameters
        ----------
        adjoint : tuple of (batch, hidden)
            The current unit vectors after they were pulled back.
        """
        norm = norm_of(adjoint)
        self.log_norm = self.log_norm + norm.log10()
        safe = torch.where(norm > 0, norm, torch.ones_like(norm))
        self.unit = tuple(part / safe[:, None] for part in adjoint)

    def record(self, t: int, adjoint: State | None = None) -> None:
        """Record the norms at a time, if they are wanted.

        Parameters
        ----------
        t
            The time.
        adjoint : tuple of (batch, hidden), optional
            The current unit vectors pulled back to time t; the unit vectors themselves by default.
        """
        if t in self.wanted:
            if adjoint is None:
                adjoint = self.unit
            # If the unit vector is zero, so is the adjoint: its log10 norm is -inf already.
            readout = self.log_norm + norm_of((adjoint[self.readout],)).log10()
            self._recorded[t] = readout, self.log_norm + norm_of(adjoint).log10()

    def record_measured(self, start: int, readout: Tensor, full: Tensor) -> None:
        """Record norms that a kernel measured.

        Parameters
        ----------
        start
            Time of the first norm; the others follow step by step.
        readout, full : (time, batch)
            log10 norms; those at times that are not wanted are ignored.
        """
        for t in range(start, start + len(readout)):
            if t in self.wanted:
                self._recorded[t] = readout[t - start], full[t - start]

    def stacked(self, times: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the recorded norms.

        Parameters
        ----------
        times
            Times at which norms were recorded.

        Returns
        -------
        readout, full : (times, batch)
            log10 norms of the output tensor of the state, and of the full state.
        """
        readout, full = zip(*(self._recorded[t] for t in times), strict=True)
        return torch.stack(readout), torch.stack(full)


def norm_of(adjoint: State) -> Tensor:
    """Return the Euclidean norm over all state tensors, without underflow of the squares.

    Parameters
    ----------
    adjoint : tuple of (batch, hidden)
        One tensor per state tensor.

    Returns
    -------
    (batch,)
    """
    stacked = torch.cat(adjoint, dim=1)
    largest = stacked.abs().amax(dim=1)
    scale = torch.where(largest > 0, largest, torch.ones_like(largest))
    return scale * torch.linalg.vector_norm(stacked / scale[:, None], dim=1)
