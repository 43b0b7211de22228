"""Why an exponential RNN's adjoint is exactly zero behind blank inputs, and why the network is not to blame."""

from collections.abc import Mapping

import pandas as pd
import torch
from torch import Tensor

from lib.cells import make_cell


def blank_adjoints(
    cases: Mapping[str, tuple[float, float]],
    *,
    width: int = 16,
    blank: int = 10,
    inputs: int = 20,
    seed: int = 0,
) -> pd.DataFrame:
    """Measure the adjoint at the first of some blank inputs by automatic differentiation and by finite differences.

    Parameters
    ----------
    cases
        Sizes of the modReLU's bias and of the state before the first input, by name; both are drawn from the uniform
        distribution of this half width, 0 for none.
    width
        Recurrent dimension.
    blank, inputs
        Zeros that the sequence begins with, and random inputs after them.
    seed
        Draws weights, inputs and the read-out.

    Returns
    -------
    pandas.DataFrame
        ``case``, ``automatic`` and ``finite``: log10 of the norm of the derivative of a linear read-out by the first state,
        -inf where it is zero.

    Notes
    -----
    Blank inputs leave a state of zero at zero. There sign(a) max(|a| + b, 0) with b = 0 is the identity, of slope 1, but
    the library takes the slopes of the sign and of the absolute value at zero for 0. With b > 0 the function jumps at zero,
    and finite differences grow as their step shrinks.
    """
    draw = torch.Generator().manual_seed(seed)
    u = torch.rand(blank + inputs, 1, 1, dtype=torch.float64, generator=draw)
    u[:blank] = 0
    readout = torch.randn(width, dtype=torch.float64, generator=draw)
    rows = []
    for name, (bias, start) in cases.items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            cell = make_cell("exponential", 1, width).double().requires_grad_(False)
            cell.b.uniform_(-bias, bias)
            before = torch.empty(1, width, dtype=torch.float64).uniform_(-start, start)

        def end(x: Tensor, cell=cell) -> Tensor:
            rest = u[1:].expand(-1, len(x), 1)
            return cell(rest, (x,), engine="reference")[0][-1] @ readout

        first = cell(u[:1], (before,))[0][0].requires_grad_()
        (automatic,) = torch.autograd.grad(end(first).sum(), first)
        steps = 1e-6 * torch.eye(width, dtype=torch.float64)
        finite = (end(first.detach() + steps) - end(first.detach() - steps)) / 2e-6
        rows.append((name, *(part.norm().log10().item() for part in (automatic, finite))))
    return pd.DataFrame(rows, columns=["case", "automatic", "finite"])
