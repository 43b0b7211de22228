"""One-step cells that users import, such as `longrnn.LEMCell`, made from the layer classes."""

import inspect
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from longrnn.cells._bias import remove_biases
from longrnn.cells._cell import State
from longrnn.cells._checks import (
    check_is_tensor,
    check_state,
    check_type_and_device,
    checked_flag,
)
from longrnn.cells._compiling import NotScripted, with_own_code
from longrnn.cells._layouts import as_state, is_absent, state_tensors
from longrnn.cells._modes import any_weight, as_type, is_autocasting, on_device
from longrnn.cells._recurrent import Recurrent
from longrnn.cells._repr import changed_arguments
from longrnn.cells._stack import reset_cell


class OneStep(NotScripted, nn.Module):
    """One step of a cell, with the interface of `torch.nn.LSTMCell`.

    Subclasses, such as `longrnn.LEMCell`, are made by `one_step`.
    """

    layer: ClassVar[type[Recurrent]]
    """The layer class with the same hyperparameters."""
    __signature__: ClassVar[inspect.Signature]
    """Arguments of the constructor: those of the layer class that one step needs."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "layer" not in vars(cls):  # a user's subclass of a one-step class
            return
        cls.__init__ = with_own_code(cls.__init__, cls)  # Python's own errors name the class
        cls.forward = with_own_code(cls.forward, cls)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **arguments: object,
    ) -> None:
        super().__init__()
        label = type(self).__name__
        self._check_names(arguments)
        self.bias = checked_flag(label, "bias", arguments.pop("bias", True))
        with on_device(device):
            settings = self.layer.fixed | arguments
            cell = self.layer.core(input_size, hidden_size, dtype=dtype, label=label, **settings)
        if not self.bias:
            remove_biases(cell, label)
        self.input_size = cell.input_size
        self.hidden_size = cell.hidden_size
        self.cell = cell

    def _check_names(self, arguments: Mapping[str, object]) -> None:
        """Check for arguments that the signature doesn't have."""
        known = self.__signature__.parameters
        for name in arguments:
            if name not in known:
                raise TypeError(
                    f"{type(self).__name__}: got an unexpected argument {name!r}; "
                    f"expected some of {', '.join(known)}"
                )

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *rest: object) -> None:
        """Load a state dict; for an LSTM or an RNN, its weights may have PyTorch's names."""
        self.layer._rename_torch_weights(state_dict, prefix, "", to=f"{prefix}cell.")
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def reset_parameters(self, start: str = "paper", *, time_steps: int | None = None) -> None:
        """Reinitialize all weights; see `Recurrent.reset_parameters`."""
        reset_cell(self.cell, start, time_steps=time_steps, bias=self.bias)

    def forward(self, input: Tensor, hx: Tensor | State | None = None) -> Tensor | State:
        """Return the state after one input.

        Parameters
        ----------
        input : (batch, input_size) or (input_size,)
            One input per sequence.
        hx : (batch, hidden_size) or (hidden_size,), optional
            The previous state, zeros by default: one tensor, or a tuple if the cell has several.

        Returns
        -------
        Tensor or tuple of Tensor
            The new state, shaped as `hx`.

        Raises
        ------
        TypeError
            The input is not a tensor.
        ValueError
            The input or the state has the wrong shape, type or device.
        """
        if is_autocasting(input):
            input, hx = as_type(any_weight(self).dtype, input, hx)
            with torch.autocast(input.device.type, enabled=False):
                return self._step(input, hx)
        return self._step(input, hx)

    def _step(self, input: Tensor, hx: Tensor | State | None) -> Tensor | State:
        """Check the input and the state, then take one step."""
        label = type(self).__name__
        check_is_tensor(label, input)
        if input.dim() not in (1, 2) or input.shape[-1] != self.input_size:
            raise ValueError(
                f"{label}: expected input (batch, input) or (input,) with "
                f"input={self.input_size}, got {tuple(input.shape)}"
            )
        weight = any_weight(self)
        check_type_and_device(label, input, weight)
        if input.dim() == 1:
            state = None
            if not is_absent(hx):
                check_state(label, hx, [(self.hidden_size,)] * self.cell.states, weight)
                state = tuple(part.unsqueeze(0) for part in state_tensors(hx))
            state = self._step_batch(input.unsqueeze(0), state)
            return as_state(tuple(part.squeeze(0) for part in state))
        if is_absent(hx):
            return as_state(self._step_batch(input, None))
        shapes = [(input.shape[0], self.hidden_size)] * self.cell.states
        check_state(label, hx, shapes, weight)
        return as_state(self._step_batch(input, state_tensors(hx)))

    def _step_batch(self, u: Tensor, state: State | None) -> State:
        """Return the state after the inputs (batch, input_size) of a batch."""
        _, state = self.cell(u.unsqueeze(0), state, engine="reference", checked=True)
        return state

    def extra_repr(self) -> str:
        return changed_arguments(self, self.cell.present_settings() | {"bias": self.bias})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


_LAYERS_ONLY = (
    "self",
    "num_layers",
    "batch_first",
    "dropout",
    "bidirectional",
    "proj_size",
    "skip",
)
"""Arguments of a layer class that its one-step class does not have."""


def one_step(layer: type[Recurrent]) -> type[OneStep]:
    """Create the one-step class of a layer class: ``LEMCell`` for ``LEM``.

    Parameters
    ----------
    layer
        The layer class.

    Returns
    -------
    type of OneStep
        Its constructor takes the sizes and hyperparameters of the layer class.
    """
    name = f"{layer.__name__}Cell"
    parameters = inspect.signature(layer.__init__).parameters.values()
    kept = [parameter for parameter in parameters if parameter.name not in _LAYERS_ONLY]
    names = ", ".join(
        parameter.name for parameter in kept if parameter.kind is parameter.KEYWORD_ONLY
    )
    doc = f"""One step of `{layer.__name__}`, with the interface of `torch.nn.LSTMCell`.

    Parameters
    ----------
    input_size, hidden_size, {names}
        As in `{layer.__name__}`.

    Notes
    -----
    ``cell(input, hx)`` takes an input (batch, input_size), or (input_size,), and the state before,
    and returns the state after it. The state is that of `{layer.__name__}` for one layer, without
    its first dimension: (batch, hidden_size).

    Examples
    --------
    >>> import torch
    >>> from longrnn import {name}
    >>> cell = {name}(10, 20)
    >>> state = None
    >>> for u_t in torch.randn(5, 3, 10):  # (time, batch, input)
    ...     state = cell(u_t, state)
    """
    members = {
        "__doc__": doc,
        "__module__": layer.__module__,
        "__signature__": inspect.Signature(kept),
        "layer": layer,
    }
    return type(name, (OneStep,), members)
