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
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional as F

from longrnn.kernels._blas import single_thread
from longrnn.kernels._memory import empty_array, empty_tensor, is_large
from longrnn.kernels._threads import product


class Sources(NamedTuple):
    """What the drive of a recurrence is computed from: V below + b, and skip skipped.

    A drive is as large as the outputs, and first derivatives do not need it. So it is not kept;
    second derivatives compute it again from these, which exist anyway.
    """

    below: Tensor | None = None
    """Inputs of the layer (time, batch, features); the drive itself if there is no V."""
    V: Tensor | None = None
    b: Tensor | None = None
    skipped: Tensor | None = None
    """Inputs (time, batch, features) of a second product, if any."""
    skip: Tensor | None = None

    def drive(self) -> Tensor:
        """Return the drive (time, batch, rows)."""
        if self.V is None:
            return self.below
        product = drive if self.V.dim() == 2 else _drive_of_runs
        result = product(self.below, self.V, self.b)
        if self.skip is not None:
            result = result + product(self.skipped, self.skip)
        return result


RUNS = -1
"""Stands for the axis of the runs, in front of all others of what the sequences of a run share."""
_SOURCE_AXES = Sources(below=1, skipped=1)
_SOURCE_AXES_OF_RUNS = Sources(below=1, V=RUNS, b=RUNS, skipped=1, skip=RUNS)


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
        parsed.append(_Input(name, bool(optional), None if axis is None else int(axis)))
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
        ``backward(*settings, *saved, from_outputs, *from_final)`` returns the gradients of all
        inputs. `from_outputs` and `from_final` are the gradients that arrive at the outputs and
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
        """Run the loop, differentiably, in the way that the situation asks for.

        Ordinary calls bypass PyTorch's dispatcher, which costs some tenths of a millisecond for an
        operator with many arguments. PyTorch does not let `torch.func.grad` differentiate a
        registered operator, so inside of its transforms a `Function` calls the operator.
        """
        if torch.compiler.is_compiling():
            return self.operator(*arguments)
        if torch._C._are_functorch_transforms_active():
            return _MappedLoop.apply(self, *arguments)
        if _is_ordinary(arguments):
            return _Loop.apply(self, *arguments)
        return self.operator(*arguments)

    def _call_adjoint(self, *arguments: Any) -> tuple[Tensor, ...]:
        """Run the adjoint as `_call` does the loop."""
        if torch.compiler.is_compiling():
            return self.adjoint(*arguments)
        if torch._C._are_functorch_transforms_active():
            return _MappedAdjoint.apply(self, *arguments)
        if not _is_ordinary(arguments):
            return self.adjoint(*arguments)
        if torch.is_grad_enabled():
            return _Adjoint.apply(self, *arguments)
        return self.run_adjoint(*arguments)

    def _register(self, settings: str) -> None:
        """Register the loop and its adjoint with PyTorch."""
        names = [part.name for part in self.inputs]
        optional = {part.name for part in self.inputs if part.optional}
        of_drive = [f"source_{name}" for name in Sources._fields]
        optional |= set(of_drive)
        arriving = [f"from_{name}" for name in self.results[: 1 + self.final]]

        def typed(tensors: Sequence[str], optional: Collection[str]) -> str:
            words = [f"Tensor{'?' if name in optional else ''} {name}" for name in tensors]
            return ", ".join([*([settings] if settings else []), *words])

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

        taken = [*of_drive, *self.saved, *arriving]
        self.adjoint = torch.library.custom_op(
            f"longrnn::{self.name}_backward",
            self.run_adjoint,
            mutates_args=(),
            schema=f"({typed(taken, taken)}, SymInt steps, bool[] wanted) "
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

    def _differentiate(self, ctx, *from_results: Tensor | None) -> tuple[Tensor | None, ...]:
        wanted = list(ctx.needs_input_grad[-len(self.inputs) :])
        arriving = from_results[: 1 + self.final]
        before = len(self.settings) + len(Sources._fields)
        if all(part is None for part in arriving):
            return (None,) * (before + len(self.inputs))
        saved = ctx.saved_tensors
        found = self._call_adjoint(*ctx.settings, *saved, *arriving, ctx.steps, wanted)
        gradients = [part if use else None for part, use in zip(found, wanted, strict=True)]
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
        from_outputs, *from_final = self._materialize(steps, arriving)
        like = next(part for part in arriving if part is not None)
        if self.adjoint_takes_drive:
            known = dict(zip(self.saved, saved, strict=True))
            drives = self.split(sources.drive(), self._known_arguments(settings, known))
            saved = [*drives, *saved]
        values = [self.to_kernel_argument(value) for value in saved]
        gradients = []
        with single_thread:
            found = self.backward(*settings, *values, from_outputs, *from_final)
            for gradient, use in zip(found, wanted, strict=True):
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
        from_outputs, *from_final = arriving
        like = next(part for part in arriving if part is not None)
        state_shape = like.shape[1:] if from_outputs is not None else like.shape
        if from_outputs is None:
            values = [self._zeros((steps, *state_shape), like)]
        else:
            values = [self.to_kernel_argument(from_outputs)]
        for part in from_final:
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
        # The fields of Sources are no results, whatever they are called.
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
        found = pull_back(tuple(cotangents[k] for k in picked))
        gradients = [None] * len(tensors)
        for k, value in zip(variables, found, strict=True):
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
        found = pull_back(tuple(arriving[k] for k in present))
        gradients = [None] * len(inputs)
        for k, value in zip(variables, found, strict=True):
            gradients[k] = value
        return gradients

    # Batching rules: `torch.func.vmap` over data becomes a larger batch.

    def _run_mapped(self, info, in_dims: tuple, *arguments: Any) -> tuple:
        of_inputs = [part.axis for part in self.inputs]
        axes = self._fold_axes(arguments, in_dims, of_inputs, shared_gradients=False)
        if axes is None:
            return _run_one_by_one(self._call, info.batch_size, in_dims, arguments)
        found = self._call(*_fold(arguments, in_dims, axes, info.batch_size))
        result_axes = [1, *[0] * self.final, *[1] * (len(found) - 1 - self.final)]
        return _unfold(found, result_axes, info.batch_size), tuple(result_axes)

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
            return _run_one_by_one(self._call_adjoint, info.batch_size, in_dims, arguments)
        axes += [None, None]  # the number of steps, and what is wanted
        found = self._call_adjoint(*_fold(arguments, in_dims, axes, info.batch_size))
        gradient_axes = []
        for part, use in pairs:
            gradient_axes.append((RUNS if part.axis is None else part.axis) if use else None)
        out_dims = tuple(0 if axis == RUNS else axis for axis in gradient_axes)
        return _unfold(found, gradient_axes, info.batch_size), out_dims

    def _fold_axes(
        self,
        arguments: Sequence,
        in_dims: Sequence,
        of_tensors: Sequence[int | None],
        *,
        shared_gradients: bool,
    ) -> list[int | None] | None:
        """Return where each argument takes the mapped axis in; None if some can't.

        Data that is mapped becomes a larger batch. If what the sequences share is mapped, too, or a
        gradient by it is wanted for each place, the places are runs.
        """
        settings = [None] * len(self.settings)
        axes = [*settings, *_SOURCE_AXES, *of_tensors]
        if not shared_gradients and _foldable(arguments, in_dims, axes):
            return axes
        if not self.runs:
            axes = [*settings, *_SOURCE_AXES_OF_RUNS, *of_tensors]
            foldable = not shared_gradients and _foldable(arguments, in_dims, axes)
            return axes if foldable else None
        of_runs = [RUNS if axis is None else axis for axis in of_tensors]
        return [*settings, *_SOURCE_AXES_OF_RUNS, *of_runs]

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


def _is_ordinary(arguments: Sequence) -> bool:
    """Return whether the tensors have values and nobody records operators."""
    if torch._C._len_torch_dispatch_stack() > 0:
        return False
    for value in arguments:
        if isinstance(value, FakeTensor) or (isinstance(value, Tensor) and value.is_meta):
            return False
    return True


class _Loop(torch.autograd.Function):
    """The loop of a recurrence in ordinary calls."""

    @staticmethod
    def forward(ctx, recurrence: Recurrence, *arguments: Any) -> tuple[Tensor, ...]:
        results = recurrence.run(*arguments)
        ctx.recurrence = recurrence
        recurrence._save(ctx, arguments, results)
        return results

    @staticmethod
    def backward(ctx, *from_results: Tensor | None) -> tuple:
        return None, *ctx.recurrence._differentiate(ctx, *from_results)


class _Adjoint(torch.autograd.Function):
    """The adjoint of a recurrence in ordinary calls that are differentiated again."""

    @staticmethod
    def forward(ctx, recurrence: Recurrence, *arguments: Any) -> tuple[Tensor, ...]:
        gradients = recurrence.run_adjoint(*arguments)
        ctx.recurrence = recurrence
        recurrence._save_for_second(ctx, arguments, gradients)
        return gradients

    @staticmethod
    def backward(ctx, *cotangents: Tensor | None) -> tuple:
        return None, *ctx.recurrence._differentiate_adjoint(ctx, *cotangents)


class _MappedLoop(torch.autograd.Function):
    """The loop of a recurrence inside of `torch.func` transforms."""

    @staticmethod
    def forward(recurrence: Recurrence, *arguments: Any) -> tuple[Tensor, ...]:
        return recurrence._call(*arguments)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        ctx.recurrence = inputs[0]
        ctx.recurrence._save(ctx, inputs[1:], output)

    backward = staticmethod(_Loop.backward)

    @staticmethod
    def vmap(info, in_dims: tuple, recurrence: Recurrence, *arguments: Any) -> tuple:
        return recurrence._run_mapped(info, in_dims[1:], *arguments)


class _MappedAdjoint(torch.autograd.Function):
    """The adjoint of a recurrence inside of `torch.func` transforms."""

    @staticmethod
    def forward(recurrence: Recurrence, *arguments: Any) -> tuple[Tensor, ...]:
        return recurrence._call_adjoint(*arguments)

    @staticmethod
    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        ctx.recurrence = inputs[0]
        ctx.recurrence._save_for_second(ctx, inputs[1:], output)

    backward = staticmethod(_Adjoint.backward)

    @staticmethod
    def vmap(info, in_dims: tuple, recurrence: Recurrence, *arguments: Any) -> tuple:
        return recurrence._run_adjoint_mapped(info, in_dims[1:], *arguments)


def _mapped(value: Any, dim: Any) -> bool:
    return isinstance(value, Tensor) and dim is not None


def _foldable(arguments: Sequence, in_dims: Sequence, axes: Sequence[int | None]) -> bool:
    """Return whether all mapped tensors have an axis of the batch."""
    triples = zip(arguments, in_dims, axes, strict=True)
    return not any(_mapped(value, dim) and axis is None for value, dim, axis in triples)


def _fold(arguments: Sequence, in_dims: Sequence, axes: Sequence[int | None], size: int) -> list:
    """Return the arguments with the mapped axis as part of the batch."""
    folded = []
    for value, dim, axis in zip(arguments, in_dims, axes, strict=True):
        if isinstance(value, Tensor) and axis is not None:
            if dim is None:
                value, dim = value.expand(size, *value.shape), 0
            if axis == RUNS:
                value = value.movedim(dim, 0)
            else:
                value = value.movedim(dim, axis).flatten(axis, axis + 1)
        folded.append(value)
    return folded


def _unfold(values: Sequence[Tensor], axes: Sequence[int | None], size: int) -> tuple[Tensor, ...]:
    """Return the mapped axis as one of its own, in front of that of the batch."""
    found = []
    for value, axis in zip(values, axes, strict=True):
        if axis is not None and axis != RUNS:
            value = value.unflatten(axis, (size, value.shape[axis] // size))
        found.append(value)
    return tuple(found)


def _run_one_by_one(
    operator: Callable, size: int, in_dims: Sequence, arguments: Sequence
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Call an operator for each place along the mapped axis."""
    calls = []
    for k in range(size):
        pairs = zip(arguments, in_dims, strict=True)
        calls.append(operator(*(v.select(d, k) if _mapped(v, d) else v for v, d in pairs)))
    stacked = tuple(torch.stack(parts) for parts in zip(*calls, strict=True))
    return stacked, (0,) * len(stacked)


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


def drive(u: Tensor, R: Tensor, b: Tensor | None = None) -> Tensor:
    """Compute the drive R u_t + b for all times at once.

    Parameters
    ----------
    u : (time, batch, p)
        The inputs.
    R : (rows, p)
        Input weights.
    b : (rows,), optional
        Biases.

    Returns
    -------
    (time, batch, rows)
        A contiguous tensor.
    """
    if not torch.compiler.is_compiling() and not torch._C._are_functorch_transforms_active():
        is_plain = u.is_contiguous() and _is_ordinary((u, R, b))
        if is_plain and u.dtype == R.dtype and is_large(u, len(R)):
            return _Drive.apply(u, R, b)
    return F.linear(u, R, b).contiguous()


class _Drive(torch.autograd.Function):
    """The product of inputs and input weights in kept memory: bits equal those of `F.linear`."""

    @staticmethod
    def forward(ctx, u: Tensor, R: Tensor, b: Tensor | None) -> Tensor:
        ctx.save_for_backward(u, R)
        result = empty_tensor((*u.shape[:-1], len(R)), u.dtype)
        rows = u.view(-1, u.shape[-1])
        if b is None:
            torch.mm(rows, R.T, out=result.view(-1, len(R)))
        else:
            torch.addmm(b, rows, R.T, out=result.view(-1, len(R)))
        return result

    @staticmethod
    def backward(ctx, arrived: Tensor) -> tuple[Tensor | None, ...]:
        u, R = ctx.saved_tensors
        by_u, by_R, by_b = ctx.needs_input_grad
        rows = arrived.reshape(-1, len(R))
        of_u = of_R = of_b = None
        if by_u and torch.is_grad_enabled():
            of_u = (rows @ R).view_as(u)
        elif by_u:
            of_u = empty_tensor(u.shape, u.dtype)
            torch.mm(rows, R, out=of_u.view(-1, u.shape[-1]))
        if by_R:
            of_R = rows.T @ u.view(-1, u.shape[-1])
        if by_b:
            of_b = rows.sum(0)
        return of_u, of_R, of_b


def _drive_of_runs(u: Tensor, R: Tensor, b: Tensor | None = None) -> Tensor:
    """Return the drive of the batches of all runs, as `drive` that of one; R is (run, rows, ..)."""
    rows = _by_run(u, len(R))
    result = rows @ R.mT if b is None else torch.baddbmm(b[:, None], rows, R.mT)
    return result.unflatten(1, (len(u), -1)).movedim(0, 1).flatten(1, 2).contiguous()


def per_chain(value: Tensor | float, like: Tensor) -> Tensor:
    """Return a number, or one per neuron, for each chain: contiguous, as `like` (batch, hidden).

    The inner loop of a kernel is then one contiguous stretch; autograd sums over the sequences.
    """
    if not isinstance(value, Tensor):
        return torch.full_like(like, value)
    return value.expand_as(like).contiguous()


def scalars_like(like: Tensor, *values: float) -> Tensor:
    """Return numbers as one tensor, without a copy from the host, which no graph could capture."""
    return torch.stack([like.new_full((), value) for value in values])


def sum_of_products(delta, x):
    r"""Return :math:`\sum_t \delta_t x_t^\top` over times and sequences.

    Arrays or tensors (time, batch, rows) and (time, batch, hidden).
    """
    rows, columns = _merged(delta, x)
    if isinstance(rows, Tensor):
        return rows.T @ columns
    return product(rows.T, columns)


def _merged(delta, x) -> tuple:
    """Return both with times and sequences as one axis."""
    return delta.reshape(-1, delta.shape[-1]), x.reshape(-1, x.shape[-1])


def state_product(delta, x0, outputs) -> Callable[[], Any]:
    r"""Return a function that computes :math:`\sum_t \delta_t x_{t-1}^\top`, (rows, hidden).

    Parameters
    ----------
    delta : (time, batch, rows)
        Gradients of the product of the matrix and the state; an array or a tensor, as the others.
    x0 : (batch, hidden)
        State before the first input.
    outputs : (time, batch, hidden)
        States after every input.
    """

    def gradient():
        first = delta[0].T @ x0
        if len(delta) == 1:
            return first
        if isinstance(first, Tensor):  # one launch
            rows, columns = _merged(delta[1:], outputs[:-1])
            return torch.addmm(first, rows.T, columns)
        return first + sum_of_products(delta[1:], outputs[:-1])

    return gradient


def state_products(W, delta, x0, outputs) -> Callable[[], Any]:
    r"""Return a function that computes the gradient of W, of one run or of each of several.

    Parameters
    ----------
    W : (rows, hidden) or (runs, rows, hidden)
        An array or a tensor, as the others.
    delta, x0, outputs
        As `state_product` takes them; the batches of several runs lie one after the other.

    Returns
    -------
    callable
        Returns :math:`\sum_t \delta_t x_{t-1}^\top` of each run, in W's shape.
    """
    if W.ndim == 2:
        return state_product(delta, x0, outputs)
    if isinstance(W, Tensor):
        return lambda: _products_of_tensors(len(W), delta, x0, outputs)

    def gradient():
        products = []
        for batch in batches_of_runs(len(W), len(x0)):
            of_run = state_product(delta[:, batch], x0[batch], outputs[:, batch])
            products.append(of_run())
        return np.stack(products)

    return gradient


def sums_of_products(W, delta, x):
    r"""Return :math:`\sum_t \delta_t x_t^\top`, of one run or of each of several.

    Parameters
    ----------
    W : (rows, hidden) or (runs, rows, hidden)
        Weights of that gradient; an array or a tensor, as the others.
    delta : (time, batch, rows)
    x : (time, batch, hidden)
        The batches of several runs lie one after the other.

    Returns
    -------
    array or tensor
        In W's shape.
    """
    if W.ndim == 2:
        return sum_of_products(delta, x)
    if isinstance(W, Tensor):
        return _by_run(delta, len(W)).mT @ _by_run(x, len(W))
    batches = batches_of_runs(len(W), x.shape[1])
    return np.stack([sum_of_products(delta[:, batch], x[:, batch]) for batch in batches])


def _products_of_tensors(runs: int, delta: Tensor, x0: Tensor, outputs: Tensor) -> Tensor:
    """Return the products of all runs by two launches, after a copy of each tensor."""
    first = delta[0].unflatten(0, (runs, -1)).mT @ x0.unflatten(0, (runs, -1))
    if len(delta) == 1:
        return first
    rows = _by_run(delta[1:], runs)
    columns = _by_run(outputs[:-1], runs)
    return torch.baddbmm(first, rows.mT, columns)


def _by_run(sequences: Tensor, runs: int) -> Tensor:
    """Return (time, runs * batch, features) as (runs, time * batch, features)."""
    return sequences.unflatten(1, (runs, -1)).movedim(1, 0).flatten(1, 2)


def batches_of_runs(runs: int, sequences: int) -> list[slice]:
    """Return where the batch of each run is among all sequences.

    Parameters
    ----------
    runs, sequences : int
        Number of runs, and of the sequences of all runs together.

    Returns
    -------
    list of slice
        One per run.
    """
    batch = sequences // runs
    return [slice(k * batch, (k + 1) * batch) for k in range(runs)]


def runs_of(W: Any) -> int:
    """Return the number of runs that weights belong to.

    Parameters
    ----------
    W : (rows, hidden) or (runs, rows, hidden)
        An array or a tensor.

    Returns
    -------
    int
    """
    return len(W) if W.ndim == 3 else 1


def by_run(W: Any, value: Any) -> Any:
    """Return what the sequences of a run share, with the runs as its first axis.

    Parameters
    ----------
    W : (rows, hidden) or (runs, rows, hidden)
        Weights. Two axes mean that there is one run, and that `value` has no axis of runs.
    value : array or tensor
        What the sequences share.

    Returns
    -------
    array or tensor
        `value`, with an axis of length one if there is one run.
    """
    return value[None] if W.ndim == 2 else value


def times_state(W: Tensor, x: Tensor) -> Tensor:
    """Return W x of all sequences, for the references of loops that take several runs.

    Parameters
    ----------
    W : (rows, hidden) or (runs, rows, hidden)
    x : (batch, hidden), or (runs * batch, hidden)

    Returns
    -------
    (batch, rows), or (runs * batch, rows)
    """
    if W.dim() == 2:
        return x @ W.T
    return (x.unflatten(0, (len(W), -1)) @ W.mT).flatten(0, 1)


def per_sequence(number: Tensor, x: Tensor) -> Tensor:
    """Return a number that multiplies the states of all runs.

    Parameters
    ----------
    number : () or (runs,)
        One number, or one for each run.
    x : (runs * batch, hidden)
        The states.

    Returns
    -------
    () or (runs * batch, 1)
        The number itself, or that of each sequence's run.
    """
    if number.dim() == 0:
        return number
    return number.repeat_interleave(len(x) // len(number))[:, None]
