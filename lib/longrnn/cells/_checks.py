"""Checks of inputs, states and sizes; each error message says what to do."""

import math

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Proxy
from torch.nn.utils.rnn import PackedSequence


def checked_size(label: str, name: str, size: object) -> int:
    """Check a size, and convert it to int.

    Parameters
    ----------
    label
        First word of the error message: the name of the cell or layer.
    name
        Name of the size, such as ``hidden_size``.
    size
        The value to check.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        It is not a positive integer.
    """
    if isinstance(size, np.integer):
        size = size.item()
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"{label}: expected {name} to be a positive integer, got {size!r}")
    return size


def checked_flag(label: str, name: str, value: object) -> bool:
    """Check a switch, and convert it to bool.

    Parameters
    ----------
    label
        First word of the error message.
    name
        Name of the switch, such as ``bidirectional``.
    value
        The value to check.

    Returns
    -------
    bool

    Raises
    ------
    ValueError
        It is neither True nor False. The text ``"False"`` of a command line, for example, is true.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{label}: expected {name} to be True or False, got {value!r}")
    return bool(value)


def checked_dtype(label: str, dtype: object) -> torch.dtype:
    """Check the dtype of new weights.

    Parameters
    ----------
    label
        First word of the error message.
    dtype
        The dtype; None for PyTorch's default.

    Returns
    -------
    torch.dtype

    Raises
    ------
    ValueError
        It is not a floating-point type of 16 bits or more.
    """
    if dtype is None:
        return torch.get_default_dtype()
    if dtype not in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        raise ValueError(
            f"{label}: expected dtype to be torch.float32, torch.float64, torch.bfloat16 or "
            f"torch.float16, got {dtype!r}"
        )
    return dtype


def check_representable(label: str, name: str, value: float, dtype: torch.dtype) -> None:
    """Check that a setting is neither zero nor infinite in the type of the weights.

    A time step of 1e-300 would be zero in float32: the network would never change, and a gradient
    that divides by the step would be NaN. Denormal numbers are refused as well, since training may
    flush them to zero.

    Parameters
    ----------
    label
        First word of the error message.
    name
        Name of the setting.
    value
        Its value.
    dtype
        The type that equations are computed in.

    Raises
    ------
    ValueError
        The type has no normal number of this size.
    """
    limits = torch.finfo(dtype)
    if value != 0 and not limits.smallest_normal <= abs(value) <= limits.max:
        raise ValueError(
            f"{label}: expected {name} to be a normal number of {dtype}, between "
            f"{limits.smallest_normal:.1e} and {limits.max:.1e} in size, got {value!r}"
        )


def check_is_tensor(label: str, u: object) -> None:
    """Check that an input is a dense tensor; the error has advice for common mistakes.

    Parameters
    ----------
    label
        First word of the error message.
    u
        The input.

    Raises
    ------
    TypeError
        The input is not a tensor, or it is sparse or nested.
    """
    if isinstance(u, Tensor):
        if u.is_nested:
            raise TypeError(
                f"{label}: expected a dense tensor as input, got a nested one; pad it with "
                "torch.nested.to_padded_tensor(...), and give the layer the lengths"
            )
        if u.layout != torch.strided:
            raise TypeError(
                f"{label}: expected a dense tensor as input, got {u.layout}; "
                "convert it with input.to_dense()"
            )
        return
    if isinstance(u, PackedSequence):
        advice = (
            "a bare cell runs tensors of one length; use the layer class, which takes "
            "packed sequences, or pad them with torch.nn.utils.rnn.pad_packed_sequence"
        )
    elif isinstance(u, Proxy):
        advice = (
            "torch.fx.symbolic_trace looks into every module outside of torch.nn; subclass "
            "torch.fx.Tracer so that is_leaf_module returns True for this one, or use torch.export"
        )
    elif isinstance(u, np.ndarray):
        advice = "convert it with torch.from_numpy(...)"
    elif isinstance(u, tuple):
        advice = (
            "a recurrent module returns (output, state), which nn.Sequential hands on as it is; "
            "pass on the output alone, or use num_layers to stack layers"
        )
    elif isinstance(u, list):
        advice = "stack sequences of one length with torch.stack(...)"
    else:
        advice = "convert it to a tensor"
    raise TypeError(f"{label}: expected a tensor as input, got {type(u).__name__}; {advice}")


def check_type_and_device(label: str, u: Tensor, weight: Tensor) -> None:
    """Check that an input has the dtype and the device of the weights.

    Parameters
    ----------
    label
        First word of the error message.
    u
        The input.
    weight
        Any weight of the module.

    Raises
    ------
    ValueError
        The weights are not floating-point numbers, or type or device differ.
    """
    if not weight.dtype.is_floating_point:
        raise ValueError(
            f"{label}: expected weights of a floating-point type, got {weight.dtype}; "
            "convert the module with .float()"
        )
    if (u.dtype, u.device) != (weight.dtype, weight.device):
        raise ValueError(
            f"{label}: expected input of {weight.dtype} on {weight.device}, "
            f"got {u.dtype} on {u.device}; convert it with input.to(...)"
        )


def check_finite(label: str, u: Tensor) -> None:
    """Check that data contain neither NaN nor infinity.

    Only tensors that require no gradient are checked. Values computed from diverged weights, such
    as an embedding's, are a legitimate result. On a GPU nothing is checked: it would synchronize
    the device, and the pass could not be captured in a CUDA graph.

    Parameters
    ----------
    label
        First word of the error message.
    u
        The input.

    Raises
    ------
    ValueError
        A value is not finite.
    """
    if u.device.type != "cpu" or u.requires_grad or not has_values(u) or u.numel() == 0:
        return
    least, most = u.aminmax()  # both are NaN if a value is; `isfinite` of all takes much longer
    if math.isfinite(least) and math.isfinite(most):
        return
    bad = u.numel() - int(u.isfinite().sum())
    raise ValueError(
        f"{label}: expected finite input, got {bad} of {u.numel()} values that are NaN or "
        "infinite; find where they come from, or mask them with input.nan_to_num()"
    )


def has_values(u: Tensor) -> bool:
    """Return whether Python code may branch on the values of a tensor.

    Parameters
    ----------
    u
        The tensor.

    Returns
    -------
    bool
        False while operators are recorded, as by `torch.compile` or `torch.func.linearize`, inside
        `torch.func` transforms, and for fake and meta tensors.
    """
    # Nothing public says whether a transform is active (torch 2.13).
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    if torch._C._len_torch_dispatch_stack() > 0:
        return False
    return not isinstance(u, FakeTensor) and u.device.type != "meta"


def time_steps_done(count: Tensor) -> int:
    """Return the largest number of time steps in a state that counts them.

    Parameters
    ----------
    count : (batch, hidden)
        The tensor of the state that holds the counts.

    Returns
    -------
    int
        0 if the batch is empty, or if Python code may not look at the values, see `has_values`.
    """
    if not has_values(count) or count.numel() == 0:
        return 0
    return int(count.max())


def check_counts(label: str, count: Tensor) -> None:
    """Check that all neurons of a sequence have done the same number of time steps.

    Engines read the count of the first neuron alone. On a GPU nothing is checked, as in
    `check_finite`.

    Parameters
    ----------
    label
        First word of the error message.
    count : (batch, hidden)
        The tensor of the state that holds the counts.

    Raises
    ------
    ValueError
        The counts of a sequence differ, as in a random state.
    """
    if count.device.type != "cpu" or not has_values(count):
        return
    if not (count == count[:, :1]).all():
        raise ValueError(
            f"{label}: expected the last tensor of the state to hold one number per sequence, the "
            "time steps so far; start from zeros, and pass it on as it was returned"
        )


def check_countable(label: str, time_steps: int, dtype: torch.dtype) -> None:
    """Check that a state can count the time steps of a sequence.

    Parameters
    ----------
    label
        First word of the error message.
    time_steps
        The number of time steps at the end of the sequences.
    dtype
        Type of the state.

    Raises
    ------
    ValueError
        The type has no exact number for some count.
    """
    exact = int(2 / torch.finfo(dtype).eps)
    if time_steps > exact:
        raise ValueError(
            f"{label}: expected sequences of at most {exact} time steps in {dtype}, which cannot "
            f"count further, got {time_steps}; use float32"
        )


def check_state(label: str, state: object, shapes: list[tuple[int, ...]], weight: Tensor) -> None:
    """Check the shapes, types and devices of the tensors of a state.

    Parameters
    ----------
    label
        First word of the error message.
    state
        The state to check: a tensor, or a tuple or list of tensors.
    shapes
        The expected shape of every tensor.
    weight
        A weight, whose type and device the state must have.

    Raises
    ------
    ValueError
        A shape, a type or a device differs from what is expected.
    """
    parts = (state,)
    if isinstance(state, tuple | list):
        parts = tuple(state)
    all_tensors = all(isinstance(part, Tensor) for part in parts)
    if (
        all_tensors
        and [tuple(part.shape) for part in parts] == shapes
        and all((part.dtype, part.device) == (weight.dtype, weight.device) for part in parts)
    ):
        return
    if all_tensors:
        kinds = [f"{tuple(part.shape)} of {part.dtype} on {part.device}" for part in parts]
    else:
        kinds = [type(part).__name__ for part in parts]
    raise ValueError(
        f"{label}: expected {len(shapes)} state tensor(s) of shape {shapes[0]} and "
        f"{weight.dtype} on {weight.device}, got {', '.join(kinds) or 'none'}"
    )
