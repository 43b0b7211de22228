"""What UnICORNN's engines share: the stack of layers, and what a layer keeps for its way back.

An engine says how a layer runs on its device (`Device`); equations and ways back are those of `lib.kernels.cpu_unicornn`.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lib.kernels._recurrence import drive


class Device(NamedTuple):
    """How one layer runs on a device.

    Attributes
    ----------
    neurons
        ``neurons(w, c, dt, alpha, y0) -> (w, h, alpha)``: weights and steps of each chain (batch, hidden), and the frequency
        as `there` and `back` take it.
    there
        ``there(w, h, alpha, g, y0, z0, every) -> (y, z, z_T)``: positions at all times, velocities (time // every, batch,
        hidden) after every `every` steps, and the last velocity.
    back
        ``back(w, h, alpha, g, way, kept, every, arrived, carried) -> (by_w, by_h, by_g, by_y0, by_z0)``: the gradients, from
        what the way back `way` keeps (see `Layer`), what arrived at the outputs, and at the final state, which it may write over.
    """

    neurons: Callable[..., tuple]
    there: Callable[..., tuple[Tensor, Tensor, Tensor]]
    back: Callable[..., tuple[Tensor, ...]]


class Layer(torch.autograd.Function):
    """One layer on a `Device`; its g is ``make(*sources)``, which the way back repeats.

    ``stored`` keeps y0, y and z, ``recovered`` y0 and y, ``reversible`` y and z after every `checkpoint` steps and after the last.
    """

    @staticmethod
    def forward(
        ctx, device, w, h, alpha, y0, z0, backward, checkpoint, make, *sources
    ) -> tuple[Tensor, Tensor, Tensor]:
        g = make(*sources)
        every = {"stored": 1, "recovered": len(g) + 1, "reversible": checkpoint}[backward]
        y, z, z_end = device.there(w, h, alpha, g, y0, z0, every)
        y_end = y[-1].clone()
        kept = {
            "stored": (y0, y, z),
            "recovered": (y0, y),
            "reversible": (y[every - 1 :: every].contiguous(), z, y_end, z_end),
        }[backward]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(w, h, *kept, *sources)
        ctx.device, ctx.alpha, ctx.every, ctx.way, ctx.make = device, alpha, every, backward, make
        ctx.kept = len(kept)
        return y, y_end, z_end

    @staticmethod
    @once_differentiable
    def backward(ctx, from_y: Tensor | None, *from_final: Tensor | None) -> tuple:
        w, h, *saved = ctx.saved_tensors
        kept, sources = saved[: ctx.kept], saved[ctx.kept :]
        sources = [
            source.detach().requires_grad_(needed)
            for source, needed in zip(sources, ctx.needs_input_grad[9:], strict=True)
        ]
        with torch.enable_grad():
            g = ctx.make(*sources)
        arrived = torch.zeros_like(g) if from_y is None else from_y
        carried = [torch.zeros_like(w) if part is None else part.clone() for part in from_final]
        by_w, by_h, by_g, by_y0, by_z0 = ctx.device.back(
            w, h, ctx.alpha, g.detach(), ctx.way, kept, ctx.every, arrived, carried
        )
        needed = [source for source in sources if source.requires_grad]
        found = iter(torch.autograd.grad(g, needed, by_g) if needed else ())
        of_sources = (next(found) if source.requires_grad else None for source in sources)
        return None, by_w, by_h, None, by_y0, by_z0, None, None, None, *of_sources


def itself(g: Tensor) -> Tensor:
    """Return the drive that is kept as it is."""
    return g


def run_layers(
    device: Device, weights, state, u: Tensor, *, backward: str, checkpoint: int
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run all layers; arguments and results as for `lib.kernels.cpu_unicornn.unicornn`."""
    layers, dts, alpha, skip, skips, masks = weights.stacked()
    handed, final = [u], []
    for k, ((w, V, b, c), dt) in enumerate(zip(layers, dts, strict=True), start=1):
        y0, z0 = state[2 * k - 2 : 2 * k]
        neurons = device.neurons(w, c, dt, alpha, y0)
        make, sources = _drive, (handed[-1], V, b)
        if skips[k - 1] is not None:
            sources += (handed[k - skip - 1], skips[k - 1])
        if backward == "stored":
            make, sources = itself, (make(*sources),)
        outputs, y, z = Layer.apply(device, *neurons, y0, z0, backward, checkpoint, make, *sources)
        final += [y, z]
        # The mask is the same at all times.
        handed.append(outputs if masks[k - 1] is None else masks[k - 1] * outputs)
    return outputs, tuple(final)


def _drive(below: Tensor, V: Tensor, b: Tensor, *skipped: Tensor) -> Tensor:
    """Return what a layer is driven by, (103) where there is a residual connection."""
    g = drive(below, V, b)
    return g + drive(*skipped) if skipped else g
