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
OTHER_TYPES = (
    torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.uint8,
)  # fmt: skip
ENGINES = ("", "numba", "numba-cuda", "cuda", "referenc", "numba-cpu-", "AUTO", "library-cuda")
TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-9}


def _engines(name):
    """The engines that a CPU has for a cell."""
    engines = [engine for engine in kernels.engine_names(name) if "cuda" not in engine]
    return [*engines, "auto"]


def _input(draw, dtype=torch.float32):
    generator = torch.Generator().manual_seed(draw.randrange(2**31))
    shape = (draw.randrange(1, 9), draw.randrange(1, 6), P)
    return torch.randn(shape, generator=generator, dtype=dtype)


def _bad_call(draw, cell, u):
    """An input and a state of which one is wrong."""
    T, B, _ = u.shape
    good = tuple(torch.zeros(B, D, dtype=u.dtype) for _ in range(cell.states))
    at = draw.randrange(cell.states)

    def with_part(part):
        return u, (*good[:at], part, *good[at + 1 :])

    match draw.randrange(12):
        case 0:
            return u[draw.choice((0, ...))].reshape(-1)[: draw.randrange(1, 9)], None
        case 1:
            return draw.choice((u[0], u[None], u[..., None], u[0, 0, 0])), None
        case 2:
            return torch.zeros(T, B, draw.choice((0, 1, P - 1, P + 1, 100))), None
        case 3:
            return draw.choice((u[:0], u[:, :0])), None
        case 4:
            other = torch.float64 if u.dtype == torch.float32 else torch.float32
            return u.to(draw.choice((*OTHER_TYPES, other))), None
        case 5 | 6:
            bad = u.clone()
            for _ in range(draw.choice((1, 1, 5))):
                bad.view(-1)[draw.randrange(u.numel())] = draw.choice((np.nan, np.inf, -np.inf))
            return bad, None
        case 7:
            return u, draw.choice((good[:-1], (*good, good[0]), (good[0],) * 5))
        case 8:
            return with_part(torch.zeros(draw.choice((B + 1, 1 + 2 * B)), D, dtype=u.dtype))
        case 9:
            return with_part(torch.zeros(B, draw.choice((0, 1, D - 1, D + 1)), dtype=u.dtype))
        case 10:
            return with_part(good[at].to(draw.choice((torch.float16, torch.int64, torch.bool))))
        case _:
            turned = good[at].T if B != D else good[at][0]
            return with_part(draw.choice((good[at][0], good[at][None], turned)))


@pytest.mark.parametrize("name", cell_names())
def test_bad_calls_are_refused_by_every_engine(trials, draw, name):
    cells = {dtype: make_cell(name, P, D).to(dtype) for dtype in TOLERANCE}
    for _ in trials.some(REFUSED):
        dtype = draw.choice(list(TOLERANCE))
        cell = cells[dtype]
        u, state = _bad_call(draw, cell, _input(draw, dtype))
        engine = draw.choice(_engines(name))
        parts = state and [tuple(part.shape) for part in state]
        what = name, engine, tuple(u.shape), u.dtype, parts
        trials.refuse(what, lambda: cell(u, state, engine=engine), ValueError)


def test_bad_cells_and_engines_are_refused(trials, draw):
    bad = (0, -1, True, 1.0, "3", None, 2.5, [3], np.nan)
    for _ in trials.some(400):
        name = draw.choice(cell_names())
        match draw.randrange(4):
            case 0:
                sizes = draw.choice(((draw.choice(bad), D), (P, draw.choice(bad))))
                trials.refuse((name, sizes), lambda: make_cell(name, *sizes), ValueError)
            case 1:
                wrong = draw.choice(("", "x", name + "x", name.upper(), f"{name} ", "../rnn"))
                trials.refuse(wrong, lambda: make_cell(wrong, P, D), ValueError)
            case 2:
                key = draw.choice(("dtt", "hidden_size_", "Phi", "W", "units"))
                trials.refuse((name, key), lambda: make_cell(name, P, D, **{key: 1}), ValueError)
            case _:
                engine = draw.choice(ENGINES)
                cell, u = make_cell(name, P, D), _input(draw)
                trials.refuse((name, engine), lambda: cell(u, engine=engine), ValueError)


def _strided(draw, u):
    """The same numbers, elsewhere in memory."""
    match draw.randrange(6):
        case 0:
            return u.permute(1, 2, 0).contiguous().permute(2, 0, 1)
        case 1:
            return torch.stack([u, torch.full_like(u, np.nan)], dim=-1)[..., 0]
        case 2:
            return torch.cat([torch.full_like(u, np.nan), u, u])[len(u) : 2 * len(u)]
        case 3:
            wide = torch.full((*u.shape[:2], 2 * P + 1), np.nan, dtype=u.dtype)
            wide[..., 1 : 1 + P] = u
            return wide[..., 1 : 1 + P]
        case 4:
            backing = torch.full((2 * len(u), *u.shape[1:]), np.nan, dtype=u.dtype)
            backing[::2] = u
            return backing[::2]
        case _:
            return u.transpose(0, 1).contiguous().transpose(0, 1)


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

        def right(found):
            pairs = zip((found[0], *found[1]), (expected, *final), strict=True)
            within = {"atol": TOLERANCE[dtype], "rtol": TOLERANCE[dtype]}
            return torch.equal(held, before) and all(
                torch.allclose(a, b, **within) for a, b in pairs
            )

        call = lambda: cells[dtype](held, engine=engine)
        trials.accept((name, engine, u.shape, held.stride()), call, right)
