"""The training pass of one model, captured once as a CUDA graph and then replayed.

On a GPU a pass launches dozens or thousands of kernels, and the host takes longer to launch them
than the GPU takes to run them. A replay takes the host hardly any time and gives the same bits.
The graph contains only the forward and backward pass, not clipping, optimizers or measurements;
`study.training.graphed_step` captures whole steps if the optimizer allows it.
"""

import os
from collections.abc import Callable

from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import parametrize

from study.config.network import Dropout
from study.training import vmapped_pass
from study.training.model import Model
from study.training.vmapped_pass import Objective

SWITCH = "LTD_CUDA_GRAPHS"
"""Environment variable that disables graphs of single models if it is ``0``."""
MOST_SHAPES = 8
"""Largest number of graphs, one per shape of a batch.

Batches of further shapes run without a graph.
"""


def with_graphs(objective: Objective, model: nn.Module) -> Objective:
    """Return an objective that replays CUDA graphs if possible.

    Parameters
    ----------
    objective : Objective
        It may call the model, but not use its submodules or branch on values.
    model : nn.Module
        The model that is trained, or only its head. Its parameters must stay at the same addresses,
        because a graph reads them from there.

    Returns
    -------
    Objective
        The same objective if no graph can be captured, see `graph_obstacle`.
    """
    if graph_obstacle(model):
        return objective
    return GraphedObjective(objective, model)


def graph_obstacle(model: nn.Module) -> str:
    """Return why passes of a model can't be captured.

    Parameters
    ----------
    model : nn.Module
        A whole model, or only its head.

    Returns
    -------
    str
        Empty if they can be captured.
    """
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH} is 0"
    device = next(model.parameters()).device.type
    if device not in vmapped_pass.GRAPH_DEVICES:
        return f"the model is on {device}"
    if any(map(parametrize.is_parametrized, model.modules())):
        return "PyTorch computes some parametrizations with data-dependent control flow"
    if isinstance(model, Model) and _has_dropout(model):
        return "the masks of dropout would be drawn differently"
    return ""


def _has_dropout(model: Model) -> bool:
    """Return whether a model, or its cell, has a dropout rate above zero."""
    rates = [getattr(model.dropout, name) for name in Dropout.model_fields]
    rates.append(getattr(model.cell, "dropout", 0))
    return any(rates)


class GraphedObjective:
    """An objective that captures a graph for each shape of batches, and replays it.

    Attributes
    ----------
    plain : Objective
        The same objective without graphs.
    captured : int
        Number of graphs.
    """

    def __init__(self, objective: Objective, model: nn.Module) -> None:
        self.plain = objective
        self._model = model
        self._names = [name for name, _ in model.named_parameters()]
        self._passes: dict[tuple, Callable[..., Tensor]] = {}
        self._refused = False
        self.captured = 0

    def __call__(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of a batch."""
        shape = (inputs.shape, inputs.dtype, targets.shape, targets.dtype)
        is_new = shape not in self._passes
        full = len(self._passes) == MOST_SHAPES
        if model is not self._model or self._refused or (is_new and full):
            return self.plain(model, inputs, targets)
        tensors = (*model.parameters(), inputs, targets)
        if is_new:
            self._passes[shape] = self._capture(tensors)
        return self._passes[shape](*tensors)

    def _run(self, *tensors: Tensor) -> Tensor:
        """Return the loss for parameters, inputs and targets."""
        *parameters, inputs, targets = tensors
        weights = dict(zip(self._names, parameters, strict=True))

        def network(inputs: Tensor, **options: object) -> Tensor:
            return functional_call(self._model, weights, (inputs,), options)

        return self.plain(network, inputs, targets)

    def _capture(self, tensors: tuple[Tensor, ...]) -> Callable[..., Tensor]:
        """Return `_run` as a CUDA graph for tensors of these shapes; `_run` if that fails."""
        static = []
        for part in tensors[:-2]:  # the parameters' own memory, which is not copied
            static.append(part.detach().requires_grad_(part.requires_grad))
        static += [part.clone() for part in tensors[-2:]]
        replay = vmapped_pass.capture_graph(self._run, tuple(static))
        if replay is None:
            self._refused = True
            return self._run
        self.captured += 1
        return replay
