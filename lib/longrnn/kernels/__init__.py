"""Engines: fast implementations of the cells, chosen by device and availability.

An engine is a function ``run(weights, state, u) -> (outputs, state)`` that runs a cell over whole
sequences. The file that defines an engine registers it with `register`. If no engine supports an
input, the cell runs its reference, the plain PyTorch loop `longrnn.cells._unroll.unroll`. All
engines compute in float32 and in float64.

Where to look:

``cpu_<cell>``, ``cuda_<cell>``
    The engine of a cell, or of a few cells with the same loop. The docstring of the file for the
    CPU derives the adjoint equations and says what is stored.
``cpu_<cell>_pull_back``, ``cuda_<cell>_pull_back``, ``_pull_back``
    Adjoint states of the LSTM and the GRU, which may exceed the range of floats, for the probes.
    What the two cells share is in ``_cpu_pull_back`` and ``_cuda_pull_back``.
``cpu_rnn_adjoints``
    Norms of the basic RNN's adjoint states that can be differentiated, for the coadjoint method.
``cuda_persistent_<cell>``, ``_cuda_persistent``, ``_cuda_persistent_device``
    The basic RNN, the LSTM, the GRU and LEM with weights that stay on the multiprocessor. They
    have not been timed; ``auto`` will take them where their times in `_measured` are shorter.
``_cuda_gates``
    What the two kinds of kernels of the LSTM, the GRU and LEM share.
``library``
    PyTorch's own layers: cuDNN, oneDNN.
``_engine``
    What an engine is, and which inputs it supports.
``_recurrence``
    A loop and its adjoint as a PyTorch operator. Its parts: ``_schema`` and ``_arguments`` (what a
    loop takes and returns), ``_adjoint``, ``_functions`` (autograd), ``_second_derivatives``,
    ``_mapping`` and ``_folding`` (vmap), ``_modes`` (forward mode, and tensors without values).
``_drive``, ``_products``, ``_runs``
    What surrounds a loop: the product of inputs and input weights, gradients of matrices, and
    several networks in one call.
``_cpu``, ``_cpu_cache``, ``_cpu_activations``, ``_blas``, ``_threads``, ``_memory``
    The CPU: compilation, machine code on disk, activations, BLAS, threads, and reused memory.
``_cpu_dense``, ``_cpu_dense_operator``
    The loops that six cells with one dense step share, and their operator.
``_cuda``, ``_cuda_kernel``, ``_cuda_launch``
    The GPU: Numba's target and the rules for kernels, compilation, launches.
``_cuda_device``, ``_cuda_dense``
    Device functions: activations, and the products of dense kernels.
``_cuda_chains``, ``_cuda_chains_device``, ``_cuda_pipeline``, ``_cuda_sums``
    What the kernels of independent neurons share: their drive, their loop, and sums of gradients.
``_measured``
    Measured times of engines on GPUs; ``auto`` chooses by them.
"""

import math
import warnings
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from longrnn.kernels._engine import Engine, Run
from longrnn.kernels._measured import measured_times
from longrnn.kernels._modes import is_in_onnx_export
from longrnn.registry import import_files

PREFERENCE = ("numba-cuda", "numba-cpu", "library")
"""Engines that ``auto`` tries in this order; the reference is the last resort."""

_ENGINES: dict[tuple[str, str], Engine] = {}


def register(name: str, *cells: str, **properties: Any) -> Callable[[Run], Run]:
    """Return a decorator that registers a function as an engine.

    Parameters
    ----------
    name : str
        Name of the engine, one of `PREFERENCE`.
    *cells : str
        Names of the cells that the function runs.
    **properties
        Further fields of `Engine`.

    Returns
    -------
    callable
        Registers its argument and returns it unchanged.
    """

    def add(run: Run) -> Run:
        for cell in cells:
            _ENGINES[cell, name] = Engine(name, cell, run, **properties)
        return run

    return add


def engine_names(cell: str, *, with_opt_in: bool = False) -> list[str]:
    """Return the names of the engines of a cell.

    Parameters
    ----------
    cell : str
        Name of the cell.
    with_opt_in : bool
        Whether to include engines that run only if they are named.

    Returns
    -------
    list of str
        ``reference``, then the others by preference.
    """
    names = ["reference"]
    for name in PREFERENCE:
        engine = _ENGINES.get((cell, name))
        if engine is not None and (with_opt_in or not engine.opt_in):
            names.append(name)
    return names


def can_run(cell: str, engine: str, device: str) -> bool:
    """Return whether an engine of a cell can run on a type of device of this machine.

    Parameters
    ----------
    cell : str
        Name of the cell.
    engine : str
        Name of the engine.
    device : str
        Type of the device, such as ``cpu``.

    Returns
    -------
    bool
    """
    return engine == "reference" or not _ENGINES[cell, engine].refusal(device)


def module_of(cell: str, engine: str) -> str | None:
    """Return the module that defines an engine, so that its code can be part of a cache key.

    Parameters
    ----------
    cell : str
        Name of the cell.
    engine : str
        Name of the engine as returned by `choose`, possibly with a device (``library-cuda``).

    Returns
    -------
    str or None
        Full name of the module; None for the reference, which is part of the cell itself.
    """
    if (cell, engine) not in _ENGINES:
        engine = engine.partition("-")[0]  # without the device
    if engine == "reference":
        return None
    return _ENGINES[cell, engine].run.__module__


def choose(
    cell: str,
    device: str,
    options: Collection[str] = (),
    dtype: torch.dtype | None = None,
    units: int | None = None,
) -> str:
    """Return the name of the engine that ``auto`` selects.

    If only the reference is left on a device for which the cell has an engine, a warning says why:
    NVIDIA's compiler libraries are missing, or the cell is too wide, for example. Each reason is
    reported once per process. On a CPU nothing is reported.

    During `torch.onnx.export` only PyTorch's own layers and the reference are selected.

    On other devices than the CPU, the name ends with the device (``library-cuda``). Results are
    cached under this name, and their last digits depend on the device.

    Parameters
    ----------
    cell : str
        Name of the cell.
    device : str
        Type of the input's device.
    options : collection of str
        Options that the engine must have.
    dtype : torch.dtype, optional
        Type that the engine must compute in.
    units : int, optional
        Hidden size that the engine must support.

    Returns
    -------
    str
        Such as ``numba-cpu``, ``numba-cuda``, ``library-cuda`` or ``reference``.
    """
    chosen = "reference"
    obstacle = ""
    for name in _by_speed(cell, device, units):
        if name != "library" and is_in_onnx_export():
            continue
        engine = _ENGINES[cell, name]
        refusal = engine.refusal(device, options, dtype, units)
        if refusal:
            if device in engine.devices and device != "cpu":
                if refusal == engine.obstacle():  # it concerns the machine, not this cell
                    obstacle = refusal
                else:
                    obstacle = f"engine {name!r} cannot run {cell}: {refusal}"
            continue
        chosen = name
        if not engine.is_slower(units):
            break
    # While `torch.compile` traces, a warning would break the graph.
    if obstacle and chosen == "reference" and not torch.compiler.is_compiling():
        _warn_of(obstacle)
    if device == "cpu" or chosen.endswith(device):
        return chosen
    return f"{chosen}-{device}"


@cache  # once per process, whatever the filters for warnings are
def _warn_of(obstacle: str) -> None:
    """Warn that cells run by the reference because of an obstacle."""
    warnings.warn(
        f"longrnn runs on the GPU by a plain PyTorch loop, which is slow: {obstacle}", stacklevel=2
    )


def _by_speed(cell: str, device: str, units: int | None) -> list[str]:
    """Return the engines of a cell in the order in which ``auto`` tries them.

    On a GPU for which there are measured times, the fastest engine comes first, and opt-in engines
    with a time are included. Inside `torch.func` transforms an engine that supports them comes
    before one that does not.
    """
    if device != "cuda":
        return engine_names(cell)[1:]
    fastest = {}
    for key, time in measured_times(cell, units).items():
        name = key.partition(",")[0]  # without the variant
        fastest[name] = min(time, fastest.get(name, math.inf))
    names = []
    for name in engine_names(cell, with_opt_in=True)[1:]:
        if name in fastest or not _ENGINES[cell, name].opt_in:
            names.append(name)
    transformed = torch._C._are_functorch_transforms_active()

    def rank(name: str) -> tuple[bool, float]:
        unsupported = transformed and not _ENGINES[cell, name].transforms
        return unsupported, fastest.get(name, math.inf)

    return sorted(names, key=rank)  # engines without a measured time keep their order


_FASTER_MAPPED = {("lstm", "cpu"), ("chrono_lstm", "cpu")}
"""Cells and devices whose mapped reference was measured to be faster than the engine.

The mapped reference of 20 LSTM networks (batch 32, 100 steps, one thread) takes 0.9 of the engine's
time with 128 units, but 1.4 of it with 32. It was faster with 32 units, too, when the stored
results were computed. Their last digits depend on the engine, so the rule is the same for all
sizes. For the basic RNN, GRU, LEM, Lipschitz RNN and coRNN the mapped reference took 1.05 to 1.75
of the engine's time with 32 to 256 units.
"""


def choose_for_runs(
    cell: str, device: str, dtype: torch.dtype | None = None, units: int | None = None
) -> str:
    """Return the engine for several networks, mapped over their weights by `torch.vmap`.

    An engine that takes all networks in one call comes first, unless `_FASTER_MAPPED` lists the
    cell. The reference maps as well, with one batched product per time step.

    Parameters
    ----------
    cell : str
        Name of the cell.
    device : str
        Type of the device.
    dtype : torch.dtype, optional
        Type that the engine must compute in.
    units : int, optional
        Hidden size that the engine must support.

    Returns
    -------
    str
        The name of the engine, as from `choose`.
    """
    reference = "reference"
    if device != "cpu":
        reference = f"reference-{device}"
    if (cell, device) in _FASTER_MAPPED:
        return reference
    for name in PREFERENCE:
        engine = _ENGINES.get((cell, name))
        if engine is None or not engine.takes_networks:
            continue
        if not engine.refusal(device, dtype=dtype, units=units):
            return name
    return reference


def select(
    cell: str,
    engine: str,
    u: Tensor,
    options: Mapping[str, object] | None = None,
    units: int | None = None,
) -> Run | None:
    """Return the function that runs `cell` on an input, or None for the reference.

    Parameters
    ----------
    cell : str
        Name of the cell.
    engine : str
        ``"auto"`` (see `choose`), ``"reference"``, or a name, with or without the device.
    u : (time, batch, input)
        The input.
    options : mapping, optional
        Options of the engine, see `Engine.options`. The reference ignores them, because they don't
        change the result.
    units : int, optional
        Hidden size of the cell. ``"auto"`` skips engines that don't support it.

    Returns
    -------
    callable or None
        ``run(weights, state, u)``, see the module's docstring.

    Raises
    ------
    ValueError
        The cell has no such engine, or the engine doesn't support this input.
    """
    options = options or {}
    if engine == "auto":
        engine = choose(cell, u.device.type, options, u.dtype, units)
    if (cell, engine) not in _ENGINES:
        engine = engine.removesuffix(f"-{u.device.type}")
    if engine == "reference":
        return None
    if (cell, engine) not in _ENGINES:
        raise ValueError(f"{cell} has no engine {engine!r}; it has {', '.join(engine_names(cell))}")
    chosen = _ENGINES[cell, engine]
    refusal = chosen.refusal(u.device.type, options, u.dtype, units)
    if refusal:
        raise ValueError(f"engine {engine!r} cannot run {cell}: {refusal}; use engine='auto'")
    if not chosen.transforms and torch._C._are_functorch_transforms_active():
        return None
    if not options:
        return chosen.run
    return partial(chosen.run, **options)


import_files(__name__, __path__)  # each file registers its engines
