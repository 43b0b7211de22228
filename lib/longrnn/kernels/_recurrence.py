r"""A loop over time, its adjoint and its reference as one PyTorch operator.

Every engine of this project is a `Recurrence`. It registers two operators in the namespace
``longrnn``, the loop and its adjoint, with everything PyTorch wants to know of an operator:
results without values (`torch.compile`, `torch.export`), derivatives, and batching rules
(`torch.func.vmap`). What surrounds a loop, such as the product of inputs and input weights, is
ordinary PyTorch.

First derivatives come from the adjoint kernel. Derivatives of the adjoint, hence second and higher
derivatives of the loop, come from `reference`: the same recurrence in a few lines of plain PyTorch.

In the derivations of all engines :math:`\lambda_t` is the derivative of the loss by the output
:math:`x_t` (:math:`y_t`, :math:`h_t`, ..) through everything that follows, :math:`o_t` the part
that arrives at the output at t, and :math:`\delta_t` the derivative by the drive :math:`g_t`. The
recurrence of the adjoints starts from the gradients of the final state.
"""

import re
from collections import namedtuple
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from longrnn.kernels._blas import single_thread
from longrnn.kernels._drive import Sources, is_ordinary
from longrnn.kernels._folding import (
    RUNS,
    SOURCE_AXES,
    SOURCE_AXES_OF_RUNS,
    fold,
    is_foldable,
    run_one_by_one,
    unfold,
)
from longrnn.kernels._functions import Adjoint, Loop, MappedAdjoint, MappedLoop
from longrnn.kernels._memory import empty_array


class _Input(NamedTuple):
    """One tensor that a loop takes."""

    name: str
    optional: bool
    axis: int | None
    """Axis of the sequences of a batch; None if all sequences share the tensor."""


def _parse(inputs: str) -> list[_Input]:
    """Read inputs such as ``"W U? g:1 y0:0"``."""
    parsed = []
    for word in inputs.split():
        name, optional, axis = re.fullmatch(r"(\w+)(\??)(?::(\d))?", word).groups()
        if axis is not None:
            axis = int(axis)
        parsed.append(_Input(name, bool(optional), axis))
    return parsed


class Recurrence:
    """A loop over time as a differentiable function ``(*settings, *inputs) -> (outputs, final)``.

    Parameters
    ----------
    name : str
        Name of the operator in the namespace ``longrnn``; the adjoint's is ``<name>_backward``.
    settings : str
        Arguments that are not tensors, as in an operator's schema: ``"int form, bool twice"``.
    inputs : str
        Names of the tensors, blank-separated. ``:0`` or ``:1`` is the axis of the batch; a tensor
        without one is shared by all sequences. ``?`` marks a tensor that may be None.
    results : str
        Names of what the loop fills: the outputs (time, batch, ..), then `final` final states
        (batch, ..), then what else the adjoint needs (any, batch, ..).
    final : int
        Number of final states.
    saved : str
        Names of the inputs and results that the adjoint takes, in this order.
    unsaved : callable, optional
        ``unsaved(*settings)`` returns names among `saved` that these settings do not need: the
        adjoint gets None.
    shapes : callable
        ``shapes(arguments)`` returns the shapes of all results; `arguments` is a namedtuple of
        settings and inputs.
    forward : callable
        ``forward(*settings, *inputs, *results)`` fills the results.
    backward : callable
        ``backward(*settings, *saved, grad_outputs, *grad_final)`` returns the gradients of all
        inputs. `grad_outputs` and `grad_final` are the gradients that arrive at the outputs and
        the final states. As arrays they are zeros if absent, and it may write over the latter; as
        tensors they are None if absent, and it may not. A gradient that it returns may be None,
        and a function that returns it if it costs a product, which is called only if the gradient
        is wanted.
    reference : callable
        ``reference(*settings, *inputs) -> (outputs, final)`` in plain PyTorch.
    split : callable, optional
        ``split(drive, arguments)`` returns the inputs that are not saved, made of the one drive of
        `Sources`; by default there is one such input, the drive itself.
    adjoint_takes_drive : bool
        Whether `backward` takes the inputs that are not saved, too, before those that are.
    arrays : bool
        Whether the loops take NumPy arrays (kernels for the CPU) or contiguous tensors.
    runs : bool
        Whether the loops and the reference take several runs at once: the batches of all runs, one
        after the other, and what the sequences of a run share with the runs as its first axis.
    """

    def __init__(
        self,
        name: str,
        *,
        inputs: str,
        results: str,
        saved: str,
        shapes: Callable[[Any], list[tuple[int, ...]]],
        forward: Callable[..., None],
        backward: Callable[..., tuple],
        reference: Callable[..., tuple],
        settings: str = "",
        final: int = 1,
        unsaved: Callable[..., tuple[str, ...]] = lambda *_: (),
        split: Callable[[Tensor, Any], tuple[Tensor, ...]] = lambda drive, _: (drive,),
        adjoint_takes_drive: bool = False,
        arrays: bool = True,
        runs: bool = False,
    ) -> None:
        self.name = name
        self.settings = [word.split()[1] for word in settings.split(", ") if word]
        self.inputs = _parse(inputs)
        self.results = results.split()
        self.final = final
        self.saved = saved.split()
        self.unsaved = unsaved
        self.shapes = shapes
        self.forward = forward
        self.backward = backward
        self.reference = reference
        self.split = split
        self.adjoint_takes_drive = adjoint_takes_drive
        self.arrays = arrays
        self.runs = runs
        names = [part.name for part in self.inputs]
        self.arguments = namedtuple("Arguments", [*self.settings, *names])
        self._register(settings)

    def __call__(self, *arguments: Any, sources: Sources | None = None) -> tuple:
        """Run the loop on settings and tensors; return the outputs and the tuple of final states.

        `sources` are what the drive was computed from. Without them the drive is kept.
        """
        count = len(self.settings)
        if sources is None:
            pairs = zip(self.inputs, arguments[count:], strict=True)
            sources = Sources(*(value for part, value in pairs if part.name not in self.saved))
        outputs, *others = self._call(*arguments[:count], *sources, *arguments[count:])
        return outputs, tuple(others[: self.final])

    def _call(self, *arguments: Any) -> tuple[Tensor, ...]:
        """Run the loop differentiably: as an operator or by one of `longrnn.kernels._functions`."""
        if torch.compiler.is_compiling():
            return self.operator(*arguments)
        if torch._C._are_functorch_transforms_active():
            return MappedLoop.apply(self, *arguments)
        if is_ordinary(arguments):
            return Loop.apply(self, *arguments)
        return self.operator(*arguments)

    def _call_adjoint(self, *arguments: Any) -> tuple[Tensor, ...]:
        """Run the adjoint as `_call` does the loop."""
        if torch.compiler.is_compiling():
            return self.adjoint(*arguments)
        if torch._C._are_functorch_transforms_active():
            return MappedAdjoint.apply(self, *arguments)
        if not is_ordinary(arguments):
            return self.adjoint(*arguments)
        if torch.is_grad_enabled():
            return Adjoint.apply(self, *arguments)
        return self.run_adjoint(*arguments)

    def _register(self, settings: str) -> None:
        """Register the loop and its adjoint with PyTorch."""
        names = [part.name for part in self.inputs]
        optional = {part.name for part in self.inputs if part.optional}
        of_drive = [f"source_{name}" for name in Sources._fields]
        optional |= set(of_drive)
        arriving = [f"grad_{name}" for name in self.results[: 1 + self.final]]

        def typed(tensors: Sequence[str], optional: Collection[str]) -> str:
            words = [settings] if settings else []
            for name in tensors:
                kind = "Tensor?" if name in optional else "Tensor"
                words.append(f"{kind} {name}")
            return ", ".join(words)

        def returned(count: int) -> str:
            return f"({', '.join(['Tensor'] * count)})"

        self.operator = torch.library.custom_op(
            f"longrnn::{self.name}",
            self.run,
            mutates_args=(),
            schema=f"({typed([*of_drive, *names], optional)}) -> {returned(len(self.results))}",
        )
        self.operator.register_fake(self._run_fake)
        self.operator.register_autograd(self._differentiate, setup_context=self._save)
        self.operator.register_vmap(self._run_mapped)

        adjoint_inputs = [*of_drive, *self.saved, *arriving]
        self.adjoint = torch.library.custom_op(
            f"longrnn::{self.name}_backward",
            self.run_adjoint,
            mutates_args=(),
            schema=f"({typed(adjoint_inputs, adjoint_inputs)}, SymInt steps, bool[] wanted) "
            f"-> {returned(len(names))}",
        )
        self.adjoint.register_fake(self._run_adjoint_fake)
        self.adjoint.register_autograd(
            self._differentiate_adjoint, setup_context=self._save_for_second
        )
        self.adjoint.register_vmap(self._run_adjoint_mapped)

    def _parts(self, arguments: Sequence[Any]) -> tuple[Sequence, Sources, Sequence]:
        """Split an operator's arguments into settings, sources, and other tensors."""
        first = len(self.settings)
        last = first + len(Sources._fields)
        return arguments[:first], Sources(*arguments[first:last]), arguments[last:]

    # The loop.

    def run(self, *arguments: Any) -> tuple[Tensor, ...]:
        """Run the loop outside of autograd.

        Parameters
        ----------
        *arguments
            Settings, the tensors of `Sources`, and inputs, in the order of the operator's schema.

        Returns
        -------
        tuple of Tensor
            The results, in the order of `results`.
        """
        settings, _, inputs = self._parts(arguments)
        shapes = self.shapes(self.arguments(*settings, *inputs))
        results = [self._empty(shape, inputs[-1]) for shape in shapes]
        values = [self.to_kernel_argument(value) for value in inputs]
        with single_thread:
            self.forward(*settings, *values, *results)
        return tuple(as_tensor(result) for result in results)

    def _run_fake(self, *arguments: Any) -> tuple[Tensor, ...]:
        settings, _, inputs = self._parts(arguments)
        shapes = self.shapes(self.arguments(*settings, *inputs))
        return tuple(inputs[-1].new_empty(shape) for shape in shapes)

    def _save(self, ctx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        settings, sources, values = self._parts(inputs)
        known = dict(zip(self.results, output, strict=True))
        for part, value in zip(self.inputs, values, strict=True):
            known[part.name] = value
        for name in self.unsaved(*settings):
            known[name] = None
        ctx.settings = settings
        ctx.steps = output[0].shape[0]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*sources, *(known[name] for name in self.saved))

    def _differentiate(self, ctx, *grad_results: Tensor | None) -> tuple[Tensor | None, ...]:
        wanted = list(ctx.needs_input_grad[-len(self.inputs) :])
        arriving = grad_results[: 1 + self.final]
        before = len(self.settings) + len(Sources._fields)
        if all(part is None for part in arriving):
            return (None,) * (before + len(self.inputs))
        saved = ctx.saved_tensors
        every = self._call_adjoint(*ctx.settings, *saved, *arriving, ctx.steps, wanted)
        gradients = [part if use else None for part, use in zip(every, wanted, strict=True)]
        # Sources get none: autograd follows the drive, which is an input too.
        return *[None] * before, *gradients

    # Its adjoint.

    def run_adjoint(self, *arguments: Any) -> tuple[Tensor, ...]:
        """Run the adjoint outside of autograd.

        Parameters
        ----------
        *arguments
            Settings, the tensors of `Sources`, saved tensors, gradients that arrive, the number of
            steps, and whether the gradient of each input is wanted, in the order of the operator's
            schema.

        Returns
        -------
        tuple of Tensor
            The gradients of all inputs; a tensor without elements if a gradient is not wanted.
        """
        *arguments, steps, wanted = arguments
        settings, sources, others = self._parts(arguments)
        saved, arriving = self._split_saved(others)
        grad_outputs, *grad_final = self._materialize(steps, arriving)
        like = next(part for part in arriving if part is not None)
        if self.adjoint_takes_drive:
            known = dict(zip(self.saved, saved, strict=True))
            drives = self.split(sources.drive(), self._known_arguments(settings, known))
            saved = [*drives, *saved]
        values = [self.to_kernel_argument(value) for value in saved]
        gradients = []
        with single_thread:
            every = self.backward(*settings, *values, grad_outputs, *grad_final)
            for gradient, use in zip(every, wanted, strict=True):
                if callable(gradient) and use:
                    gradient = gradient()
                if use and gradient is not None:
                    gradients.append(as_tensor(gradient))
                else:
                    gradients.append(like.new_empty(0))
        return tuple(gradients)

    def _split_saved(self, tensors: Sequence) -> tuple[Sequence, Sequence]:
        """Split the adjoint's tensors into those saved and the gradients that arrive."""
        count = len(self.saved)
        return tensors[:count], tensors[count:]

    def _materialize(self, steps: int, arriving: Sequence[Tensor | None]) -> list:
        """Return gradients that arrive as kernel arguments.

        For arrays, zeros stand for those that are absent. The kernels write over those of the
        final states, so these are copies.
        """
        if not self.arrays:
            return [self.to_kernel_argument(part) for part in arriving]
        grad_outputs, *grad_final = arriving
        like = next(part for part in arriving if part is not None)
        state_shape = like.shape[1:] if grad_outputs is not None else like.shape
        if grad_outputs is None:
            values = [self._zeros((steps, *state_shape), like)]
        else:
            values = [self.to_kernel_argument(grad_outputs)]
        for part in grad_final:
            if part is None:
                values.append(self._zeros(state_shape, like))
            else:
                values.append(self.to_kernel_argument(part.clone()))
        return values

    def _known_arguments(self, settings: Sequence, known: Mapping[str, Any]) -> tuple:
        """Return settings and inputs by name, None for inputs that are not known."""
        return self.arguments(*settings, *(known.get(part.name) for part in self.inputs))

    def _all_inputs(self, settings: Sequence, sources: Sources, saved: Sequence) -> list:
        """Return all inputs, computing those again that were not saved."""
        known = dict(zip(self.saved, saved, strict=True))
        missing = [part.name for part in self.inputs if part.name not in known]
        if missing:
            drives = self.split(sources.drive(), self._known_arguments(settings, known))
            known |= dict(zip(missing, drives, strict=True))
        return [known[part.name] for part in self.inputs]

    def _run_adjoint_fake(self, *arguments: Any) -> tuple[Tensor, ...]:
        *arguments, _, wanted = arguments
        settings, sources, others = self._parts(arguments)
        saved, arriving = self._split_saved(others)
        inputs = self._all_inputs(settings, sources, saved)
        like = next(part for part in arriving if part is not None)
        gradients = []
        for value, use in zip(inputs, wanted, strict=True):
            has_gradient = use and value is not None and value.is_floating_point()
            gradients.append(like.new_empty(value.shape if has_gradient else 0))
        return tuple(gradients)

    def _save_for_second(self, ctx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        *arguments, _, _ = inputs
        settings, sources, tensors = self._parts(arguments)
        ctx.settings = settings
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*sources, *tensors)

    def _differentiate_adjoint(self, ctx, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        """Differentiate the gradient, as a function of sources, saved inputs and what arrives.

        The results among the saved tensors are functions of the inputs, so they get none.
        """
        tensors = list(ctx.saved_tensors)
        # The fields of Sources are not results, whatever their names are.
        names = [*("" for _ in Sources._fields), *self.saved]
        variables = []
        for k, value in enumerate(tensors):
            is_result = k < len(names) and names[k] in self.results
            if value is not None and value.is_floating_point() and not is_result:
                variables.append(k)
        picked = [k for k, value in enumerate(cotangents) if value is not None]
        if not picked:
            return (None,) * (len(self.settings) + len(tensors) + 2)

        def gradient(*values: Tensor) -> tuple[Tensor, ...]:
            for k, value in zip(variables, values, strict=True):
                tensors[k] = value
            every = self._reference_gradient(ctx.settings, tensors)
            return tuple(every[k] for k in picked)

        _, pull_back = torch.func.vjp(gradient, *(tensors[k] for k in variables))
        products = pull_back(tuple(cotangents[k] for k in picked))
        gradients = [None] * len(tensors)
        for k, value in zip(variables, products, strict=True):
            gradients[k] = value
        return *[None] * len(self.settings), *gradients, None, None

    def _reference_gradient(self, settings: Sequence, tensors: Sequence) -> list[Tensor | None]:
        """Return the gradients of all inputs by the reference, which can be differentiated."""
        count = len(Sources._fields)
        saved, arriving = self._split_saved(tensors[count:])
        inputs = self._all_inputs(settings, Sources(*tensors[:count]), saved)
        variables = [
            k for k, value in enumerate(inputs) if value is not None and value.is_floating_point()
        ]
        present = [k for k, value in enumerate(arriving) if value is not None]

        def run(*values: Tensor) -> tuple[Tensor, ...]:
            for k, value in zip(variables, values, strict=True):
                inputs[k] = value
            outputs, final = self.reference(*settings, *inputs)
            results = [outputs, *final]
            return tuple(results[k] for k in present)

        _, pull_back = torch.func.vjp(run, *(inputs[k] for k in variables))
        products = pull_back(tuple(arriving[k] for k in present))
        gradients = [None] * len(inputs)
        for k, value in zip(variables, products, strict=True):
            gradients[k] = value
        return gradients

    # Batching rules: `torch.func.vmap` over data becomes a larger batch.

    def _run_mapped(self, info, in_dims: tuple, *arguments: Any) -> tuple:
        of_inputs = [part.axis for part in self.inputs]
        axes = self._fold_axes(arguments, in_dims, of_inputs, shared_gradients=False)
        if axes is None:
            return run_one_by_one(self._call, info.batch_size, in_dims, arguments)
        results = self._call(*fold(arguments, in_dims, axes, info.batch_size))
        result_axes = [1, *[0] * self.final, *[1] * (len(results) - 1 - self.final)]
        return unfold(results, result_axes, info.batch_size), tuple(result_axes)

    def _run_adjoint_mapped(self, info, in_dims: tuple, *arguments: Any) -> tuple:
        wanted = arguments[-1]
        axes_by_name = {part.name: part.axis for part in self.inputs}
        axes_by_name |= dict.fromkeys(self.results, 1)
        axes_by_name |= dict.fromkeys(self.results[1 : 1 + self.final], 0)
        of_tensors = [*(axes_by_name[name] for name in self.saved), 1, *[0] * self.final]
        pairs = list(zip(self.inputs, wanted, strict=True))
        # A gradient of what all sequences share is a sum over the sequences of a run.
        shared = any(use and part.axis is None for part, use in pairs)
        tensors = arguments[:-2], in_dims[:-2]
        axes = self._fold_axes(*tensors, of_tensors, shared_gradients=shared)
        if axes is None:
            return run_one_by_one(self._call_adjoint, info.batch_size, in_dims, arguments)
        axes += [None, None]  # the number of steps, and what is wanted
        gradients = self._call_adjoint(*fold(arguments, in_dims, axes, info.batch_size))
        gradient_axes = []
        for part, use in pairs:
            if not use:
                gradient_axes.append(None)
            elif part.axis is None:
                gradient_axes.append(RUNS)
            else:
                gradient_axes.append(part.axis)
        out_dims = tuple(0 if axis == RUNS else axis for axis in gradient_axes)
        return unfold(gradients, gradient_axes, info.batch_size), out_dims

    def _fold_axes(
        self,
        arguments: Sequence,
        in_dims: Sequence,
        of_tensors: Sequence[int | None],
        *,
        shared_gradients: bool,
    ) -> list[int | None] | None:
        """Return the axis of each argument that the mapped axis joins, or None if some have none.

        Mapped data become a larger batch. If what the sequences share is mapped, too, or if its
        gradient is wanted for each index along the mapped axis, these indices are runs.
        """
        settings = [None] * len(self.settings)
        axes = [*settings, *SOURCE_AXES, *of_tensors]
        if not shared_gradients and is_foldable(arguments, in_dims, axes):
            return axes
        if not self.runs:
            axes = [*settings, *SOURCE_AXES_OF_RUNS, *of_tensors]
            foldable = not shared_gradients and is_foldable(arguments, in_dims, axes)
            return axes if foldable else None
        of_runs = [RUNS if axis is None else axis for axis in of_tensors]
        return [*settings, *SOURCE_AXES_OF_RUNS, *of_runs]

    # Arrays or tensors.

    def to_kernel_argument(self, value: Tensor | None) -> Any:
        """Return a tensor as the loops take it: a contiguous array or tensor, without a graph."""
        if value is None:
            return None
        if self.arrays:
            return value.detach().contiguous().numpy()
        return value if value.is_contiguous() else value.contiguous()

    def _empty(self, shape: Sequence[int], like: Tensor) -> Any:
        """Return memory for a result."""
        return empty_array(shape, like.numpy().dtype) if self.arrays else like.new_empty(shape)

    def _zeros(self, shape: Sequence[int], like: Tensor) -> np.ndarray:
        """Return zeros; NumPy's come in huge pages, PyTorch's page by page."""
        return np.zeros(shape, like.numpy().dtype)


def as_tensor(value: Any) -> Any:
    """Convert an array to a tensor that shares its memory.

    Parameters
    ----------
    value
        Any object.

    Returns
    -------
    object
        A tensor for an array; any other object unchanged.
    """
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value
