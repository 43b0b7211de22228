"""A slice of the factorial experiment: the time of its networks one by one, and many in one pass.

A pass is a step of training without the optimizer and without moving the batch to the device. All
passes are loops over time, so that one length gives the rate of any length. Notebook 85 computes
the cost of the whole experiment from these rates.
"""

from collections.abc import Callable
from functools import partial

import torch
from longrnn import kernels
from longrnn.cells import make_cell
from torch import Tensor, nn
from torch.nn import functional as F

from study.bench.counts import TRAINING, count
from study.bench.race import Ledger, Timer, Workload, on_device, race, wall
from study.training.vmapped_pass import VmappedPass

CELLS = ("rnn", "lstm", "gru", "lipschitz", "antisymmetric", "exponential", "unicornn", "lem")
CLASSES = 10


class Network(nn.Module):
    """A cell and a head, as in `study.training.model.Model`, whose packages a GPU box may lack."""

    def __init__(self, name: str, inputs: int, hidden: int) -> None:
        super().__init__()
        self.cell = make_cell(name, inputs, hidden)
        self.output = nn.Linear(hidden, CLASSES)

    def forward(self, u: Tensor, *, engine: str = "auto") -> Tensor:
        """Return (batch, classes) of inputs (batch, time, input)."""
        _, state = self.cell(u.transpose(0, 1).contiguous(), engine=engine)
        return self.output(state[self.cell.readout])


class _Slice:
    """Some networks, a batch, and vmapped passes with and without a CUDA graph."""

    def __init__(self, name: str, workload: Workload, places: int, device: str) -> None:
        self.networks = [
            Network(name, workload.inputs, workload.hidden).to(device) for _ in range(places)
        ]
        self.parameters = [list(network.parameters()) for network in self.networks]
        inputs = torch.rand(workload.batch, workload.time_steps, workload.inputs, device=device)
        classes = torch.zeros(workload.batch, dtype=torch.int64, device=device)
        self.batch = inputs, classes
        self.passes = {}
        for use_cuda_graph in (False, True):
            self.passes[use_cuda_graph] = VmappedPass(
                self.networks[0], _loss, places, use_cuda_graph=use_cuda_graph
            )

    def gradients_of_one(self) -> tuple[Tensor, ...]:
        """Return the gradients of the first network, computed alone by its engine."""
        loss = _loss(self.networks[0], *self.batch)
        return torch.autograd.grad(loss, self.parameters[0], allow_unused=True)

    def gradients(self, count: int, *, use_cuda_graph: bool) -> tuple[Tensor, ...]:
        """Return the gradients of the first `count` networks, computed in one pass."""
        vmapped = self.passes[use_cuda_graph]
        losses = vmapped.losses(self.networks[:count], [self.batch] * count)
        parameters = [parameter for network in self.parameters[:count] for parameter in network]
        return torch.autograd.grad(losses, parameters, materialize_grads=True)

    def first_gradient(self, count: int, *, use_cuda_graph: bool) -> Tensor:
        """Return the first network's gradient as one vector, from a pass of `count` networks."""
        gradients = self.gradients(count, use_cuda_graph=use_cuda_graph)
        return torch.cat([part.flatten() for part in gradients[: len(self.parameters[0])]])


def time_slice(
    name: str, workload: Workload, ledger: Ledger, *, places: int, rounds: int, device: str = "cuda"
) -> None:
    """Time a training pass of one network, and of several with and without a CUDA graph.

    The ledger receives the rows of `study.bench.race.race`, the rates that notebook 85 uses,
    whether the pass was captured in a graph, and two checks: a network's gradient must have the
    same bits next to other networks and in a pass without a graph. Stored results rest on that.

    Parameters
    ----------
    name : str
        Architecture.
    workload : Workload
        Batch size, time steps and width.
    ledger : Ledger
        Receives the rows.
    places : int
        Number of networks in a pass.
    rounds : int
        Repetitions of each measurement.
    device : str
        Device of the networks.
    """
    piece = _Slice(name, workload, places, device)
    engine = kernels.choose(name, torch.device(device).type)
    alone = f"{name}, one, {engine}"
    plain = f"{name}, {places}"
    graph = f"{name}, {places}, graph"
    runs = {
        alone: piece.gradients_of_one,
        plain: partial(piece.gradients, places, use_cuda_graph=False),
        graph: partial(piece.gradients, places, use_cuda_graph=True),
    }
    timer: Callable[..., Timer] = on_device if device == "cuda" else wall
    entrants = {label: timer(run) for label, run in runs.items()}
    baselines = {plain: (alone,), graph: (alone,)}
    rows = race(entrants, ledger, size=workload, rounds=rounds, baselines=baselines)
    add = partial(ledger.add, size=workload)
    add(graph, "recorded", passed=piece.passes[True].uses_cuda_graph)

    times = {row["what"]: row["value"] for row in rows}  # milliseconds
    counts = count(name, workload.hidden, workload.inputs, TRAINING, workload.batch)
    rate_of_one = "launch_us" if engine.startswith("reference") else "engine_us"
    for label, rate in ((alone, rate_of_one), (plain, "launch_us"), (graph, "node_us")):
        if label not in times:
            continue
        microseconds = 1e3 * times[label] / workload.time_steps
        if rate != "engine_us":  # the rate of an operator, not of a time step
            microseconds /= counts.operators
        add(label, f"rate, {rate}", value=microseconds, unit="us")
    if graph in times:
        tflops = places * counts.flop * workload.time_steps / times[graph] / 1e9
        add(graph, "rate, tflops", value=tflops, unit="TFLOP/s")

    expected = piece.first_gradient(places, use_cuda_graph=True)
    checks = {
        "bits in another company": piece.first_gradient(1, use_cuda_graph=True),
        "bits of a plain pass": piece.first_gradient(places, use_cuda_graph=False),
    }
    for quantity, gradient in checks.items():
        difference = (expected - gradient).abs().max() / expected.abs().max()
        add(graph, quantity, value=difference.item(), unit="relative", passed=difference == 0)


def _loss(model: Callable[..., Tensor], inputs: Tensor, classes: Tensor) -> Tensor:
    return F.cross_entropy(model(inputs), classes)
