"""One vmapped forward pass for several networks of the same shape.

The weights of R networks are stacked along a leading axis, `run`, and the cell is vmapped over it.
With the reference implementation, R matrix products become one batched product. A GPU engine for
independent neurons computes all networks in one kernel launch. Each loss depends only on the
parameters of its own network, so every network has its own gradients, gradient norm and optimizer.
The weights are stacked again for every pass.

On a GPU a forward and backward pass launches thousands of small kernels, and each launch takes
longer than the kernel itself. The pass is therefore captured once as a CUDA graph and then
replayed. The graph contains neither the optimizers nor the parametrizations (such as a matrix
exponential). PyTorch computes parametrizations with data-dependent control flow, which a graph
can't contain.
"""

import copy
import math
from collections.abc import Callable, Sequence

import torch
from longrnn import kernels
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import parametrize

from study.training.log import log_line

Objective = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""Maps a model, and the inputs and targets of a batch, to the scalar to minimize.

It is defined here, because a GPU machine that only benchmarks this pass does not have the packages
that tasks need.
"""
VECTOR_TAIL = 32
"""Number of elements at the end of an array that a CPU may compute without vector instructions.

Their last bits may then differ.
"""

GRAPH_DEVICES = ("cuda",)
"""Types of devices on which a pass is captured as a graph."""


class VmappedPass:
    """The forward pass of several networks with the same architecture as `model`.

    The networks have the same cell, hyperparameters and shapes of weights. They must not use
    dropout, because the masks of one network would depend on the others.

    The pass always computes the same number of networks. If there are fewer, copies of the first
    network are added. Matrix products of different sizes round differently, so only a fixed size
    gives a network the same bits however many other networks there are. On a CPU, further copies
    are appended so that no real network is among the last `VECTOR_TAIL` numbers of an array. This
    requires that PyTorch uses one thread.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        pass_size: int,
        *,
        use_cuda_graph: bool = True,
        engine: str = "auto",
    ) -> None:
        """Prepare the pass.

        Parameters
        ----------
        model : nn.Module
            One of the networks (`study.training.model.Model`).
        objective : Objective
            Maps a model, inputs and targets to a loss. It must not branch on values.
        pass_size : int
            Largest number of networks.
        use_cuda_graph : bool
            Whether to capture and replay the pass on a GPU. If the capture fails, passes run
            without a graph, and a line on standard error says so.
        engine : str
            Engine of the cell; ``auto`` for the one that `longrnn.kernels.choose_for_runs` returns.
        """
        self._objective = objective
        weight = next(model.parameters())
        device = weight.device.type
        self.engine = engine
        """Engine of the cell."""
        if engine == "auto":
            self.engine = kernels.choose_for_runs(
                model.cell.name, device, weight.dtype, model.cell.hidden_size
            )
        self._stack_size = pass_size
        if device == "cpu":
            self._stack_size += math.ceil(VECTOR_TAIL / model.cell.hidden_size)
        # Both copies are on the meta device, so they hold no data.
        self._parametrizations = _parametrized_weights_of(model).to("meta")
        self._has_parametrizations = any(map(parametrize.is_parametrized, model.modules()))
        self._template = _without_parametrizations(model).to("meta")
        self._names = [name for name, _ in self._template.named_parameters()]
        self._names += [name for name, _ in self._template.named_buffers()]
        self.uses_cuda_graph = use_cuda_graph and device in GRAPH_DEVICES
        """Whether passes replay a graph; False after a failed capture."""
        self._pass: Callable[..., Tensor] | None = None
        """Maps stacked weights, inputs and targets to losses, (run,); None before the first use."""

    def losses(
        self, models: Sequence[nn.Module], batches: Sequence[tuple[Tensor, Tensor]]
    ) -> list[Tensor]:
        """Return the loss of each model on its own batch.

        Parameters
        ----------
        models : sequence of nn.Module
            At most `pass_size` models.
        batches : sequence of (Tensor, Tensor)
            Inputs and targets for each model, with the same shapes for all models.

        Returns
        -------
        list of Tensor
            One scalar per model, differentiable with respect to the model's own parameters.
        """
        inputs = [batch_inputs for batch_inputs, _ in batches]
        targets = [batch_targets for _, batch_targets in batches]
        tensors = (*self._stack_weights(models), self._stack(inputs), self._stack(targets))
        if self._pass is None:
            self._pass = self._capture(tensors) if self.uses_cuda_graph else self._run
        losses = self._pass(*tensors)
        return list(losses[: len(models)])  # the rest are losses of copies

    def _run(self, *tensors: Tensor) -> Tensor:
        """Return the losses, (run,), for stacked weights, inputs and targets."""

        # The loss of one network. `torch.vmap` maps it over the leading axis of all tensors.
        def loss(weights: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
            # The objective calls this as its model: the template with this network's weights.
            def network(inputs: Tensor, *, engine: str = self.engine) -> Tensor:
                return functional_call(self._template, weights, (inputs,), {"engine": engine})

            return self._objective(network, inputs, targets)

        *weights, inputs, targets = tensors
        return torch.vmap(loss)(dict(zip(self._names, weights, strict=True)), inputs, targets)

    def _capture(self, tensors: tuple[Tensor, ...]) -> Callable[..., Tensor]:
        """Return `_run` as a CUDA graph for tensors of these shapes; `_run` if that fails."""
        static = tuple(tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors)
        replay = capture_graph(self._run, static)
        if replay is None:
            self.uses_cuda_graph = False
            return self._run
        return replay

    def _stack_weights(self, models: Sequence[nn.Module]) -> list[Tensor]:
        """Return stacked weights, each (run, ...), as functions of the models' own parameters."""
        tensors = [dict(model.named_parameters()) | dict(model.named_buffers()) for model in models]
        weights = {}
        for name in tensors[0]:
            weights[name] = self._stack([of_model[name] for of_model in tensors])
        if self._has_parametrizations:
            # Add the weights that are functions of free parameters, such as orthogonal matrices.
            compute = torch.vmap(lambda free: functional_call(self._parametrizations, free, ()))
            weights |= compute(weights)
        return [weights[name] for name in self._names]

    def _stack(self, tensors: list[Tensor]) -> Tensor:
        """Stack one tensor per network, filled up with copies of the first."""
        missing = self._stack_size - len(tensors)
        return torch.stack(tensors + [tensors[0].detach()] * missing)


def capture_graph(
    compute: Callable[..., Tensor], static: tuple[Tensor, ...]
) -> Callable[..., Tensor] | None:
    """Capture a function's forward and backward pass as a CUDA graph.

    Parameters
    ----------
    compute : callable
        The function of these tensors.
    static : tuple of Tensor
        Tensors whose memory the graph reads. A replay first copies its arguments there, unless they
        already have this memory.

    Returns
    -------
    callable or None
        A function of equally shaped tensors that replays the graph. None if the capture failed; a
        line on standard error says why.

    Raises
    ------
    torch.OutOfMemoryError
        The device has too little memory.
    """
    try:
        return torch.cuda.make_graphed_callables(compute, static, allow_unused_input=True)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        report_failed_capture(error, "forward and backward passes")
        return None


def report_failed_capture(error: RuntimeError, work: str) -> None:
    """Print that work is done without a CUDA graph.

    Parameters
    ----------
    error : RuntimeError
        The first line of its message is the reason.
    work : str
        What could not be captured, such as ``whole steps``.
    """
    reason = str(error).partition("\n")[0]
    log_line(f"training without a CUDA graph of {work}, which is slower: {reason}")


def _parametrized_weights_of(model: nn.Module) -> nn.Module:
    """Return a copy whose `forward` returns all parametrized weights by their full names."""
    model = copy.deepcopy(model)
    parametrized = [
        (f"{where}.{name}", module, name)
        for where, module in model.named_modules()
        if parametrize.is_parametrized(module)
        for name in module.parametrizations
    ]
    model.forward = lambda: {label: getattr(module, name) for label, module, name in parametrized}
    return model


def _without_parametrizations(model: nn.Module) -> nn.Module:
    """Return a copy in which every parametrized weight is an ordinary parameter."""
    model = copy.deepcopy(model)
    for module in list(filter(parametrize.is_parametrized, model.modules())):
        weights = {name: getattr(module, name).detach() for name in module.parametrizations}
        # `parametrize.remove_parametrizations` would change the class, which the original model
        # shares. PyTorch 2.13 gives a parametrized module a subclass of its class, so the first
        # base is the class without parametrizations.
        module.__class__ = type(module).__bases__[0]
        del module.parametrizations
        for name, weight in weights.items():
            module.register_parameter(name, nn.Parameter(weight))
    return model
