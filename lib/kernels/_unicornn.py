"""What UnICORNN's engines share: the stack of layers, and what a layer keeps for its way back.

An engine says how a layer runs on its device; equations and ways back are those of `lib.kernels.cpu_unicornn`.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from lib.kernels._recurrence import Recurrence, drive, per_chain


def recurrence_of(there: Callable[..., tuple], back: Callable[..., tuple]) -> Recurrence:
    """Return one layer as a function ``(way, checkpoint, *sources, w, h, alpha, g, y0, z0) -> (y, (y_T, z_T))``.

    The way back keeps the `sources` in place of g, which `_drive` makes of them again. `w` and `h` are the weights and steps of
    each chain, (batch, hidden).

    Parameters
    ----------
    there
        ``there(w, h, alpha, g, y0, z0, every) -> (y, z, z_T)``: positions at all times, velocities (time // every, batch,
        hidden) after every `every` steps, and the last velocity.
    back
        ``back(w, h, alpha, g, way, kept, every, arrived, *carried) -> (by_w, by_h, by_g, by_y0, by_z0)``: the gradients, from
        what the way back `way` keeps: ``stored`` y0, y and z, ``recovered`` y0 and y, ``reversible`` y and z after every
        `every` steps and after the last.
    """

    def forward(way, checkpoint, *inputs):
        *_, w, h, alpha, g, y0, z0 = inputs
        every = {"stored": 1, "recovered": len(g) + 1, "reversible": checkpoint}[way]
        y, z, z_end = there(w, h, alpha, g, y0, z0, every)
        kept = {
            "stored": (y0, y, z),
            "recovered": (y0, y),
            "reversible": (y[every - 1 :: every].contiguous(), z, y[-1].clone(), z_end),
        }[way]
        return y, [y[-1], z_end], kept

    def backward(way, checkpoint, below, V, b, skipped, skip, w, h, alpha, *more):
        *kept, arrived, of_y, of_z = more
        g = _drive(below, V, b, skipped, skip)
        by_w, by_h, *others = back(w, h, alpha, g, way, kept, checkpoint, arrived, of_y, of_z)
        return by_w, by_h, None, *others

    return Recurrence(forward, backward, saved=tuple(range(10)), arrays=False)


def run_layers(
    recurrence: Recurrence, weights, state, u: Tensor, *, backward: str, checkpoint: int
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run all layers; arguments and results as for `lib.kernels.cpu_unicornn.unicornn`."""
    layers, dts, alpha, skip, skips, masks = weights.stacked()
    handed, final = [u], []
    for k, ((w, V, b, c), dt) in enumerate(zip(layers, dts, strict=True), start=1):
        y0, z0 = state[2 * k - 2 : 2 * k]
        w, h = per_chain(w, y0), per_chain(dt * torch.sigmoid(c), y0)
        skipped = None if skips[k - 1] is None else handed[k - skip - 1]
        sources = handed[-1], V, b, skipped, skips[k - 1]
        if backward == "stored":
            sources = of_drive(_drive(*sources))
        kept = (None if part is None else part.detach() for part in sources)
        outputs, ends = recurrence(
            backward, checkpoint, *kept, w, h, alpha, _drive(*sources), y0, z0
        )
        final += ends
        # The mask is the same at all times.
        handed.append(outputs if masks[k - 1] is None else masks[k - 1] * outputs)
    return outputs, tuple(final)


def of_drive(g: Tensor) -> tuple:
    """Return the sources of a drive that is kept as it is."""
    return g, None, None, None, None


def _drive(below, V, b, skipped, skip) -> Tensor:
    """Return what a layer is driven by, (103) where there is a residual connection."""
    if V is None:
        return below
    g = drive(below, V, b)
    return g if skip is None else g + drive(skipped, skip)
