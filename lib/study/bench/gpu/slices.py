"""A slice of the factorial experiment: the time of one network, and of many in one vmapped pass.

Many networks run by the reference and by the engine that takes them all in one call. Rates per
operator are those of the reference, whose operators `study.bench.counts` counts.

A pass is a training step without the optimizer and without moving the batch to the device. All
passes are loops over time, so the time per time step is the same for all lengths. Notebook 85
computes the cost of the whole experiment from these rates.
"""

from collections.abc import Callable
from functools import partial
from itertools import product

import torch
from longrnn import kernels
from longrnn.cells import make_cell
from torch import Tensor, nn
from torch.nn import functional as F

from study.bench.counts import TRAINING, Counts, count
from study.bench.ledger import Ledger
from study.bench.race import race
from study.bench.timers import Workload, device_timer, wall_timer
from study.training.vmapped_pass import VmappedPass

CELLS = ("rnn", "lstm", "gru", "lipschitz", "antisymmetric", "exponential", "unicornn", "lem")
CLASSES = 10


class Network(nn.Module):
    """A cell and a head, like `study.training.model.Model`.

    It needs none of the packages that a GPU machine may lack.
    """

    def __init__(self, name: str, inputs: int, hidden: int) -> None:
        super().__init__()
        self.cell = make_cell(name, inputs, hidden)
        self.output = nn.Linear(hidden, CLASSES)

    def forward(self, u: Tensor, *, engine: str = "auto") -> Tensor:
        """Return the predictions.

        Parameters
        ----------
        u : Tensor
            Shape (batch, time, input).
        engine : str
            Engine of the cell.

        Returns
        -------
        Tensor
            Logits, shape (batch, classes).
        """
        _, state = self.cell(u.transpose(0, 1).contiguous(), engine=engine)
        return self.output(state[self.cell.readout])


class _Slice:
    """Some networks, a batch, and vmapped passes with and without a CUDA graph."""

    def __init__(self, name: str, workload: Workload, pass_size: int, device: str) -> None:
        self.networks = []
        for _ in range(pass_size):
            self.networks.append(Network(name, workload.inputs, workload.hidden).to(device))
        self.parameters = [list(network.parameters()) for network in self.networks]
        inputs = torch.rand(workload.batch, workload.time_steps, workload.inputs, device=device)
        classes = torch.zeros(workload.batch, dtype=torch.int64, device=device)
        self.batch = (inputs, classes)
        self.passes = {}
        """Passes by engine, and by whether they replay a graph."""
        self.engines = ["reference"]
        """Engines of passes of several networks."""
        chosen = kernels.choose_for_runs(
            name, torch.device(device).type, self.batch[0].dtype, workload.hidden
        )
        if not chosen.startswith("reference"):
            self.engines.append(chosen)
        for engine, use_cuda_graph in product(self.engines, (False, True)):
            self.passes[engine, use_cuda_graph] = VmappedPass(
                self.networks[0], _loss, pass_size, use_cuda_graph=use_cuda_graph, engine=engine
            )

    def gradients_of_one(self) -> tuple[Tensor, ...]:
        """Return the gradients of the first network, computed alone by its engine."""
        loss = _loss(self.networks[0], *self.batch)
        return torch.autograd.grad(loss, self.parameters[0], allow_unused=True)

    def gradients(self, count: int, engine: str, *, use_cuda_graph: bool) -> tuple[Tensor, ...]:
        """Return the gradients of the first `count` networks, computed in one pass."""
        vmapped = self.passes[engine, use_cuda_graph]
        losses = vmapped.losses(self.networks[:count], [self.batch] * count)
        parameters = [parameter for network in self.parameters[:count] for parameter in network]
        return torch.autograd.grad(losses, parameters, materialize_grads=True)

    def first_gradient(self, count: int, engine: str, *, use_cuda_graph: bool) -> Tensor:
        """Return the first network's gradient as one vector, from a pass of `count` networks."""
        gradients = self.gradients(count, engine, use_cuda_graph=use_cuda_graph)
        of_first = gradients[: len(self.parameters[0])]
        return torch.cat([gradient.flatten() for gradient in of_first])


def time_slice(
    name: str,
    workload: Workload,
    ledger: Ledger,
    *,
    pass_size: int,
    rounds: int,
    device: str = "cuda",
) -> None:
    """Time a training pass of one network, and of several with and without a CUDA graph.

    The ledger receives the rows of `study.bench.race.race`, whether the pass was captured in a
    graph, the rates that notebook 85 uses, and two checks. The gradient of a network must have the
    same bits in a pass with fewer networks and in a pass without a graph, because the cache of
    results relies on that.

    Parameters
    ----------
    name : str
        Architecture.
    workload : Workload
        Batch size, time steps and width.
    ledger : Ledger
        Receives the rows.
    pass_size : int
        Number of networks in a pass.
    rounds : int
        Repetitions of each measurement.
    device : str
        Type of the device, ``cuda`` or ``cpu``.
    """
    networks = _Slice(name, workload, pass_size, device)
    engine = kernels.choose(name, torch.device(device).type)
    single = f"{name}, one, {engine}"
    passes = {single: networks.gradients_of_one}
    rates = {single: "launch_us" if engine.startswith("reference") else "engine_us"}
    baselines = {}
    graphs = {}
    for engine in networks.engines:
        several = f"{name}, {pass_size}"
        rate, rate_in_graph = "launch_us", "node_us"
        if engine != "reference":
            several += f", {engine}"
            rate = rate_in_graph = "pass_us"
        graphs[engine] = f"{several}, graph"
        plain = partial(networks.gradients, pass_size, engine, use_cuda_graph=False)
        graphed = partial(networks.gradients, pass_size, engine, use_cuda_graph=True)
        passes |= {several: plain, graphs[engine]: graphed}
        rates |= {several: rate, graphs[engine]: rate_in_graph}
        baselines |= {several: (single,), graphs[engine]: (single,)}
    timer = wall_timer
    if device == "cuda":
        timer = device_timer
    entrants = {label: timer(run) for label, run in passes.items()}
    rows = race(entrants, ledger, size=workload, rounds=rounds, baselines=baselines)
    times = {row["what"]: row["value"] for row in rows}
    counts = count(name, workload.hidden, workload.inputs, TRAINING, workload.batch)
    _add_rates(ledger, workload, times, rates, counts)
    for engine, graph in graphs.items():
        captured = networks.passes[engine, True].uses_cuda_graph
        failure = None
        if device == "cuda" and not captured:
            failure = "the pass was not captured in a CUDA graph"
        ledger.add(graph, "recorded", size=workload, passed=captured, failure=failure)
        if graph in times:
            tflops = pass_size * counts.flop * workload.time_steps / times[graph] / 1e9
            ledger.add(graph, "rate, tflops", size=workload, value=tflops, unit="TFLOP/s")
        add = partial(ledger.add, graph, size=workload)
        _check_bits(networks, pass_size, engine, add)


def _add_rates(
    ledger: Ledger,
    workload: Workload,
    times: dict[str, float],
    rates: dict[str, str],
    counts: Counts,
) -> None:
    """Append the rate of each entrant: its time per time step, or per operator of a time step.

    Parameters
    ----------
    ledger, workload
        As for `time_slice`.
    times
        Milliseconds of a pass, by label of the entrant.
    rates
        Name of the rate of each entrant. ``engine_us`` is a time per time step of one network, and
        ``pass_us`` of all networks of a pass; the others are times per operator.
    counts
        The work of one time step.
    """
    for label, milliseconds in times.items():
        rate = rates[label]
        microseconds = 1e3 * milliseconds / workload.time_steps
        if rate not in ("engine_us", "pass_us"):
            microseconds /= counts.operators
        ledger.add(label, f"rate, {rate}", size=workload, value=microseconds, unit="us")


def _check_bits(networks: _Slice, pass_size: int, engine: str, add: Callable[..., dict]) -> None:
    """Compare the first network's gradient with that from other passes; `add` appends a row."""
    expected = networks.first_gradient(pass_size, engine, use_cuda_graph=True)
    others = {
        "bits in a smaller pass": networks.first_gradient(1, engine, use_cuda_graph=True),
        "bits of a plain pass": networks.first_gradient(pass_size, engine, use_cuda_graph=False),
    }
    for quantity, gradient in others.items():
        difference = ((expected - gradient).abs().max() / expected.abs().max()).item()
        passed = difference == 0
        failure = None
        if not passed:
            failure = "the gradient of the first network differs"
        add(quantity, value=difference, unit="relative", passed=passed, failure=failure)


def _loss(model: Callable[..., Tensor], inputs: Tensor, classes: Tensor) -> Tensor:
    return F.cross_entropy(model(inputs), classes)
