"""One-step cells that users import, such as `longrnn.LEMCell`, made from the layer classes."""

import inspect
from contextlib import nullcontext
from typing import ClassVar

import torch
from torch import Tensor, nn

from longrnn.cells._bias import biases_of, remove_biases
from longrnn.cells._cell import State
from longrnn.cells._checks import check_is_tensor, check_state, check_type_and_device
from longrnn.cells._compiling import with_own_code
from longrnn.cells._recurrent import Recurrent, changed_arguments, is_absent


class OneStep(nn.Module):
    """One step of a cell, with the interface of `torch.nn.LSTMCell`.

    Subclasses, such as `longrnn.LEMCell`, are made by `one_step`.
    """

    layer: ClassVar[type[Recurrent]]
    """The layer class with the same hyper-parameters."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.forward = with_own_code(cls.forward, cls)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **hyper_parameters: object,
    ) -> None:
        super().__init__()
        with nullcontext() if device is None else torch.device(device):
            cell = self.layer.core(input_size, hidden_size, **self.layer.fixed, **hyper_parameters)
        if not bias:
            remove_biases(cell)
        self.bias = bias
        self.input_size = cell.input_size
        self.hidden_size = cell.hidden_size
        self.cell = cell.to(dtype=dtype)

    def reset_parameters(self, start: str = "text", *, time_steps: int | None = None) -> None:
        """Reinitialize all weights; see `Recurrent.reset_parameters`."""
        self.cell.start(start, time_steps=time_steps)
        if not self.bias:
            with torch.no_grad():
                for parameter in biases_of(self.cell):
                    parameter.zero_()

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
        label = type(self).__name__
        check_is_tensor(label, input)
        if input.dim() not in (1, 2) or input.shape[-1] != self.input_size:
            raise ValueError(
                f"{label}: expected input (batch, input) or (input,) with "
                f"input={self.input_size}, got {tuple(input.shape)}"
            )
        weight = next(self.parameters())
        check_type_and_device(label, input, weight)
        unbatched = input.dim() == 1
        u = input.unsqueeze(0) if unbatched else input
        if is_absent(hx):
            state = self.cell.initial_state(len(u))
        else:
            shape = (self.hidden_size,) if unbatched else (len(u), self.hidden_size)
            check_state(label, hx, [shape] * self.cell.states, weight)
            state = (hx,) if isinstance(hx, Tensor) else tuple(hx)
            if unbatched:
                state = tuple(part.unsqueeze(0) for part in state)
        state = self.cell.step(self.cell.weights(), state, u)
        if unbatched:
            state = tuple(part.squeeze(0) for part in state)
        return state[0] if len(state) == 1 else state

    def extra_repr(self) -> str:
        return changed_arguments(self, self.cell.settings | {"bias": self.bias})

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
        Its constructor takes the sizes and hyper-parameters of the layer class.
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
    """
    members = {
        "__doc__": doc,
        "__module__": layer.__module__,
        "__signature__": inspect.Signature(kept),
        "layer": layer,
    }
    return type(name, (OneStep,), members)
