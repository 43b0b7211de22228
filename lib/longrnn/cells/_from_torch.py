"""Layers with the weights of PyTorch's own: `LSTM.from_torch`, and state dicts of PyTorch."""

from collections.abc import Mapping, MutableMapping
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from longrnn.cells._recurrent import Recurrent


class CopiesTorch(Recurrent):
    """Base class of the layers that compute what a layer of PyTorch computes.

    The equations of the cell are those of `torch_class`, with the gates in the same order and the
    sum of PyTorch's two biases as the only one. Its weights are ``W``, ``R`` and ``b``.

    ``load_state_dict`` also takes weights under PyTorch's names, such as ``weight_hh_l0``. So a
    model loads a file that was saved when it still had PyTorch's layer.
    """

    torch_class: ClassVar[type[nn.RNNBase]]
    """PyTorch's class."""
    torch_names: ClassVar[Mapping[str, str]]
    """Further arguments of the constructor, and PyTorch's names for them."""

    @classmethod
    def from_torch(cls, module: nn.RNNBase) -> Self:
        """Create a layer that computes what a layer of PyTorch computes.

        Parameters
        ----------
        module
            A `torch.nn.LSTM` for `longrnn.LSTM`, a `torch.nn.RNN` for `longrnn.RNN`. It is not
            changed.

        Returns
        -------
        LSTM or RNN
            A layer with copies of the weights; b is the sum of PyTorch's two biases. It has the
            same layout, dropout and directions. Training it further differs, because the two biases
            were trained separately.

        Raises
        ------
        TypeError
            `module` is a layer of another class.
        ValueError
            It is an LSTM with projections.

        Examples
        --------
        >>> import torch
        >>> from longrnn import LSTM
        >>> theirs = torch.nn.LSTM(10, 20, num_layers=2)
        >>> ours = LSTM.from_torch(theirs)
        >>> u = torch.randn(5, 3, 10)
        >>> torch.testing.assert_close(ours(u)[0], theirs(u)[0])
        """
        if not isinstance(module, cls.torch_class):
            got = type(module)
            raise TypeError(
                f"{cls.__name__}.from_torch: expected a torch.nn.{cls.torch_class.__name__}, "
                f"got {got.__module__}.{got.__name__}"
            )
        settings = {ours: getattr(module, theirs) for ours, theirs in cls.torch_names.items()}
        layer = cls(
            module.input_size,
            module.hidden_size,
            module.num_layers,
            bias=module.bias,
            batch_first=module.batch_first,
            dropout=module.dropout,
            bidirectional=module.bidirectional,
            device=module.weight_hh_l0.device,
            dtype=module.weight_hh_l0.dtype,
            **settings,
        )
        with torch.no_grad():
            for name, cell in layer.cells.items():
                cell.W.copy_(getattr(module, f"weight_hh_{name}"))
                cell.R.copy_(getattr(module, f"weight_ih_{name}"))
                if module.bias:
                    cell.b.copy_(
                        getattr(module, f"bias_ih_{name}") + getattr(module, f"bias_hh_{name}")
                    )
        return layer.train(module.training)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *rest: object) -> None:
        """Load a state dict, whose weights may have PyTorch's names."""
        for name in self.cells:
            self._rename_torch_weights(state_dict, prefix, f"_{name}", to=f"{prefix}cells.{name}.")
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @staticmethod
    def _rename_torch_weights(
        state_dict: MutableMapping[str, Tensor], prefix: str, suffix: str, *, to: str
    ) -> None:
        """Give weights in a state dict our names instead of PyTorch's, and add up the two biases.

        Parameters
        ----------
        state_dict, prefix, suffix, to
            As in `Recurrent._rename_torch_weights`.
        """
        for ours, theirs in (("W", "weight_hh"), ("R", "weight_ih")):
            weight = state_dict.pop(f"{prefix}{theirs}{suffix}", None)
            if weight is not None:
                state_dict[f"{to}{ours}"] = weight
        biases = [f"{prefix}bias_ih{suffix}", f"{prefix}bias_hh{suffix}"]
        if all(name in state_dict for name in biases):
            first, second = (state_dict.pop(name) for name in biases)
            state_dict[f"{to}b"] = first + second
