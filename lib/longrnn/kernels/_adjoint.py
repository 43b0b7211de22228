"""The adjoint of a `Recurrence`, outside of autograd: what its operator computes."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from longrnn.kernels._arguments import as_tensor, to_kernel_argument, zero_array
from longrnn.kernels._blas import single_thread_on
from longrnn.kernels._drive import Sources


def run_adjoint(recurrence: Any, *arguments: Any) -> tuple[Tensor, ...]:
    """Run the adjoint outside of autograd.

    Parameters
    ----------
    recurrence : Recurrence
        The recurrence.
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
    settings, sources, others = recurrence.parts(arguments)
    saved, arriving = split_saved(recurrence, others)
    grad_outputs, *grad_final = _present_gradients(recurrence, steps, arriving)
    like = _first_present(arriving)
    if recurrence.adjoint_takes_drive:
        known = dict(zip(recurrence.saved, saved, strict=True))
        drives = _split_drive(recurrence, settings, sources, known)
        saved = [*drives, *saved]
    values = [to_kernel_argument(value, recurrence.arrays) for value in saved]
    gradients = []
    with single_thread_on(like.device):
        computed = recurrence.backward(*settings, *values, grad_outputs, *grad_final)
        for gradient, is_wanted in zip(computed, wanted, strict=True):
            if callable(gradient) and is_wanted:
                gradient = gradient()
            if is_wanted and gradient is not None:
                gradients.append(as_tensor(gradient))
            else:
                gradients.append(like.new_empty(0))
    return tuple(gradients)


def run_adjoint_fake(recurrence: Any, *arguments: Any) -> tuple[Tensor, ...]:
    """Return tensors of the shapes that `run_adjoint` returns, for tracing.

    Parameters
    ----------
    recurrence, *arguments
        As for `run_adjoint`.

    Returns
    -------
    tuple of Tensor
    """
    *arguments, _, wanted = arguments
    settings, sources, others = recurrence.parts(arguments)
    saved, arriving = split_saved(recurrence, others)
    inputs = all_inputs(recurrence, settings, sources, saved)
    like = _first_present(arriving)
    gradients = []
    for value, is_wanted in zip(inputs, wanted, strict=True):
        shape = 0
        if is_wanted and value is not None and value.is_floating_point():
            shape = value.shape
        gradients.append(like.new_empty(shape))
    return tuple(gradients)


def split_saved(recurrence: Any, tensors: Sequence) -> tuple[Sequence, Sequence]:
    """Split the tensors of the adjoint.

    Parameters
    ----------
    recurrence : Recurrence
        The recurrence.
    tensors : sequence
        Saved tensors, then gradients that arrive.

    Returns
    -------
    saved, arriving : sequence
    """
    count = len(recurrence.saved)
    return tensors[:count], tensors[count:]


def all_inputs(
    recurrence: Any, settings: Sequence, sources: Sources, saved: Sequence
) -> list[Tensor | None]:
    """Return all inputs; those that were not saved are computed again.

    Parameters
    ----------
    recurrence : Recurrence
        The recurrence.
    settings : sequence
        Arguments that are not tensors.
    sources : Sources
        What the drive is computed from.
    saved : sequence
        The saved tensors.

    Returns
    -------
    list of (Tensor or None)
        In the order of `Recurrence.inputs`.
    """
    known = dict(zip(recurrence.saved, saved, strict=True))
    missing = [part.name for part in recurrence.inputs if part.name not in known]
    if missing:
        drives = _split_drive(recurrence, settings, sources, known)
        known |= dict(zip(missing, drives, strict=True))
    return [known[part.name] for part in recurrence.inputs]


def _first_present(tensors: Sequence[Tensor | None]) -> Tensor:
    """Return the first tensor that is not None."""
    return next(part for part in tensors if part is not None)


def _split_drive(
    recurrence: Any, settings: Sequence, sources: Sources, known: Mapping[str, Any]
) -> tuple[Tensor, ...]:
    """Return the inputs that are not saved, from the drive computed again.

    `known` are tensors by name; what it lacks among the inputs is None for `Recurrence.split`.
    """
    inputs = [known.get(part.name) for part in recurrence.inputs]
    return recurrence.split(sources.drive(), recurrence.arguments(*settings, *inputs))


def _present_gradients(recurrence: Any, steps: int, arriving: Sequence[Tensor | None]) -> list:
    """Return the arriving gradients as the adjoint's loop takes them.

    A loop that takes arrays gets zeros for absent gradients. It writes over the gradients of the
    final states, so these are copies.
    """
    if not recurrence.arrays:
        return [to_kernel_argument(part, arrays=False) for part in arriving]
    grad_outputs, *grad_final = arriving
    like = _first_present(arriving)
    if grad_outputs is None:
        state_shape = like.shape
        values = [zero_array((steps, *state_shape), like)]
    else:
        state_shape = grad_outputs.shape[1:]
        values = [to_kernel_argument(grad_outputs, arrays=True)]
    for part in grad_final:
        if part is None:
            values.append(zero_array(state_shape, like))
        else:
            values.append(to_kernel_argument(part.clone(), arrays=True))
    return values
