"""Training steps of one network: plain, with a graph of the pass, and with one of the whole step.

The times include clipping and the optimizer, and on a GPU the waiting for the host. This needs the
packages of the training loop, which a GPU machine may lack.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from study.bench.gpu.slices import CLASSES, Network
from study.bench.ledger import Ledger
from study.bench.race import race
from study.bench.timers import Workload, device_timer, host_timer, wall_timer
from study.config.recipe import Recipe
from study.training.graphed_objective import GraphedObjective
from study.training.graphed_step import GraphedStep, apply_gradients
from study.training.optimizers import build_optimizers

STEPS = 20
"""Steps that are timed together: the host may run ahead of the GPU."""
RECIPE = Recipe(
    learning_rate=1e-3, steps=1, gradient_clip=1.0, optimizer="adam", options={"fused": True}
)


def time_steps(
    name: str, workload: Workload, ledger: Ledger, *, rounds: int = 5, device: str = "cuda"
) -> None:
    """Time `STEPS` training steps of a network in three ways, and compare the weights after them.

    Parameters
    ----------
    name : str
        Architecture.
    workload : Workload
        Batch size, time steps and width.
    ledger : Ledger
        Receives the rows of `study.bench.race.race`, and whether all ways give the same weights.
    rounds : int
        Repetitions of each measurement.
    device : str
        Type of the device, ``cuda`` or ``cpu``.
    """
    torch.manual_seed(0)
    inputs = torch.rand(workload.batch, workload.time_steps, workload.inputs, device=device)
    classes = torch.randint(0, CLASSES, (workload.batch,), device=device)
    networks = {}
    timers = {}
    for way, make_step in WAYS.items():
        torch.manual_seed(1)
        networks[way] = Network(name, workload.inputs, workload.hidden).to(device)
        step = make_step(networks[way])

        def steps(step: Callable[[Tensor, Tensor], object] = step) -> None:
            for _ in range(STEPS):
                step(inputs, classes)

        label = f"{name}, {way}"
        timers[label] = wall_timer(steps)
        if device == "cuda":
            timers[label] = device_timer(steps)
            timers[f"{label}, host"] = host_timer(steps)
    plain, *others = networks
    race(timers, ledger, size=workload, rounds=rounds, baselines=[f"{name}, {plain}"])
    expected = _weights(networks[plain])
    for way in others:
        passed = torch.equal(_weights(networks[way]), expected)
        failure = None
        if not passed:
            failure = "the weights differ from those after plain steps"
        quantity = "bits of plain steps"
        ledger.add(f"{name}, {way}", quantity, size=workload, passed=passed, failure=failure)


def _plain(network: Network) -> Callable[[Tensor, Tensor], object]:
    """Return a training step without a graph."""
    return _step_with(_loss, network)


def _with_graphed_pass(network: Network) -> Callable[[Tensor, Tensor], object]:
    """Return a training step whose forward and backward pass is a graph."""
    return _step_with(GraphedObjective(_loss, network), network)


def _graphed(network: Network) -> Callable[[Tensor, Tensor], object]:
    """Return a training step that is one graph."""
    optimizers, _ = build_optimizers(network, RECIPE, 0)
    objective = GraphedObjective(_loss, network)
    return GraphedStep(objective, network, optimizers, RECIPE.gradient_clip)


WAYS = {"plain": _plain, "graph of the pass": _with_graphed_pass, "graph of the step": _graphed}


def _step_with(objective, network: Network) -> Callable[[Tensor, Tensor], object]:
    """Return a training step as `study.training.loop.train` takes it."""
    optimizers, _ = build_optimizers(network, RECIPE, 0)
    parameters = list(network.parameters())

    def step(inputs: Tensor, classes: Tensor) -> None:
        network.zero_grad()
        objective(network, inputs, classes).backward()
        apply_gradients(parameters, optimizers, RECIPE.gradient_clip)

    return step


def _loss(model: Callable[..., Tensor], inputs: Tensor, classes: Tensor) -> Tensor:
    return F.cross_entropy(model(inputs), classes)


def _weights(network: Network) -> Tensor:
    """Return all weights as one vector."""
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
