r"""A loop over time, its adjoint and its reference as one PyTorch operator.

Every engine of this project runs a `Recurrence`. Those that differ only in their kernels, such as
the GRU's for the CPU and the GPU, share their other arguments: a dictionary whose name ends in
``_DESCRIPTION``. A `Recurrence` registers two operators in the namespace ``longrnn``, the loop and
its adjoint, with all that PyTorch needs: the shapes of results for tracing (`torch.compile`,
`torch.export`), derivatives, and batching rules (`torch.func.vmap`). What surrounds a loop, such as
the product of inputs and input weights, is ordinary PyTorch.

First derivatives come from the adjoint kernel (`longrnn.kernels._adjoint`). Derivatives of the
adjoint, hence second and higher derivatives of the loop, come from `reference`: the same recurrence
in a few lines of plain PyTorch (`longrnn.kernels._second_derivatives`). Batching rules are in
`longrnn.kernels._mapping`.

In the derivations of all engines :math:`\lambda_t` is the derivative of the loss with respect to
the output :math:`x_t` (:math:`y_t`, :math:`h_t`, ..). It includes the effect of :math:`x_t` on all
later steps, and :math:`o_t` is the part without them: the gradient that arrives at the output at t.
:math:`\delta_t` is the derivative with respect to the drive :math:`g_t`. The recurrence of the
adjoints starts from the gradients of the final state.
"""

from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from longrnn.kernels._adjoint import run_adjoint, run_adjoint_fake
from longrnn.kernels._arguments import as_tensor, empty_result, to_kernel_argument
from longrnn.kernels._blas import single_thread_on
from longrnn.kernels._drive import Sources
from longrnn.kernels._functions import Adjoint, Loop, MappedAdjoint, MappedLoop
from longrnn.kernels._mapping import run_adjoint_mapped, run_mapped
from longrnn.kernels._modes import is_in_forward_mode, is_ordinary
from longrnn.kernels._schema import adjoint_schema, loop_schema, parse_inputs
from longrnn.kernels._second_derivatives import (
    differentiate_adjoint,
    reference_gradients,
    save_for_second,
)


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
        the final states. Arrays are zeros if a gradient is absent, and `backward` may write over
        `grad_final`. Tensors are None if a gradient is absent, and `backward` must not write over
        any. A gradient that it returns may be None. If a gradient costs a product, it returns a
        function that computes it, which is called only if that gradient is wanted.
    reference : callable
        ``reference(*settings, *inputs) -> (outputs, final)`` in plain PyTorch.
    split : callable, optional
        ``split(drive, arguments)`` returns the inputs that are not saved, from the drive of
        `Sources`. By default the only such input is the drive itself.
    adjoint_takes_drive : bool
        Whether `backward` also takes the inputs that are not saved, before those that are.
    arrays : bool
        Whether the loops take NumPy arrays (kernels for the CPU) or contiguous tensors.
    takes_networks : bool
        Whether one call of the loops and of the reference takes the runs of several networks. The
        batches of the runs then follow one another, and what the sequences of a run share has the
        runs as its first axis.
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
        takes_networks: bool = False,
    ) -> None:
        self.name = name
        self.settings = [word.split()[1] for word in settings.split(", ") if word]
        self.inputs = parse_inputs(inputs)
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
        self.takes_networks = takes_networks
        names = [part.name for part in self.inputs]
        self.arguments = namedtuple("Arguments", [*self.settings, *names])
        self._register_loop(settings)
        self._register_adjoint(settings)

    def __call__(self, *arguments: Any, sources: Sources | None = None) -> tuple:
        """Run the loop, differentiably.

        Parameters
        ----------
        *arguments
            The settings, then the inputs.
        sources : Sources, optional
            What the drive was computed from; without them the drive itself is kept.

        Returns
        -------
        outputs : (time, batch, ..)
            The output after every input.
        final : tuple of (batch, ..)
            The final states.
        """
        count = len(self.settings)
        if sources is None:
            pairs = zip(self.inputs, arguments[count:], strict=True)
            sources = Sources(*(value for part, value in pairs if part.name not in self.saved))
        outputs, *others = self.call(*arguments[:count], *sources, *arguments[count:])
        return outputs, tuple(others[: self.final])

    def call(self, *arguments: Any) -> tuple[Tensor, ...]:
        """Run the loop differentiably: as an operator or by one of `longrnn.kernels._functions`.

        Parameters
        ----------
        *arguments
            As for `run`.

        Returns
        -------
        tuple of Tensor
            As from `run`.
        """
        if torch.compiler.is_compiling():
            return self.operator(*arguments)
        if torch._C._are_functorch_transforms_active():
            return MappedLoop.apply(self, *arguments)
        if not is_ordinary(arguments):
            return self.operator(*arguments)
        if torch.is_grad_enabled() or is_in_forward_mode():  # it refuses forward mode
            return Loop.apply(self, *arguments)
        return self.run(*arguments)

    def call_adjoint(self, *arguments: Any) -> tuple[Tensor, ...]:
        """Run the adjoint differentiably, as `call` runs the loop.

        Parameters
        ----------
        *arguments
            As for `longrnn.kernels._adjoint.run_adjoint`.

        Returns
        -------
        tuple of Tensor
            As from `longrnn.kernels._adjoint.run_adjoint`.
        """
        if torch.compiler.is_compiling():
            return self.adjoint(*arguments)
        if torch._C._are_functorch_transforms_active():
            return MappedAdjoint.apply(self, *arguments)
        if is_in_forward_mode():  # gradients may have tangents, which a kernel would drop
            return reference_gradients(self, *arguments)
        if not is_ordinary(arguments):
            return self.adjoint(*arguments)
        if torch.is_grad_enabled():
            return Adjoint.apply(self, *arguments)
        return run_adjoint(self, *arguments)

    def _register_loop(self, settings: str) -> None:
        """Register the loop with PyTorch."""
        schema = loop_schema(settings, self.inputs, self.results)
        self.operator = torch.library.custom_op(
            f"longrnn::{self.name}", self.run, mutates_args=(), schema=schema
        )
        self.operator.register_fake(self._run_fake)
        self.operator.register_autograd(self.differentiate, setup_context=self.save)
        self.operator.register_vmap(partial(run_mapped, self))

    def _register_adjoint(self, settings: str) -> None:
        """Register the adjoint with PyTorch."""
        arriving = [f"grad_{name}" for name in self.results[: 1 + self.final]]
        schema = adjoint_schema(settings, [*self.saved, *arriving], len(self.inputs))
        self.adjoint = torch.library.custom_op(
            f"longrnn::{self.name}_backward",
            partial(run_adjoint, self),
            mutates_args=(),
            schema=schema,
        )
        self.adjoint.register_fake(partial(run_adjoint_fake, self))
        self.adjoint.register_autograd(
            partial(differentiate_adjoint, self),
            setup_context=lambda ctx, inputs, output: save_for_second(self, ctx, inputs),
        )
        self.adjoint.register_vmap(partial(run_adjoint_mapped, self))

    def parts(self, arguments: Sequence[Any]) -> tuple[Sequence, Sources, Sequence]:
        """Split the arguments of an operator.

        Parameters
        ----------
        arguments : sequence
            Settings, the tensors of `Sources`, and other tensors.

        Returns
        -------
        settings : sequence
        sources : Sources
        tensors : sequence
        """
        first = len(self.settings)
        last = first + len(Sources._fields)
        return arguments[:first], Sources(*arguments[first:last]), arguments[last:]

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

        Raises
        ------
        ValueError
            The sequences have no time steps: a loop would read what nothing has written.
        """
        settings, _, inputs = self.parts(arguments)
        shapes = self.shapes(self.arguments(*settings, *inputs))
        if shapes[0][0] == 0:
            raise ValueError(f"{self.name}: expected at least one time step, got none")
        like = inputs[-1]
        results = [empty_result(shape, like, self.arrays) for shape in shapes]
        values = [to_kernel_argument(value, self.arrays) for value in inputs]
        with single_thread_on(like.device):
            self.forward(*settings, *values, *results)
        return tuple(as_tensor(result) for result in results)

    def _run_fake(self, *arguments: Any) -> tuple[Tensor, ...]:
        settings, _, inputs = self.parts(arguments)
        shapes = self.shapes(self.arguments(*settings, *inputs))
        return tuple(inputs[-1].new_empty(shape) for shape in shapes)

    def save(self, ctx, inputs: tuple, output: tuple[Tensor, ...]) -> None:
        """Keep what the adjoint needs.

        Parameters
        ----------
        ctx
            PyTorch's context.
        inputs : tuple
            Arguments of `run`.
        output : tuple of Tensor
            Its results.
        """
        settings, sources, values = self.parts(inputs)
        known = dict(zip(self.results, output, strict=True))
        for part, value in zip(self.inputs, values, strict=True):
            known[part.name] = value
        for name in self.unsaved(*settings):
            known[name] = None
        ctx.settings = settings
        ctx.steps = output[0].shape[0]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*sources, *(known[name] for name in self.saved))

    def differentiate(self, ctx, *grad_results: Tensor | None) -> tuple[Tensor | None, ...]:
        """Run the adjoint on what `save` kept.

        Parameters
        ----------
        ctx
            PyTorch's context.
        *grad_results : Tensor or None
            Gradients of the results of `run`.

        Returns
        -------
        tuple of (Tensor or None)
            Gradients of the arguments of `run`.
        """
        wanted = list(ctx.needs_input_grad[-len(self.inputs) :])
        arriving = grad_results[: 1 + self.final]
        before = len(self.settings) + len(Sources._fields)
        if all(part is None for part in arriving):
            return (None,) * (before + len(self.inputs))
        saved = ctx.saved_tensors
        computed = self.call_adjoint(*ctx.settings, *saved, *arriving, ctx.steps, wanted)
        gradients = []
        for gradient, is_wanted in zip(computed, wanted, strict=True):
            if not is_wanted:
                gradient = None
            gradients.append(gradient)
        # Sources get none: autograd follows the drive, which is an input too.
        return *[None] * before, *gradients
