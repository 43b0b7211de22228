"""Count the work of one time step of a cell: operators, matrix products, bytes, GPU launches.

Counting needs no GPU and measures no time. Notebook 85 computes the cost of the factorial
experiment from these counts and from measured rates.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
import torch
from longrnn import kernels
from longrnn.cells import Cell, make_cell
from longrnn.kernels import _cuda_launch
from longrnn.probes import adjoint
from longrnn.probes.adjoint import adjoint_norms
from torch._library.custom_ops import OPDEFS
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry

TRAINING = "training"
PROBES = "probes"
_STEPS = 16
"""Difference between the lengths of two counted sequences, in time steps.

It is the number of time steps that the probes differentiate at once.
"""


@dataclass(frozen=True)
class Counts:
    """The work of one time step of one mini-batch.

    Attributes
    ----------
    operators : float
        Operators that PyTorch runs.
    products : float
        Matrix products among them.
    flop : float
        Floating-point operations of these products.
    bytes : float
        Bytes that the operators read and write.
    """

    operators: float
    products: float
    flop: float
    bytes: float


class _Counting(TorchDispatchMode):
    """Counts operators, products, their operations, and bytes. Views don't count."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = np.zeros(4)

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = operator(*args, **kwargs)
        if operator.is_view or operator is torch.ops.aten.detach.default:
            return result
        flop = 0
        count_flop = flop_registry.get(operator.overloadpacket)
        if count_flop is not None:
            flop = count_flop(*args, **kwargs, out_val=result)
        leaves = tree_leaves((args, kwargs, result))
        size = sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor))
        self.counted += (1, count_flop is not None, flop, size)
        return result


def count(cell: str, width: int, features: int, part: str, batch: int, **options: object) -> Counts:
    """Count the work of one time step of a cell's reference, forward and backward.

    The counts of batches of one and two sequences are extrapolated linearly. That is exact, because
    every sequence of a batch adds the same amount of work.

    Parameters
    ----------
    cell : str
        Name of the cell.
    width, features : int
        Recurrent and input dimensions.
    part : str
        `TRAINING`, or `PROBES` for the adjoint norms.
    batch : int
        Sequences of the mini-batch.
    **options
        Further settings of the cell, such as ``inner_steps``.

    Returns
    -------
    Counts
    """
    single = _count_step(cell, width, features, part, batch=1, options=options)
    double = _count_step(cell, width, features, part, batch=2, options=options)
    counted = single + (double - single) * (batch - 1)
    return Counts(*counted.tolist())


def _count_step(
    name: str, width: int, features: int, part: str, batch: int, options: dict[str, object]
) -> np.ndarray:
    """Return the work of one time step, from the difference between two lengths of sequences."""
    shorter = _count_sequence(name, width, features, part, batch, options, _STEPS)
    longer = _count_sequence(name, width, features, part, batch, options, 2 * _STEPS)
    return (longer - shorter) / _STEPS


def _count_sequence(
    name: str,
    width: int,
    features: int,
    part: str,
    batch: int,
    options: dict[str, object],
    time_steps: int,
) -> np.ndarray:
    """Return the work of a sequence, in the order of the fields of `Counts`."""
    run = _probe
    if part == TRAINING:
        run = _train
    cell = make_cell(name, features, width, **options)
    with _Counting() as counting:
        run(cell, torch.zeros(time_steps, batch, features))
    return counting.counted


def _train(cell: Cell, u: torch.Tensor) -> None:
    """Run forward and backward from the last output."""
    outputs, _ = cell.run(u, cell.initial_state(u.shape[1]), engine="reference")
    torch.autograd.grad(outputs[-1].sum(), list(cell.parameters()), allow_unused=True)


def _probe(cell: Cell, u: torch.Tensor) -> None:
    """Measure the adjoint norms at the first and the last time step."""
    adjoint_norms(cell, u, _sums, times=(1, len(u)), engine="reference")


def _sums(x: torch.Tensor) -> torch.Tensor:
    """Return a loss for each sequence: the sum of its outputs."""
    return x.sum(1)


@dataclass(frozen=True)
class Submitted:
    """What the host submits to a GPU per time step of one mini-batch.

    Attributes
    ----------
    kernels : float
        Number of kernels: PyTorch's operators except views, and our own kernels.
    launches : float
        Number of our own kernels.
    waits : float
        How often the host waits for the device.
    """

    kernels: float
    launches: float
    waits: float


_ALLOCATORS = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
"""Operators that only reserve memory."""
_NO_KERNEL = _ALLOCATORS | {"detach"}
"""Operators that are not views but submit no kernel."""
_LONG = 20
"""Number of chunks of the longer of two counted sequences. The shorter one has half as many."""


class _Submitting(TorchDispatchMode):
    """Counts the operators that submit a kernel to a GPU, including those inside engines."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if operator.namespace == "longrnn":  # an engine: count the operators that it calls
            with self:
                return OPDEFS[operator.name()]._init_fn(*args)
        if not operator.is_view and operator.overloadpacket.__name__ not in _NO_KERNEL:
            self.kernels += 1
        return operator(*args, **(kwargs or {}))


class _Host:
    """Replacements for kernel launches and waits of the host, which only count the calls."""

    def __init__(self) -> None:
        self.launches = 0
        self.waits = 0

    def launch(self, *_: object, **__: object) -> None:
        """Replace `longrnn.kernels._cuda_launch.launch`."""
        self.launches += 1

    def any(self, lost: torch.Tensor) -> bool:
        """Replace `longrnn.probes.adjoint._any`; the answer is always False."""
        lost.any()
        self.waits += 1
        return False


@contextmanager
def kernels_on_meta(*cells: str) -> Iterator[_Host]:
    """Let the GPU engines of some cells run on PyTorch's `meta` device, which computes nothing.

    Parameters
    ----------
    *cells : str
        Names of the cells.

    Yields
    ------
    _Host
        The counts of launches and waits.
    """
    host = _Host()
    with ExitStack() as stack:
        stack.enter_context(patch.object(_cuda_launch, "launch", host.launch))
        stack.enter_context(patch.object(_cuda_launch, "_processors", lambda *_: _H200_PROCESSORS))
        stack.enter_context(patch.object(adjoint, "_any", host.any))
        engines = {}
        for cell in cells:
            key = (cell, "numba-cuda")
            engines[key] = replace(kernels._ENGINES[key], devices=("meta",), obstacle=str)
        stack.enter_context(patch.dict(kernels._ENGINES, engines))
        yield host


_H200_PROCESSORS = 132
"""Number of multiprocessors of an NVIDIA H200, which engines ask for."""


def _on_meta(
    cell: str, width: int, features: int, batch: int, time_steps: int
) -> tuple[Cell, torch.Tensor]:
    """Return a cell and its input, (time, batch, features), on PyTorch's `meta` device."""
    network = make_cell(cell, features, width).to("meta")
    return network, torch.empty(time_steps, batch, features, device="meta")


def count_engine_probe(cell: str, width: int, features: int, batch: int) -> Submitted:
    """Count what the host submits per time step of a probe by the GPU engine of a cell.

    Parameters
    ----------
    cell : str
        Name of a cell with an engine for GPUs.
    width, features : int
        Recurrent and input dimensions.
    batch : int
        Number of sequences.

    Returns
    -------
    Submitted
        Per time step, from the difference between two lengths of sequences.
    """
    counted = []
    for chunks in (_LONG // 2, _LONG):
        time_steps = chunks * adjoint.ENGINE_CHUNK
        network, u = _on_meta(cell, width, features, batch, time_steps)
        with kernels_on_meta(cell) as host, _Submitting() as submitting:
            adjoint_norms(network, u, _sums, times=(1, time_steps))
        counted.append((submitting.kernels + host.launches, host.launches, host.waits))
    added = np.subtract(counted[1], counted[0]) / (_LONG // 2 * adjoint.ENGINE_CHUNK)
    return Submitted(*added.tolist())


def as_leaves(weights: tuple) -> tuple[tuple, list[torch.Tensor]]:
    """Return weights without the operators that computed them.

    Parameters
    ----------
    weights : tuple
        Weights of a cell, possibly nested.

    Returns
    -------
    weights : tuple
        The same weights, each tensor without a history.
    leaves : list of Tensor
        These tensors, which require gradients.
    """
    detached = tree_map_only(torch.Tensor, lambda part: part.detach().requires_grad_(), weights)
    return detached, [part for part in tree_leaves(detached) if isinstance(part, torch.Tensor)]


_SILENT = _ALLOCATORS | {"_unsafe_view"}
"""Operators that launch no kernel although their schemas don't call the result a view."""


class Work(TorchDispatchMode):
    """Counts the operators that a pass dispatches, their launches, and the bytes these move.

    A launch moves each of its tensors once. What our kernels read again, such as weights at every
    step, comes from a cache.

    Attributes
    ----------
    dispatches, launches, bytes : int
        The counts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dispatches = 0
        self.launches = 0
        self.bytes = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if operator.namespace == "longrnn":  # an ordinary call passes the dispatcher by
            with self:
                return OPDEFS[operator.name()]._init_fn(*args)
        self.dispatches += 1
        aliases = [part.alias_info for part in operator._schema.returns]
        is_view = any(alias is not None and not alias.is_write for alias in aliases)
        name = operator.overloadpacket.__name__
        if name == "contiguous":  # its schema calls every result a view, copies too
            is_view = args[0].is_contiguous()
        result = operator(*args, **(kwargs or {}))
        if not is_view and name not in _SILENT:
            self.count_launch(*tree_leaves((args, kwargs, result)))
        return result

    def count_launch(self, *arguments: object, **_: object) -> None:
        """Count a launch; stands in for that of a kernel of ours, too.

        Parameters
        ----------
        *arguments
            What it takes. Each tensor among them is moved once.
        """
        self.launches += 1
        tensors = {id(part): part for part in arguments if isinstance(part, torch.Tensor)}
        self.bytes += sum(part.nbytes for part in tensors.values())


def engine_work(
    cell: str, width: int, features: int, batch: int, time_steps: int, **options: object
) -> Work:
    """Count the work of a training pass by the GPU engine of a cell.

    The pass is read out from the final state. It needs no GPU.

    Parameters
    ----------
    cell : str
        Name of a cell with an engine for GPUs.
    width, features : int
        Recurrent and input dimensions.
    batch, time_steps : int
        Number of sequences, and their length.
    **options
        Options of the engine, such as ``variant``.

    Returns
    -------
    Work
    """
    network, u = _on_meta(cell, width, features, batch, time_steps)
    weights, leaves = as_leaves(network.weights())
    state = network.initial_state(batch)
    run = kernels._ENGINES[cell, "numba-cuda"].run
    work = Work()
    with kernels_on_meta(cell), patch.object(_cuda_launch, "launch", work.count_launch), work:
        _, final = run(weights, state, u, **options)
        read = final[network.readout]
        torch.autograd.grad(read, leaves, torch.empty_like(read), allow_unused=True)
    return work


def engine_bytes(cell: str, width: int, features: int, batch: int, **options: object) -> float:
    """Count the bytes that a time step of a training pass by the GPU engine of a cell moves.

    Parameters
    ----------
    cell, width, features, batch, **options
        As for `engine_work`.

    Returns
    -------
    float
        From the difference between two lengths of sequences.
    """
    shorter = engine_work(cell, width, features, batch, _STEPS, **options)
    longer = engine_work(cell, width, features, batch, 2 * _STEPS, **options)
    return (longer.bytes - shorter.bytes) / _STEPS
