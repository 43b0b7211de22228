r"""What the factorial experiment costs on a GPU: from counted operators, products and bytes, and from rates, to hours.

Operators, the operations of matrix products, and bytes of one time step are counted on the readable reference of each cell,
forward and backward: neither a GPU nor a clock is involved. Rates are somebody's word until they are measured, and each says
whose. With :math:`N` time steps of mini-batches, :math:`k` launches a step that :math:`R` networks share, :math:`F` operations
and :math:`B` bytes a step, the time is that of the tightest bound:

.. math:: N \max(k t_\text{launch} / R, \; F / f, \; B / b)
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from lib import kernels
from lib.cells import Cell, make_cell
from lib.probes.adjoint import adjoint_norms

TRAINING, PROBES = "training", "probes"
_STEPS = 16
"""Time steps by which two counted sequences differ; the probes differentiate so many at once."""


@dataclass(frozen=True)
class Rate:
    """A number that the bill rests on: its kind is ``counted``, ``measured`` or ``assumed``, `source` says on or from what."""

    value: float
    unit: str
    kind: str
    source: str


@dataclass(frozen=True)
class DataSet:
    """Sizes of a data set: inputs in a sequence, sequences for training and testing, features of an input."""

    time_steps: int
    train: int
    test: int
    features: int


DATA = {
    "mnist": DataSet(784, 60_000, 10_000, 1),
    "fashion_mnist": DataSet(784, 60_000, 10_000, 1),
    "cifar10": DataSet(1024, 50_000, 10_000, 3),
    "imdb": DataSet(500, 25_000, 25_000, 128),
    "reuters": DataSet(500, 8_982, 2_246, 128),
}
"""The dissertation's five (section 1.4); texts are embedded in 128 dimensions."""
NOISE_INPUTS = {"none": 0, "post": 1000, "uniform": 1000}

RATES = {
    "launch": Rate(
        5e-6, "s", "assumed", "an operator of PyTorch in one process, common experience"
    ),
    "engine": Rate(
        10e-6, "s", "assumed", "a step of cuDNN or of our kernels, forward and backward"
    ),
    "node": Rate(1.5e-6, "s", "assumed", "a kernel within a CUDA graph, common experience"),
    "float32": Rate(30e12, "FLOP/s", "assumed", "sustained; an H100's data sheet: 67e12, TF32 off"),
    "float64": Rate(
        30e12, "FLOP/s", "assumed", "sustained; an H100's data sheet: 67e12 by tensor cores"
    ),
    "bandwidth": Rate(2.7e12, "B/s", "assumed", "0.8 of an H100's data sheet"),
}


@dataclass(frozen=True)
class Counts:
    """Of one time step of one mini-batch: operators, matrix products among them, their operations, and bytes in and out."""

    operators: float
    products: float
    flop: float
    bytes: float


class _Counting(TorchDispatchMode):
    """Sums operators, products, their operations and bytes; views are no work."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = np.zeros(4)

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = operator(*args, **kwargs)
        if not operator.is_view and operator is not torch.ops.aten.detach.default:
            parts = [x for x in tree_leaves((args, kwargs, result)) if isinstance(x, torch.Tensor)]
            formula = flop_registry.get(operator.overloadpacket)
            flop = formula(*args, **kwargs, out_val=result) if formula else 0
            self.counted += (1, bool(formula), flop, sum(x.nbytes for x in parts))
        return result


def count(cell: str, width: int, features: int, part: str, batch: int) -> Counts:
    """Count one time step of a cell's reference, forward and backward, in a mini-batch of `batch` sequences.

    Two small batches are counted and continued in a straight line, which is exact: work grows with the batch by the same
    amount for every sequence.
    """
    one, two = (_step(cell, width, features, part, size) for size in (1, 2))
    return Counts(*(one + (two - one) * (batch - 1)).tolist())


def _step(name: str, width: int, features: int, part: str, batch: int) -> np.ndarray:
    """Return what one time step adds: what a longer sequence counts more than a shorter one."""
    run, totals = (_train if part == TRAINING else _probe), []
    for steps in (_STEPS, 2 * _STEPS):
        cell = make_cell(name, features, width)
        with _Counting() as counting:
            run(cell, torch.zeros(steps, batch, features))
        totals.append(counting.counted)
    return (totals[1] - totals[0]) / _STEPS


def _train(cell: Cell, u: torch.Tensor) -> None:
    outputs, _ = cell.run(u, cell.initial_state(u.shape[1]), engine="reference")
    torch.autograd.grad(outputs[-1].sum(), list(cell.parameters()), allow_unused=True)


def _probe(cell: Cell, u: torch.Tensor) -> None:
    adjoint_norms(cell, u, torch.sum, times=(1, len(u)), engine="reference")


@dataclass(frozen=True)
class Design:
    """The levels of the factorial, Table 1.2 of the dissertation, and how many sequences are computed at once."""

    cells: tuple[str, ...]
    widths: tuple[int, ...]
    epochs: tuple[int, ...]
    alike: int
    """Networks of one cell, width, data set, noise and number of epochs: rates times orders times replicates."""
    batch: int
    probe_batch: int
    places: int = 50
    """Networks in one pass, as `lib.training.factorial` trains them together on a GPU."""

    def attempts(self) -> int:
        """Return the number of networks."""
        kinds = len(self.cells) * len(self.widths) * len(self.epochs)
        return kinds * len(DATA) * len(NOISE_INPUTS) * self.alike

    def steps(self, part: str) -> Iterator[tuple[int, float]]:
        """Yield features and time steps of mini-batches, of all networks of one cell and width, for each data set."""
        for data in DATA.values():
            length = sum(data.time_steps + more for more in NOISE_INPUTS.values())
            batches = (
                data.train / self.batch
                if part == TRAINING
                else (data.train + data.test) / self.probe_batch
            )
            yield data.features, length * batches * sum(self.epochs) * self.alike


NOW = "network after network: an engine where a GPU has one, else an operator a launch"
BESIDE = "together: trained side by side by the references in a graph, probed network after network"
FUSED = "products and two fused kernels a step, side by side in a graph"
STORED = "the same, probes in float32 with states stored once"
WAYS = (NOW, BESIDE, FUSED, STORED)
"""The first two are what the experiment does with `together` at 1 and at 0. Those that are alike share launches where they run side by
side: in the second as many as a pass has places, in the others all. The bytes of fused kernels are not counted: they depend on
the kernel. The probes compute every state twice, which is a third of their products; who stores them saves that."""


def bill(design: Design, rates: dict[str, Rate]) -> list[dict]:
    """Return the hours that each cell, width and part takes in each of `WAYS`.

    Returns
    -------
    list of dict
        ``cell``, ``width``, ``part``, ``way``, ``hours`` and ``bound``, the rate that decides for most of the time.
    """
    found = []
    for cell in design.cells:
        for width in design.widths:
            for part in (TRAINING, PROBES):
                batch = design.batch if part == TRAINING else design.probe_batch
                steps = list(design.steps(part))
                counts = {p: count(cell, width, p, part, batch) for p in {p for p, _ in steps}}
                for way in WAYS:
                    seconds: dict[str, float] = {}
                    for features, number in steps:
                        beside = design.places if way == BESIDE else design.alike
                        bound, time = _tightest(way, cell, part, counts[features], beside, rates)
                        seconds[bound] = seconds.get(bound, 0.0) + number * time
                    key = {"cell": cell, "width": width, "part": part, "way": way}
                    bound = max(seconds, key=seconds.get)
                    found.append(key | {"hours": sum(seconds.values()) / 3600, "bound": bound})
    return found


def _tightest(
    way: str, cell: str, part: str, counts: Counts, beside: int, rates: dict[str, Rate]
) -> tuple[str, float]:
    """Return the rate that bounds one step of one network, of so many that share launches, and its seconds."""
    float32 = part == TRAINING or way == STORED
    arithmetic = "float32" if float32 else "float64"
    flop = counts.flop * (2 / 3 if part == PROBES and way == STORED else 1)
    bounds = {arithmetic: flop / rates[arithmetic].value}
    if way == NOW or (way == BESIDE and part == PROBES):
        rate, number = ("engine", 1) if _has_engine(cell, part) else ("launch", counts.operators)
    elif way == BESIDE:
        rate, number = "node", counts.operators / beside
        bounds["bandwidth"] = counts.bytes / rates["bandwidth"].value
    else:
        rate, number = "node", (counts.products + 2) / beside
    bounds[rate] = number * rates[rate].value
    bound = max(bounds, key=bounds.get)
    return bound, bounds[bound]


def _has_engine(cell: str, part: str) -> bool:
    """Return whether a GPU has an engine for a cell; the probes have no use for the library's."""
    names = kernels.engine_names(cell)
    return "numba-cuda" in names or (part == TRAINING and "library" in names)
