"""Layers with the weights of PyTorch's own: `LSTM.from_torch` and `RNN.from_torch`."""

from collections.abc import Mapping
from typing import ClassVar, Self

import torch
from torch import nn

from longrnn.cells._recurrent import Recurrent


class CopiesTorch(Recurrent):
    """Base class of the layers that compute what a layer of PyTorch computes.

    The equations of the cell are those of `torch_class`, with the gates in the same order and the
    sum of PyTorch's two biases as the only one. Its weights are ``W``, ``R`` and ``b``.
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
