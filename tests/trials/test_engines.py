"""Calls of cells and engines with shapes, types, values and memory that they were not made for."""

import numpy as np
import pytest
import torch

from lib import kernels
from lib.cells import cell_names, make_cell

pytestmark = pytest.mark.trials
KIND = "engine calls"

P, D = 3, 4
REFUSED, CALLED = 200, 12
"""Trials of each cell: calls that are refused, and calls that are not."""
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-9}


def _engines(name):
    """The engines that a CPU has for a cell."""
    engines = [engine for engine in kernels.engine_names(name) if "cuda" not in engine]
    return [*engines, "auto"]


def _input(draw, dtype=torch.float32):
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    shape = (draw.randrange(1, 9), draw.randrange(1, 6), P)
    return torch.randn(shape, generator=generator, dtype=dtype)


def _bad_calls(draw, cell, u):
    """Inputs and states of which one is wrong."""
    T, B, _ = u.shape
    good = tuple(torch.zeros(B, D, dtype=u.dtype) for _ in range(cell.states))
    at = draw.randrange(cell.states)
    bad = u.clone()
    bad.view(-1)[draw.randrange(u.numel())] = draw.choice((np.nan, np.inf, -np.inf))
    kinds = torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64
    kinds += (torch.float64 if u.dtype == torch.float32 else torch.float32,)
    shapes = [(B + 1, D), (1 + 2 * B, D), (D,), (1, B, D), *((B, d) for d in (0, 1, D - 1, D + 1))]
    shapes += [(D, B)] if B != D else []
    parts = [torch.zeros(shape, dtype=u.dtype) for shape in shapes]
    parts += [good[at].to(kind) for kind in (torch.float16, torch.int64, torch.bool)]
    return [
        *((wrong, None) for wrong in (u.reshape(-1), u[0], u[None], u[..., None], u[0, 0, 0])),
        *((torch.zeros(T, B, features), None) for features in (0, 1, P - 1, P + 1, 100)),
        *((wrong, None) for wrong in (u[:0], u[:, :0], bad, *(u.to(kind) for kind in kinds))),
        *((u, state) for state in (good[:-1], (*good, good[0]), (good[0],) * 5)),
        *((u, (*good[:at], part, *good[at + 1 :])) for part in parts),
    ]


@pytest.mark.parametrize("name", cell_names())
def test_bad_calls_are_refused_by_every_engine(trials, draw, name):
    cells = {dtype: make_cell(name, P, D).to(dtype) for dtype in TOLERANCE}
    for _ in trials.some(REFUSED):
        dtype = draw.choice(list(TOLERANCE))
        cell = cells[dtype]
        u, state = draw.choice(_bad_calls(draw, cell, _input(draw, dtype)))
        engine, shapes = draw.choice(_engines(name)), state and [tuple(s.shape) for s in state]
        what = name, engine, tuple(u.shape), u.dtype, shapes
        trials.refuse(what, lambda: cell(u, state, engine=engine), ValueError)


def test_bad_cells_and_engines_are_refused(trials, draw):
    sizes = (0, -1, True, 1.0, "3", None, 2.5, [3], np.nan)
    engines = ("", "numba", "numba-cuda", "cuda", "referenc", "numba-cpu-", "AUTO", "library-cuda")
    for _ in trials.some(400):
        name, size, engine = draw.choice(cell_names()), draw.choice(sizes), draw.choice(engines)
        wrong = draw.choice(("", "x", name + "x", name.upper(), f"{name} ", "../rnn"))
        key = draw.choice(("dtt", "hidden_size_", "Phi", "W", "units"))
        what, call = draw.choice(
            [
                ((name, size), lambda: make_cell(name, size, D)),
                ((name, P, size), lambda: make_cell(name, P, size)),
                (wrong, lambda: make_cell(wrong, P, D)),
                ((name, key), lambda: make_cell(name, P, D, **{key: 1})),
                ((name, engine), lambda: make_cell(name, P, D)(_input(draw), engine=engine)),
            ]
        )
        trials.refuse(what, call, ValueError)


def _strided(draw, u):
    """The same numbers, elsewhere in memory and between numbers that are none."""
    wide = torch.full((2 * len(u), u.shape[1], 2 * P + 1), np.nan, dtype=u.dtype)
    first = wide[: len(u), :, ::2][..., :P]
    held = draw.choice((wide[::2, :, 1 : 1 + P], first, wide[1::2, :, -P:]))
    held.copy_(u)
    return draw.choice((held, u.permute(1, 2, 0).contiguous().permute(2, 0, 1)))


@pytest.mark.parametrize("name", cell_names())
def test_strides_do_not_change_what_is_computed(trials, draw, name):
    torch.manual_seed(0)
    cells = {dtype: make_cell(name, P, D).to(dtype) for dtype in TOLERANCE}
    for _ in trials.some(CALLED):
        dtype = draw.choice(list(TOLERANCE))
        u = _input(draw, dtype)
        if draw.random() < 0.3:
            u = u[:1].expand(5, -1, -1)
        expected, final = cells[dtype](u.contiguous(), engine="reference")
        engine, held = draw.choice(_engines(name)), u if u.stride(0) == 0 else _strided(draw, u)
        before = held.clone()

        def right(found, expected=expected, final=final, held=held, before=before, dtype=dtype):
            pairs = zip((found[0], *found[1]), (expected, *final), strict=True)
            within = TOLERANCE[dtype]
            near = all(torch.allclose(a, b, atol=within, rtol=within) for a, b in pairs)
            return near and torch.equal(held, before)

        call = lambda: cells[dtype](held, engine=engine)
        trials.accept((name, engine, u.shape, held.stride()), call, right)
