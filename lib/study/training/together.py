"""The vmapped pass of several networks of one shape: each network's loss as if it were alone.

The weights are stacked along a leading axis, `run`, and the readable reference of the cell is
mapped over it. Products become products of R matrices at once, and elementwise functions act on all
R networks. Every network keeps its own parameters, and so its own gradients, their norm, and its
own optimizer. The stack lives for one pass.

On a GPU a pass, forward and backward, is thousands of small operators, each of which takes the host
longer than the device. So it is recorded once as a CUDA graph and then replayed: stacks are copied
to where the graph reads, and losses and gradients lie where it writes. The optimizers stay outside,
and so do weights that are maps of free parameters (a matrix exponential), since PyTorch computes
those with a look at the values.
"""

import copy
import sys
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import parametrize

Objective = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""Maps a model, inputs and targets of a batch to the number that is minimized.

It stands here because a GPU box has no package that tasks need.
"""
TAIL = 32
"""Numbers at the end of an array that a CPU may compute one by one.

It may round them differently from those that it computes many at a time.
"""

RECORDED = ("cuda",)
"""Devices on which a pass is recorded and replayed."""


class Together:
    """A pass over networks that are trained side by side, built like one `model`.

    They have the same cell and hyper-parameters, and weights of one shape. None of them has
    dropout, since the masks of a network would depend on the others that draw.

    A pass has room for a fixed number of networks, and empty places are filled with copies: the
    size of a product decides how a library rounds it. At a fixed size the bits of a network don't
    depend on how many others there are. On a CPU, with one thread, further places take the end of
    every array (`TAIL`).
    """

    def __init__(
        self, model: nn.Module, objective: Objective, pass_size: int, *, record: bool = True
    ) -> None:
        """Prepare the pass.

        Parameters
        ----------
        model : nn.Module
            One of the networks (`study.training.model.Model`).
        objective : Objective
            May call the model and `torch`, but not look at values.
        pass_size : int
            Number of networks that a pass has room for.
        record : bool
            Whether a pass is recorded and replayed on a GPU. If the GPU refuses to, passes run
            plainly, and a line says so.
        """
        self._objective = objective
        width = model.cell.hidden_size
        device = next(model.parameters()).device.type
        self._pass_size = pass_size + (-(-TAIL // width) if device == "cpu" else 0)
        # Structure-only copies. Input checks are off: vmap can't branch on values, and the data was
        # validated when it was prepared.
        self._maps = _maps(model).to("meta")
        self._mapped = any(map(parametrize.is_parametrized, model.modules()))
        self._pattern = _unmapped(model).to("meta")
        self._pattern.cell._check = lambda u, state=None: None
        parts = (self._pattern.named_parameters(), self._pattern.named_buffers())
        self._names = [name for named in parts for name, _ in named]
        self.recorded = record and device in RECORDED
        """Whether passes are replayed."""
        self._pass: Callable[..., Tensor] | None = None
        """What maps stacked weights, inputs and targets to the losses, (run,)."""

    def losses(
        self, models: Sequence[nn.Module], batches: Sequence[tuple[Tensor, Tensor]]
    ) -> list[Tensor]:
        """Return the loss of each model on its own batch.

        Parameters
        ----------
        models : sequence of nn.Module
            At most as many as a pass has room for.
        batches : sequence of (Tensor, Tensor)
            Inputs and targets for each model, all of one shape.

        Returns
        -------
        list of Tensor
            Scalars, each a function of its model's own parameters.
        """
        data = (torch.stack(self._filled(list(parts))) for parts in zip(*batches, strict=True))
        tensors = (*self._stacked(models), *data)
        if self._pass is None:
            self._pass = self._recorded(tensors) if self.recorded else self._plain
        return list(self._pass(*tensors)[: len(models)])  # the others' places are copies

    def _plain(self, *tensors: Tensor) -> Tensor:
        def loss(weights: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
            def network(inputs: Tensor, *, engine: str = "reference") -> Tensor:
                return functional_call(self._pattern, weights, (inputs,), {"engine": engine})

            return self._objective(network, inputs, targets)

        *weights, inputs, targets = tensors
        return torch.vmap(loss)(dict(zip(self._names, weights, strict=True)), inputs, targets)

    def _recorded(self, tensors: tuple[Tensor, ...]) -> Callable[..., Tensor]:
        """Return the pass as a graph that reads from where these tensors lie."""
        static = tuple(part.detach().requires_grad_(part.requires_grad) for part in tensors)
        try:
            return torch.cuda.make_graphed_callables(self._plain, static, allow_unused_input=True)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            print(f"passes are not recorded, and so slower: {reason}", file=sys.stderr, flush=True)
            self.recorded = False
            return self._plain

    def _stacked(self, models: Sequence[nn.Module]) -> list[Tensor]:
        """Return stacked weights, each (run, ...), as functions of the models' own parameters."""
        tensors = [dict(model.named_parameters()) | dict(model.named_buffers()) for model in models]
        weights = {
            name: torch.stack(self._filled([part[name] for part in tensors])) for name in tensors[0]
        }
        if self._mapped:
            weights |= torch.vmap(lambda one: functional_call(self._maps, one, ()))(weights)
        return [weights[name] for name in self._names]

    def _filled(self, parts: list[Tensor]) -> list[Tensor]:
        return parts + [parts[0].detach()] * (self._pass_size - len(parts))


def _maps(model: nn.Module) -> nn.Module:
    """Return a copy that, when called, returns the weights that are maps of free parameters."""
    model = copy.deepcopy(model)
    mapped = [
        (f"{where}.{name}", part, name)
        for where, part in model.named_modules()
        if parametrize.is_parametrized(part)
        for name in part.parametrizations
    ]
    model.forward = lambda: {label: getattr(part, name) for label, part, name in mapped}
    return model


def _unmapped(model: nn.Module) -> nn.Module:
    """Return a copy whose maps are plain weights."""
    model = copy.deepcopy(model)
    for part in [part for part in model.modules() if parametrize.is_parametrized(part)]:
        weights = {name: getattr(part, name).detach() for name in part.parametrizations}
        # PyTorch's own removal would take the weights' names from the class, and so from the copied
        # model, too.
        part.__class__ = type(part).__bases__[0]
        del part.parametrizations
        for name, weight in weights.items():
            part.register_parameter(name, nn.Parameter(weight))
    return model
