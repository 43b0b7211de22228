"""A slice of the factorial experiment: what its networks cost a GPU one at a time, and many in one pass.

The passes take what a step of training takes but the optimisers and the batches' way to the device; all are loops over time, so that one
length tells the rate of any. The rates that follow are those that the bill (notebook 85) rests on.
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
    """A cell and a head, as `study.training.model.Model`, which needs packages that a box lacks."""

    def __init__(self, name: str, inputs: int, hidden: int) -> None:
        super().__init__()
        self.cell = make_cell(name, inputs, hidden)
        self.output = nn.Linear(hidden, CLASSES)

    def forward(self, u: Tensor, *, engine: str = "auto") -> Tensor:
        """Return (batch, classes) of inputs (batch, time, input)."""
        _, state = self.cell(u.transpose(0, 1).contiguous(), engine=engine)
        return self.output(state[self.cell.readout])


def time_slice(
    name: str, workload: Workload, ledger: Ledger, *, places: int, rounds: int, device: str = "cuda"
) -> None:
    """Time a training pass of one network and of `places`, with and without a graph.

    In the ledger are, beside the rows of `race`, the rates of the bill that they tell, whether the pass was recorded, and whether a
    network's gradients have the same bits in another company and in a plain pass: shards rest on that.
    """
    networks = [Network(name, workload.inputs, workload.hidden).to(device) for _ in range(places)]
    own = [list(network.parameters()) for network in networks]
    every = [parameter for parameters in own for parameter in parameters]
    shape = workload.batch, workload.time_steps, workload.inputs
    batch = torch.rand(shape, device=device), torch.zeros(shape[0], dtype=torch.int64).to(device)
    passes = {
        record: VmappedPass(networks[0], _loss, places, use_cuda_graph=record)
        for record in (False, True)
    }

    def gradients(company: int, record: bool) -> tuple[Tensor, ...]:
        losses = passes[record].losses(networks[:company], [batch] * company)
        asked = every[: company * len(own[0])]
        return torch.autograd.grad(losses, asked, materialize_grads=True)

    engine = kernels.choose(name, torch.device(device).type)
    alone, plain, graph = f"{name}, one, {engine}", f"{name}, {places}", f"{name}, {places}, graph"
    runs = {
        alone: lambda: torch.autograd.grad(_loss(networks[0], *batch), own[0], allow_unused=True),
        plain: lambda: gradients(places, False),
        graph: lambda: gradients(places, True),
    }
    timer: Callable[..., Timer] = on_device if device == "cuda" else wall
    entrants = {what: timer(run) for what, run in runs.items()}
    baselines = dict.fromkeys((plain, graph), (alone,))
    found = race(entrants, ledger, size=workload, rounds=rounds, baselines=baselines)
    add = partial(ledger.add, size=workload)
    add(graph, "recorded", passed=passes[True].uses_cuda_graph)
    # What a time step, an operator and an operation took, of those that were timed.
    times = {row["what"]: row["value"] for row in found}
    of = count(name, workload.hidden, workload.inputs, TRAINING, workload.batch)
    one = "launch_us" if engine.startswith("reference") else "engine_us"
    for what, quantity in ((alone, one), (plain, "launch_us"), (graph, "node_us")):
        if what in times:
            step = 1e3 * times[what] / workload.time_steps
            rate = step if quantity == "engine_us" else step / of.operators
            add(what, f"rate, {quantity}", value=rate, unit="us")
    if graph in times:
        tflops = places * of.flop * workload.time_steps / times[graph] / 1e9
        add(graph, "rate, tflops", value=tflops, unit="TFLOP/s")
    first, *others = (
        torch.cat([part.flatten() for part in gradients(*how)[: len(own[0])]])
        for how in ((places, True), (1, True), (places, False))
    )
    kinds = ("bits in another company", "bits of a plain pass")
    for quantity, other in zip(kinds, others, strict=True):
        off = (first - other).abs().max().item() / first.abs().max().item()
        add(graph, quantity, value=off, unit="relative", passed=off == 0)


def _loss(model: Callable[..., Tensor], inputs: Tensor, classes: Tensor) -> Tensor:
    return F.cross_entropy(model(inputs), classes)
