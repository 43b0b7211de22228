"""Networks of one shape side by side: their losses in one pass, each as if it were alone.

The weights are stacked along a leading axis, `run`, and the readable reference of the cell is mapped over it: its products become
products of R matrices at once, its functions of numbers act on all R networks. Every network keeps its own parameters, and so its
own gradients, their norm, and its own optimiser; the stack lives for one pass.
"""

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from lib.training.batches import Batch
from lib.training.model import Dropout

TAIL = 32
"""Numbers at the end of an array that a CPU may compute one by one, and so round otherwise than those it takes many at a time."""

ALIGNED = 16
"""Numbers of whose multiple the recurrent dimension is on a CPU: a library rounds a product by where in memory its matrices begin."""


class Together:
    """Networks that are trained side by side.

    Parameters
    ----------
    models
        `lib.training.model.Model`, built alike: one cell with one set of hyper-parameters, and weights of one shape. Their weights are
        read anew in every pass.
    objective
        Maps a model, inputs and targets of a batch to a loss. It may call the model and `torch`, but not look at values.
    places
        Networks in a pass, at least as many as there are models: places that stay empty are filled with copies of a network that
        is there. The size of a product decides how a library rounds it; at a fixed number of places a network's bits do not
        depend on how many others there are. On a CPU, with one thread, further places take the end of every array (`TAIL`).

    Raises
    ------
    ValueError
        The models are not alike, there are more than places, their width on a CPU is no multiple of `ALIGNED`, or one draws
        random numbers in training: the numbers of a network would depend on which others draw beside it.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        objective: Callable[[nn.Module, Tensor, Tensor], Tensor],
        places: int,
    ) -> None:
        if not 0 < len(models) <= places:
            raise ValueError(f"expected between 1 and {places} networks, got {len(models)}")
        first = _built(models[0])
        for model in models[1:]:
            if differing := sorted(key for key, _ in first.items() ^ _built(model).items()):
                raise ValueError(f"expected networks built alike, they differ in {differing[0]}")
        if models[0].dropout != Dropout() or getattr(models[0].cell, "dropout", 0):
            raise ValueError(
                "expected networks without dropout side by side; train them one by one"
            )
        self._objective = objective
        width, more = models[0].cell.hidden_size, 0
        if next(models[0].parameters()).device.type == "cpu":
            if width % ALIGNED:
                raise ValueError(
                    f"expected a width that is a multiple of {ALIGNED} side by side on a CPU, got {width}"
                )
            more = -(-TAIL // width)
        self._places = places + more
        # Without weights of its own: it says what is computed. Data are looked at before a pass, since nothing inside can be.
        self._pattern = copy.deepcopy(models[0]).to("meta")
        self._pattern.cell._check = lambda u, state=None: None

    def losses(self, models: Sequence[nn.Module], batches: Sequence[Batch]) -> list[Tensor]:
        """Return the loss of each of some of the models on its own batch, as functions of its own parameters.

        Batches of one shape share a pass.
        """
        passes: dict[tuple, list[int]] = {}
        for i, batch in enumerate(batches):
            passes.setdefault(tuple(part.shape for part in batch), []).append(i)
        found: dict[int, Tensor] = {}
        for members in passes.values():
            stacked = self._stacked([models[i] for i in members])
            inputs, targets = (
                torch.stack(self._filled([batches[i][k] for i in members])) for k in (0, 1)
            )
            if inputs.device.type == "cpu" and not inputs.isfinite().all():
                raise ValueError("expected finite inputs, got values that are NaN or infinite")
            losses = torch.vmap(self._loss)(*stacked, inputs, targets)
            found |= zip(members, losses.unbind(), strict=False)  # the others' places are copies
        return [found[i] for i in range(len(models))]

    def _loss(self, parameters: dict, buffers: dict, inputs: Tensor, targets: Tensor) -> Tensor:
        def network(inputs: Tensor, *, engine: str = "reference") -> Tensor:
            return functional_call(
                self._pattern, (parameters, buffers), (inputs,), {"engine": engine}
            )

        return self._objective(network, inputs, targets)

    def _stacked(self, models: Sequence[nn.Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        return tuple(
            {name: torch.stack(self._filled([part[name] for part in parts])) for name in parts[0]}
            for parts in (
                [dict(model.named_parameters()) for model in models],
                [dict(model.named_buffers()) for model in models],
            )
        )

    def _filled(self, parts: list[Tensor]) -> list[Tensor]:
        return parts + [parts[0].detach()] * (self._places - len(parts))


def _built(model: nn.Module) -> dict[str, object]:
    """Return what two networks share that differ in their numbers alone: settings, and shapes by name."""
    settings = {
        f"{type(part).__name__} {where} {key}".replace("  ", " "): value
        for where, part in model.named_modules()
        for key, value in vars(part).items()
        if not key.startswith("_") and key != "training"
    }
    shapes = {name: (value.shape, value.dtype) for name, value in model.state_dict().items()}
    return settings | shapes
