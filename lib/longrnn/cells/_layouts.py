"""Layouts of inputs and states, as users of `torch.nn.LSTM` pass them."""

from torch import Tensor

from longrnn.cells._cell import State


def as_time_major(label: str, u: Tensor, input_size: int, *, batch_first: bool) -> Tensor:
    """Check the shape of an input, and convert it to one layout.

    Parameters
    ----------
    label
        First word of the error message.
    u : (time, batch, input_size), (batch, time, input_size), or (time, input_size)
        Sequences, batch first if `batch_first` is set; or one sequence.
    input_size
        The expected number of features.
    batch_first
        Whether the first dimension of several sequences is the batch.

    Returns
    -------
    (time, batch, input_size)
        A view of the input.

    Raises
    ------
    ValueError
        The input has another shape or no time steps.
    """
    if u.dim() not in (2, 3) or u.shape[-1] != input_size:
        layout = "(time, batch, input)"
        if batch_first:
            layout = "(batch, time, input)"
        raise ValueError(
            f"{label}: expected input {layout} or (time, input) with "
            f"input={input_size}, got {tuple(u.shape)}"
        )
    time_major = u
    if u.dim() == 2:
        time_major = u.unsqueeze(1)
    elif batch_first:
        time_major = u.transpose(0, 1)
    if time_major.shape[0] == 0:
        raise ValueError(f"{label}: expected at least one time step, got {tuple(u.shape)}")
    return time_major


def is_absent(hx: object) -> bool:
    """Return whether an argument gives no state.

    Parameters
    ----------
    hx
        The argument.

    Returns
    -------
    bool
        True for None, and for a tuple or list of None.
    """
    return hx is None or (isinstance(hx, tuple | list) and all(part is None for part in hx))


def state_tensors(hx: Tensor | State) -> State:
    """Return a state as a tuple of tensors.

    Parameters
    ----------
    hx
        A tensor, or a tuple or list of tensors.

    Returns
    -------
    tuple of Tensor
    """
    if isinstance(hx, Tensor):
        return (hx,)
    return tuple(hx)


def as_state(parts: State) -> Tensor | State:
    """Return a state as users get it: a single tensor by itself, several as a tuple.

    Parameters
    ----------
    parts
        The tensors of the state.

    Returns
    -------
    Tensor or tuple of Tensor
    """
    if len(parts) == 1:
        return parts[0]
    return parts
