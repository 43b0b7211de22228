"""Train layers in one process, or in two with `DistributedDataParallel`.

The two processes import this module: they cannot import a module of tests.
"""

import torch
from longrnn.cells import LAYER_CLASSES
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

PROCESSES = 2
STEPS = 3
TIME_STEPS = 5
BATCH_SIZE = 4
INPUT_SIZE = 2
HIDDEN_SIZE = 3
DOUBLE = torch.float64


def layer_named(name: str) -> nn.Module:
    """Return a layer of two levels and directions that every process builds alike."""
    torch.manual_seed(0)
    sizes = {"num_layers": 2, "bidirectional": True}
    layer = LAYER_CLASSES[name](INPUT_SIZE, HIDDEN_SIZE, dtype=DOUBLE, **sizes)
    layer.train_initial_state()
    return layer


def batches() -> torch.Tensor:
    """Return two batches per training step."""
    generator = torch.Generator().manual_seed(1)
    shape = (STEPS, 2, TIME_STEPS, BATCH_SIZE, INPUT_SIZE)
    return torch.randn(shape, dtype=DOUBLE, generator=generator)


def add_gradients(model: nn.Module, batch: torch.Tensor) -> None:
    """Add the gradients of the mean square of a model's outputs."""
    output, _ = model(batch)
    output.square().mean().backward()


def train(layer: nn.Module) -> dict[str, torch.Tensor]:
    """Train in one process; each step adds up the gradients of two batches."""
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for first, second in batches():
        optimizer.zero_grad()
        add_gradients(layer, first)
        add_gradients(layer, second)
        optimizer.step()
    return layer.state_dict()


def train_on_one_half(layer: nn.Module, rank: int) -> dict[str, torch.Tensor]:
    """Train like `train`, on one half of every batch; another process has the other half."""
    model = DistributedDataParallel(layer)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for both in batches():
        first, second = both.chunk(PROCESSES, dim=2)[rank]
        optimizer.zero_grad()
        with model.no_sync():
            add_gradients(model, first)
        add_gradients(model, second)
        optimizer.step()
    return layer.state_dict()


def train_all_on_one_half(rank: int, directory: str) -> None:
    """Train every layer in one of the two processes, and save their parameters."""
    torch.set_num_threads(1)
    store = distributed.FileStore(f"{directory}/store", PROCESSES)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=PROCESSES)
    trained = {name: train_on_one_half(layer_named(name), rank) for name in LAYER_CLASSES}
    torch.save(trained, f"{directory}/{rank}.pt")
    distributed.destroy_process_group()


def train_in_two_processes(directory: str) -> list[dict[str, dict[str, torch.Tensor]]]:
    """Train every layer in two processes.

    Parameters
    ----------
    directory
        An empty one, for the processes' files.

    Returns
    -------
    list of dict
        Per process, the parameters of each layer by its name.
    """
    multiprocessing.spawn(train_all_on_one_half, (directory,), nprocs=PROCESSES)
    return [torch.load(f"{directory}/{rank}.pt") for rank in range(PROCESSES)]
