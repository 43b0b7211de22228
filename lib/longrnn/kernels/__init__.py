"""Engines: fast implementations of the cells, chosen by device and availability.

An engine is a function with the signature of a reference unrolling bound to its step,
``run(weights, state, u) -> (outputs, state)``. The file that defines it registers it. A cell
without an engine for an input runs its reference, the plain PyTorch loop. All engines compute in
float32 and in float64.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from longrnn.registry import import_files

Run = Callable[..., tuple[Tensor, tuple[Tensor, ...]]]

PREFERENCE = ("numba-cuda", "numba-cpu", "library")
"""Engines that ``auto`` tries, in this order, before the reference."""
DTYPES = (torch.float32, torch.float64)
"""Types that the engines compute in."""


@dataclass(frozen=True)
class Engine:
    """One way to run one cell: the function and the inputs it takes."""

    name: str
    cell: str
    run: Run
    devices: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Keywords of `run` that choose how the engine works, not what it computes."""
    obstacle: Callable[[], str] = str
    """Returns what this machine lacks to run the engine; an empty string if nothing."""
    transforms: bool = True
    """Whether `torch.func` transforms (vmap, grad) work; the reference runs inside them if not."""
    most_units: Callable[[torch.dtype], int] | None = None
    """Returns the largest hidden size for a type of number, if there is one."""

    def refusal(
        self,
        device: str,
        options: Collection[str] = (),
        dtype: torch.dtype | None = None,
        units: int | None = None,
    ) -> str:
        """Return why the engine cannot run, or an empty string.

        Parameters
        ----------
        device : str
            Type of the input's device.
        options : collection of str
            Names of the options that are asked for.
        dtype : torch.dtype, optional
            Type of the input, if known.
        units : int, optional
            Hidden size, if known.
        """
        if device not in self.devices:
            return f"it runs on {' or '.join(self.devices)}, the input is on {device}"
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            return f"it has no option {unknown[0]!r}; it has {', '.join(self.options) or 'none'}"
        if dtype is not None and dtype not in DTYPES:
            return f"it computes in {' or '.join(map(str, DTYPES))}, the input is {dtype}"
        if units is not None and dtype is not None and self.most_units is not None:
            most = self.most_units(dtype)
            if units > most:
                return f"its hidden size is at most {most} in {dtype}, got {units}"
        return self.obstacle()


_ENGINES: dict[tuple[str, str], Engine] = {}


def register(name: str, *cells: str, **properties: Any) -> Callable[[Run], Run]:
    """Return a decorator that registers a function as the engine `name` of `cells`.

    `properties` are further fields of `Engine`.
    """

    def add(run: Run) -> Run:
        for cell in cells:
            _ENGINES[cell, name] = Engine(name, cell, run, **properties)
        return run

    return add


def engine_names(cell: str) -> list[str]:
    """Return the names of the engines of `cell`, the reference first."""
    return ["reference", *(name for name in PREFERENCE if (cell, name) in _ENGINES)]


def takes(cell: str, engine: str, device: str) -> bool:
    """Return whether an engine of `cell` takes inputs on a device of this machine."""
    return engine == "reference" or not _ENGINES[cell, engine].refusal(device)


def module_of(cell: str, engine: str) -> str | None:
    """Return the module that holds an engine of `cell`, to fingerprint the code that runs.

    The engine is named as by `choose`: away from the CPU with its device. The reference has none.
    """
    bare = engine if (cell, engine) in _ENGINES else engine.partition("-")[0]
    return None if bare == "reference" else _ENGINES[cell, bare].run.__module__


def choose(
    cell: str,
    device: str,
    options: Collection[str] = (),
    dtype: torch.dtype | None = None,
    units: int | None = None,
) -> str:
    """Return the engine that ``auto`` means: a name, or ``reference``.

    Away from the CPU the device is part of the name (``library-cuda``): results are filed under
    the name, and their last digits depend on the device.

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
        Hidden size that the engine must take.
    """
    chosen = "reference"
    for name in engine_names(cell)[1:]:
        if not _ENGINES[cell, name].refusal(device, options, dtype, units):
            chosen = name
            break
    if device == "cpu" or chosen.endswith(device):
        return chosen
    return f"{chosen}-{device}"


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
        ``"auto"`` (see `choose`), ``"reference"``, or a name, with the device or without.
    u : (time, batch, input)
        The input.
    options : mapping, optional
        How the engine is to work (see `Engine.options`). The reference ignores options: it
        computes the same.
    units : int, optional
        Hidden size of the cell. Under ``"auto"`` an engine that does not take it is passed over.

    Raises
    ------
    ValueError
        The cell has no such engine, or the engine cannot take this input.
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
    return partial(chosen.run, **options) if options else chosen.run


import_files(__name__, __path__)  # each file registers its engines
