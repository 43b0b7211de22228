"""Timers: functions that do something once and return the time that it took.

`study.bench.race` runs them in turn. With a GPU there are two times: that of the GPU
(`device_timer`), and that of the host, which only submits the work (`host_timer`).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from longrnn import kernels
from torch import nn

_PASSES_BEFORE_GRAPH = 3
"""Passes before a graph is captured, as PyTorch's documentation advises."""

Timer = Callable[[], float]
"""Does something once and returns the time in milliseconds."""


@dataclass(frozen=True)
class Workload:
    """Sizes of one benchmark: a forward and backward pass of one recurrent layer.

    Attributes
    ----------
    batch, time_steps, hidden, inputs : int
        Sequences per mini-batch, their length, recurrent dimension, and features per input.
    """

    batch: int
    time_steps: int
    hidden: int
    inputs: int = 1

    def __str__(self) -> str:
        return f"B{self.batch} T{self.time_steps} d{self.hidden}"


def wall_timer(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> Timer:
    """Return a timer of a call.

    Parameters
    ----------
    run : callable
        The call to time.
    clock : callable
        Returns the time in seconds.

    Returns
    -------
    Timer
    """

    def timer() -> float:
        start = clock()
        run()
        return 1e3 * (clock() - start)

    return timer


def device_timer(run: Callable[[], object]) -> Timer:
    """Return a timer of a call's work on the GPU, between two events on the current stream.

    Parameters
    ----------
    run : callable
        The call to time.

    Returns
    -------
    Timer
    """

    def between_events() -> float:
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    return between_events


def host_timer(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> Timer:
    """Return a timer of the host's work in a call. The GPU is idle before the call.

    The time ends when the call returns. By then all work is submitted to the GPU, but not finished.

    Parameters
    ----------
    run : callable
        The call to time.
    clock : callable
        Returns the time in seconds.

    Returns
    -------
    Timer
    """

    def until_submitted() -> float:
        torch.cuda.synchronize()
        start = clock()
        run()
        submitted = 1e3 * (clock() - start)
        torch.cuda.synchronize()
        return submitted

    return until_submitted


def as_graph(run: Callable[[], object]) -> Callable[[], object]:
    """Return a function that replays the GPU work of `run` as one CUDA graph.

    The graph is captured at the first call. Before the capture, `run` is called several times on
    another stream, so that kernels are compiled and libraries choose their algorithms.

    Parameters
    ----------
    run : callable
        Work on the GPU that does not depend on values of tensors.

    Returns
    -------
    callable
        Returns the tensors that `run` returned when it was captured; a replay overwrites them.
    """
    graphs: list[torch.cuda.CUDAGraph] = []
    results: list[object] = []

    def replay() -> object:
        if not graphs:
            other_stream = torch.cuda.Stream()
            other_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(other_stream):
                for _ in range(_PASSES_BEFORE_GRAPH):
                    run()
            torch.cuda.current_stream().wait_stream(other_stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                results.append(run())
            graphs.append(graph)
        graphs[0].replay()
        return results[0]

    return replay


def training_pass(module: nn.Module, u: torch.Tensor, **options) -> Callable[[], object]:
    """Return a forward and backward pass of a recurrent layer from its last output.

    Parameters
    ----------
    module : nn.Module
        A layer that returns outputs and a state.
    u : Tensor
        Input, shape (time, batch, input).
    **options
        Further arguments of the layer.

    Returns
    -------
    callable
        Returns the gradients of all parameters.
    """
    parameters = list(module.parameters())

    def run() -> object:
        outputs, _ = module(u, **options)
        return torch.autograd.grad(outputs[-1].sum(), parameters, allow_unused=True)

    return run


def engines_on(cell: str, device: str = "cpu") -> list[str]:
    """Return the engines that can run a cell on this machine.

    Parameters
    ----------
    cell : str
        Name of the cell.
    device : str
        Type of the device, ``cpu`` or ``cuda``.

    Returns
    -------
    list of str
        Their names, the reference first. Engines that run only if they are named are included.
    """
    names = kernels.engine_names(cell, with_opt_in=True)
    return [name for name in names if kernels.can_run(cell, name, device)]
