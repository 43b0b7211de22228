"""Products of a matrix with the states of whole sequences, and the gradients of the matrix.

For arrays and for tensors, and for one run or several (see `longrnn.kernels._runs`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from longrnn.kernels._runs import batches_of_runs, sequences_by_run
from longrnn.kernels._threads import product


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


def sum_of_products(delta, x):
    r"""Return :math:`\sum_t \delta_t x_t^\top` over times and sequences.

    Parameters
    ----------
    delta : (time, batch, rows)
        An array or a tensor, as the other.
    x : (time, batch, hidden)
        The second factors.

    Returns
    -------
    (rows, hidden)
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
        if isinstance(first, Tensor):  # product and sum in one launch
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
    delta : (time, batch, .., rows)
    x : (time, batch, .., hidden)
        The batches of several runs lie one after the other.

    Returns
    -------
    array or tensor
        In W's shape.
    """
    if W.ndim == 2:
        return sum_of_products(delta, x)
    if isinstance(W, Tensor):
        return sequences_by_run(delta, len(W)).mT @ sequences_by_run(x, len(W))
    batches = batches_of_runs(len(W), x.shape[1])
    return np.stack([sum_of_products(delta[:, batch], x[:, batch]) for batch in batches])


def _products_of_tensors(runs: int, delta: Tensor, x0: Tensor, outputs: Tensor) -> Tensor:
    """Return the products of all runs by two launches, after a copy of each tensor."""
    first = delta[0].unflatten(0, (runs, -1)).mT @ x0.unflatten(0, (runs, -1))
    if len(delta) == 1:
        return first
    rows = sequences_by_run(delta[1:], runs)
    columns = sequences_by_run(outputs[:-1], runs)
    return torch.baddbmm(first, rows.mT, columns)
