"""Engines: fast twins of the cells' references, chosen by device and availability.

An engine is a function with the signature of a reference unrolling bound to its step, ``run(weights, state, u) -> (outputs, state)``,
registered by the file that defines it. A cell without an engine for the case at hand runs its reference, the plain PyTorch loop.
All compute in float32 and in float64, the types that a cell lets in.
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


@dataclass(frozen=True)
class Engine:
    """One way to run one cell: the function and the inputs it takes."""

    name: str
    cell: str
    run: Run
    devices: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Keywords of `run` by which a cell chooses how the engine works, not what it computes."""
    obstacle: Callable[[], str] = str
    """Says what this machine lacks to run the engine; nothing, where it lacks nothing."""

    def refusal(
        self, device: str, options: Collection[str] = (), dtype: torch.dtype | None = None
    ) -> str:
        """Return why the engine cannot take such options or inputs, or an empty string."""
        if device not in self.devices:
            return f"it runs on {' or '.join(self.devices)}, the input is on {device}"
        if unknown := sorted(set(options) - set(self.options)):
            return f"it has no option {unknown[0]!r}; it has {', '.join(self.options) or 'none'}"
        if dtype not in (None, torch.float32, torch.float64):
            return f"it computes in torch.float32 or torch.float64, the input is {dtype}"
        return self.obstacle()


_ENGINES: dict[tuple[str, str], Engine] = {}


def register(name: str, *cells: str, **about: Any) -> Callable[[Run], Run]:
    """Return a decorator that registers a function as the engine `name` of `cells`, with what else `Engine` says of it."""

    def add(run: Run) -> Run:
        for cell in cells:
            _ENGINES[cell, name] = Engine(name, cell, run, **about)
        return run

    return add


def engine_names(cell: str) -> list[str]:
    """Return the names of the engines of `cell`, the reference first."""
    return ["reference", *(name for name in PREFERENCE if (cell, name) in _ENGINES)]


def takes(cell: str, engine: str, device: str) -> bool:
    """Return whether an engine of `cell` takes inputs on a device of this machine."""
    return engine == "reference" or not _ENGINES[cell, engine].refusal(device)


def module_of(cell: str, engine: str) -> str | None:
    """Return the module that holds an engine of `cell`, for the fingerprint of what it runs; None for the reference.

    The engine is called as `choose` calls it, away from the CPU with its device.
    """
    bare = engine if (cell, engine) in _ENGINES else engine.partition("-")[0]
    return None if bare == "reference" else _ENGINES[cell, bare].run.__module__


def choose(
    cell: str, device: str, options: Collection[str] = (), dtype: torch.dtype | None = None
) -> str:
    """Return the engine that ``auto`` means for `cell` on a device: a name, or ``reference``.

    One that lacks an option asked for, or the type `dtype`, is passed over. Away from the CPU the device is part of the name (``library-cuda``):
    results are filed under it, and their last digits are the device's too.
    """
    known = (name for name in engine_names(cell) if name != "reference")
    fit = (name for name in known if not _ENGINES[cell, name].refusal(device, options, dtype))
    found = next(fit, "reference")
    return found if device == "cpu" or found.endswith(device) else f"{found}-{device}"


def select(
    cell: str, engine: str, u: Tensor, options: Mapping[str, object] | None = None
) -> Run | None:
    """Return the function that runs `cell` on an input `u`, or None for the reference.

    The engine is ``"auto"`` (see `choose`), ``"reference"``, or a name, with the device or without. `options` say how it is to
    work (see `Engine.options`); the reference heeds none: it computes the same. Raises `ValueError` where the engine does not
    exist for this cell, or cannot take this input.
    """
    options = options or {}
    if engine == "auto":
        engine = choose(cell, u.device.type, options, u.dtype)
    if (cell, engine) not in _ENGINES:
        engine = engine.removesuffix(f"-{u.device.type}")
    if engine == "reference":
        return None
    if (cell, engine) not in _ENGINES:
        raise ValueError(f"{cell} has no engine {engine!r}; it has {', '.join(engine_names(cell))}")
    if refusal := _ENGINES[cell, engine].refusal(u.device.type, options, u.dtype):
        raise ValueError(f"engine {engine!r} cannot run {cell}: {refusal}; use engine='auto'")
    run = _ENGINES[cell, engine].run
    return partial(run, **options) if options else run


import_files(__name__, __path__)  # each registers its engines
