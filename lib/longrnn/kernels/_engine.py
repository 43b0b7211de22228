"""An engine of a cell: the function that runs it, and the inputs that it supports."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from torch import Tensor

Run = Callable[..., tuple[Tensor, tuple[Tensor, ...]]]
"""A function ``run(weights, state, u) -> (outputs, state)``."""
DTYPES = (torch.float32, torch.float64)
"""Types of inputs that engines support."""


@dataclass(frozen=True)
class Engine:
    """An engine of one cell: the function, and the inputs that it supports."""

    name: str
    cell: str
    run: Run
    devices: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Keyword arguments of `run` that select a method; they don't change the result."""
    obstacle: Callable[[], str] = str
    """Returns the reason why this machine can't run the engine; an empty string if it can.

    The default, ``str()``, is the empty string.
    """
    transforms: bool = True
    """Whether `torch.func` transforms (vmap, grad) work. If not, the reference runs inside them."""
    most_units: Callable[[torch.dtype], int] | None = None
    """Returns the largest hidden size for a dtype; None means no limit."""
    slower_from: int | None = None
    """Hidden size from which the next engine is faster on several threads, so that ``auto`` uses
    that one there."""
    takes_networks: bool = False
    """Whether one call takes several networks, as `torch.vmap` over their weights gives them."""
    opt_in: bool = False
    """Whether ``auto`` takes it only on a GPU where it was measured to be faster."""

    def refusal(
        self,
        device: str,
        options: Collection[str] = (),
        dtype: torch.dtype | None = None,
        units: int | None = None,
    ) -> str:
        """Return the reason why the engine can't run on an input; an empty string if it can.

        Parameters
        ----------
        device : str
            Type of the input's device.
        options : collection of str
            Names of the requested options.
        dtype : torch.dtype, optional
            Type of the input, if known.
        units : int, optional
            Hidden size, if known.

        Returns
        -------
        str
            End of an error message.
        """
        if device not in self.devices:
            return f"it runs on {' or '.join(self.devices)}, the input is on {device}"
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            return f"it has no option {unknown[0]!r}; it has {', '.join(self.options) or 'none'}"
        if dtype is not None and dtype not in DTYPES:
            return f"it computes in {' or '.join(map(str, DTYPES))}, the input is {dtype}"
        if units is not None and dtype is not None and self.most_units is not None:
            most = self.most_units(dtype)
            if units > most:
                return f"its hidden size is at most {most} in {dtype}, got {units}"
        return self.obstacle()

    def is_slower(self, units: int | None) -> bool:
        """Return whether the next engine is faster at a hidden size.

        Parameters
        ----------
        units : int or None
            Hidden size, if known.

        Returns
        -------
        bool
            False if the hidden size is unknown, or if PyTorch uses one thread.
        """
        if units is None or self.slower_from is None or units < self.slower_from:
            return False
        # `torch.compile` can't ask for the number of threads while it traces.
        return torch.compiler.is_compiling() or torch.get_num_threads() > 1
