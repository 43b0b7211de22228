"""A whole training step of one model as one CUDA graph: pass, clipping, and optimizer.

`study.training.graphed_objective` captures the forward and backward pass. What remains of a step
then takes the host longer than the pass: it copies the gradients out of the graph, clips them, and
launches the optimizer's kernels. In a graph of the whole step the host only copies a batch and
replays.

A replay must give the same bits as the step without a graph. So a step is captured only with an
optimizer that computes the same bits in a graph (`step_obstacle`):

- SGD.
- RMSprop, with its counters of steps on the GPU (``capturable``), which nothing else reads.
- Adam with the option ``fused``. PyTorch's default Adam computes its bias corrections on the host,
  and a graph would keep those of the step that was captured. With ``capturable`` it computes them
  in tensors, which rounds differently from the default. The fused Adam rounds differently, too, but
  it gives the same bits with and without a graph.

Learning rates are numbers in the graph. When one drops, the step is captured again. A cosine
changes it at every step, so such a step is not captured. (A learning rate in a tensor would be
rounded to float32, and a schedule would accumulate the rounding.)

The first steps with a shape of batches are taken without a graph: they compile kernels, and create
the optimizer's state, which a graph must not create.

In a vmapped pass (`study.training.batched`), every network has its own optimizer, and no graph
contains these. For 50 small networks, clipping and the default Adam took 9 ms of one core of an AMD
EPYC, or 5 ms with ``fused``. The graph of their pass took at least 31 ms on an H200. If passes
become as fast as their optimizers, these should be captured, too.

This module was written without a GPU. On a CPU, a stand-in for graphs is tested, and that no
operator of a step reads a value from the device (tests/test_graphed_step.py). On a GPU,
tests/test_gpu.py compares the bits with those of plain steps, and ``make bench-gpu`` times a step
with and without a graph.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from study.config.recipe import Recipe
from study.training.graphed_objective import MOST_SHAPES, GraphedObjective
from study.training.vmapped_pass import Objective, report_failed_capture

PLAIN_STEPS = 3
"""Steps with a shape of batches before it is captured, as PyTorch's documentation advises."""


def step_obstacle(
    objective: Objective, optimizers: Sequence[torch.optim.Optimizer], recipe: Recipe
) -> str:
    """Return why a whole training step can't be captured.

    Parameters
    ----------
    objective : Objective
        The objective that is trained.
    optimizers : sequence of Optimizer
        As from `study.training.optimizers.build_optimizers`.
    recipe : Recipe
        Its learning rate schedule decides.

    Returns
    -------
    str
        Empty if it can be captured.
    """
    if not isinstance(objective, GraphedObjective):
        return "its pass can't be captured"
    if recipe.cosine:
        return "the learning rate changes at every step"
    for optimizer in optimizers:
        if isinstance(optimizer, torch.optim.Adam) and not optimizer.defaults["fused"]:
            return "Adam computes on the host unless it has the option fused"
    return ""


def apply_gradients(
    parameters: Sequence[nn.Parameter],
    optimizers: Sequence[torch.optim.Optimizer],
    gradient_clip: float,
) -> None:
    """Clip the gradients of parameters, then let the optimizers take a step.

    Parameters
    ----------
    parameters : sequence of nn.Parameter
        The trained parameters, whose gradients are clipped together.
    optimizers : sequence of Optimizer
        Their optimizers.
    gradient_clip : float
        Largest norm of the gradients; 0 for no clipping.
    """
    if gradient_clip:
        nn.utils.clip_grad_norm_(parameters, gradient_clip)
    for optimizer in optimizers:
        optimizer.step()


@dataclass(frozen=True)
class _Captured:
    """A captured step: its graph, the tensors it reads and writes, and its learning rates."""

    replay: Callable[[], None]
    batch: tuple[Tensor, Tensor]
    loss: Tensor
    rates: tuple[float, ...]


class GraphedStep:
    """A training step that is captured for each shape of batches, and replayed.

    Parameters
    ----------
    objective : GraphedObjective
        The objective; it replays the pass alone if the whole step can't be captured after all.
    model : nn.Module
        The model. Its parameters must stay at the same addresses.
    optimizers : sequence of Optimizer
        Those for which `step_obstacle` finds no obstacle.
    gradient_clip : float
        As in `apply_gradients`.

    Attributes
    ----------
    captured : int
        Number of captures.
    """

    def __init__(
        self,
        objective: GraphedObjective,
        model: nn.Module,
        optimizers: Sequence[torch.optim.Optimizer],
        gradient_clip: float,
    ) -> None:
        self._objective = objective
        self._model = model
        self._optimizers = optimizers
        self._gradient_clip = gradient_clip
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._plain_steps: dict[tuple, int] = {}
        self._steps: dict[tuple, _Captured] = {}
        self._refused = False
        self.captured = 0

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Take a step on a batch; return its loss, detached.

        The next step may overwrite the returned tensor.
        """
        shape = (inputs.shape, inputs.dtype, targets.shape, targets.dtype)
        step = self._steps.get(shape)
        if step is not None and step.rates != self._rates():
            step = None
            del self._steps[shape]  # before the next capture, to free its memory
        if step is None and self._is_due(shape):
            step = self._capture(inputs, targets)
        if step is None:
            return self._take_step(inputs, targets)
        self._steps[shape] = step
        for memory, values in zip(step.batch, (inputs, targets), strict=True):
            memory.copy_(values)
        step.replay()
        return step.loss

    def _rates(self) -> tuple[float, ...]:
        """Return the current learning rate of every parameter group."""
        groups = [group for optimizer in self._optimizers for group in optimizer.param_groups]
        return tuple(group["lr"] for group in groups)

    def _is_due(self, shape: tuple) -> bool:
        """Return whether to capture a step with batches of this shape now; count a plain step."""
        if self._refused or len(self._steps) == MOST_SHAPES:
            return False
        plain_steps = self._plain_steps.get(shape, 0)
        self._plain_steps[shape] = plain_steps + 1
        return plain_steps >= PLAIN_STEPS

    def _take_step(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Take a step without a graph, or while one is captured; return the loss, detached."""
        objective = self._objective.plain
        if self._refused:
            objective = self._objective
        loss = objective(self._model, inputs, targets)
        # `backward` would add to `grad` on the streams on which autograd first saw the parameters.
        gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = _laid_out_as(parameter, gradient)
        apply_gradients(self._parameters, self._optimizers, self._gradient_clip)
        return loss.detach()

    def _capture(self, inputs: Tensor, targets: Tensor) -> _Captured | None:
        """Capture a step, which changes no weight; return None if that fails."""
        batch = (inputs.clone(), targets.clone())
        self._model.zero_grad()  # the graph has gradients of its own
        try:
            replay, loss = capture(self._take_step, *batch)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            report_failed_capture(error, "whole steps")
            self._refused = True
            self._model.zero_grad()
            return None
        self.captured += 1
        return _Captured(replay, batch, loss, self._rates())


def capture(run: Callable[..., Tensor], *arguments: Tensor) -> tuple[Callable[[], None], Tensor]:
    """Capture work on the GPU as a CUDA graph.

    Parameters
    ----------
    run : callable
        The work. It is not done, only captured.
    *arguments : Tensor
        Arguments of `run`, whose memory every replay reads.

    Returns
    -------
    replay : callable
        Does the work.
    result : Tensor
        What `run` returned, without values before the first replay; each replay overwrites it.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run(*arguments)
    return graph.replay, result


def _laid_out_as(parameter: nn.Parameter, gradient: Tensor | None) -> Tensor | None:
    """Return a gradient in the memory layout of its parameter, as ``backward`` leaves it.

    Fused optimizers refuse another layout, such as that of a transposed matrix.
    """
    if gradient is None or gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
