"""Layers with the weights of PyTorch's own, for `LSTM.from_torch` and `RNN.from_torch`."""

from typing import TypeVar

import torch
from torch import nn

from longrnn.cells._recurrent import Recurrent

Layer = TypeVar("Layer", bound=Recurrent)


def layer_from_torch(
    layer_class: type[Layer], torch_class: type[nn.RNNBase], module: nn.RNNBase, **settings: str
) -> Layer:
    """Create a layer that computes what one of PyTorch's layers computes.

    Parameters
    ----------
    layer_class
        The class of the new layer. The equations of its cell are those of `torch_class`, with the
        gates in the same order and the sum of PyTorch's two biases as the only one.
    torch_class
        The class that `module` must have.
    module
        PyTorch's layer.
    **settings
        Further arguments of `layer_class`, and the names of PyTorch's for them.

    Returns
    -------
    Recurrent
        The new layer, with copies of the weights.

    Raises
    ------
    TypeError
        `module` is not a `torch_class`.
    """
    if not isinstance(module, torch_class):
        got = type(module)
        raise TypeError(
            f"{layer_class.__name__}.from_torch: expected a torch.nn.{torch_class.__name__}, "
            f"got {got.__module__}.{got.__name__}"
        )
    values = {ours: getattr(module, theirs) for ours, theirs in settings.items()}
    layer = layer_class(
        module.input_size,
        module.hidden_size,
        module.num_layers,
        bias=module.bias,
        batch_first=module.batch_first,
        dropout=module.dropout,
        bidirectional=module.bidirectional,
        device=module.weight_hh_l0.device,
        dtype=module.weight_hh_l0.dtype,
        **values,
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
