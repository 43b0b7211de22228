"""The GPU kernels in Numba's simulator; `test_cuda.py` runs this file in a process of its own.

Sizes are odd and small: the simulator takes microseconds for each step of each thread. Chains are fetched eight steps ahead, so
their lengths lie on both sides of 8 and 16; a dense block has one warp up to 32 units.
"""

from types import SimpleNamespace

import pytest
import torch

from lib import kernels
from lib.bench import Ledger, Workload, figure_1, wall
from lib.bench.parity import random_case
from lib.cells import make_cell
from lib.kernels import _cuda, _registry
from tests.engines import (
    TOLERANCE,
    VARIANTS,
    assert_bad_numbers_spread,
    assert_engine_agrees,
    assert_it_differentiates_once_and_what_is_asked,
    assert_masks_are_those_of_the_reference,
    irnn_whose_sequences_stand_at_different_rounds,
)

assert _cuda.SIMULATED

CHAINS = ["indrnn", "sru", "unicornn"]
DENSE = ["antisymmetric", "cornn", "exponential", "irnn", "lem", "lipschitz", "rnn"]
SIZES = [
    *((name, *size) for name in CHAINS for size in [(1, 1, 1), (2, 3, 5), (9, 3, 1), (19, 1, 33)]),
    *((name, *size) for name in DENSE for size in [(1, 1, 1), (2, 3, 5), (7, 1, 3), (3, 2, 33)]),
]
MORE_VARIANTS = [
    ("indrnn", {"phi": "sigmoid", "layers": 2, "bound": 0.5}),
    *(("unicornn", {"backward": "recovered", "layers": n}) for n in (1, 3)),
    *(("unicornn", {"backward": "reversible", "checkpoint": k}) for k in (1, 4, 21)),
]


def assert_agrees(case, use=("outputs", "state")):
    assert_engine_agrees(case, case[0].name, "numba-cuda", use=use)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("name", "T", "batch", "hidden"), SIZES)
def test_kernels_equal_the_reference(name, T, batch, hidden, dtype):
    assert_agrees(random_case(name, T, batch, hidden, dtype))


@pytest.mark.parametrize("use", [("outputs",), ("state",)], ids=str)
@pytest.mark.parametrize("name", CHAINS + DENSE)
def test_gradient_of_outputs_or_final_state_alone(name, use):
    assert_agrees(random_case(name, 4, 2, 3), use=use)


@pytest.mark.parametrize("T", [1, 21])
@pytest.mark.parametrize(
    ("name", "variant"),
    [*(case for case in VARIANTS if case[0] in CHAINS + DENSE), *MORE_VARIANTS],
)
def test_variants_equal_the_reference(name, variant, T):
    assert_agrees(random_case(name, min(T, 5) if name in DENSE else T, 2, 3, **variant))


def test_step_sizes_of_irnn_follow_the_rounds_that_each_sequence_has_done():
    assert_agrees(irnn_whose_sequences_stand_at_different_rounds(inner_steps=2))


def test_dropout_uses_the_masks_of_the_reference():
    case = random_case("unicornn", 6, 3, 4, layers=3, dropout=0.4)
    assert_masks_are_those_of_the_reference(case, "numba-cuda")


def test_a_block_serves_more_units_than_it_has_threads(monkeypatch):
    monkeypatch.setattr(_cuda, "MOST_THREADS", 32)
    for name in DENSE:
        assert_agrees(random_case(name, 2, 1, 40))


@pytest.mark.parametrize("tile", [1, 2, 4])
@pytest.mark.parametrize(
    ("name", "buffers"),
    [("antisymmetric", 3), ("cornn", 4), ("irnn", 5), ("lem", 7), ("lipschitz", 5), ("rnn", 2)],
)
def test_a_block_does_as_many_sequences_as_its_memory_holds(name, buffers, tile, monkeypatch):
    launch, tiles = _cuda.launch, set()

    def noting(*arguments, **more):
        tiles.add(more["tile"])
        launch(*arguments, **more)

    monkeypatch.setattr(_cuda, "launch", noting)
    monkeypatch.setattr(_cuda, "_SHARED_BYTES", tile * buffers * 3 * 8)
    assert_agrees(random_case(name, 3, 5, 3))
    assert tiles == {tile}


# ---------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", CHAINS + DENSE)
def test_bad_numbers_spread_as_in_the_reference(name, bad):
    assert_bad_numbers_spread(random_case(name, 4, 2, 3, torch.float32), "numba-cuda", bad)


@pytest.mark.parametrize("name", CHAINS + DENSE)
def test_a_kernel_differentiates_once_and_what_is_asked(name):
    assert_it_differentiates_once_and_what_is_asked(name, "numba-cuda")


def a_call(name="indrnn", **changed):
    """Call an engine with one part changed."""
    weights = make_cell(name, 2, 3).weights()
    parts = {"u": torch.randn(4, 5, 2), "state": (torch.zeros(5, 3),)} | changed
    return kernels.select(name, "numba-cuda", parts["u"])(weights, parts["state"], parts["u"])


BAD = [
    ({"u": torch.zeros(4, 5, 3)}, "expected an input of 2 features"),
    ({"u": torch.zeros(0, 5, 2)}, "no size of 0"),
    ({"u": torch.zeros(4, 5)}, "expected an input .time, batch, input."),
    ({"state": (torch.zeros(4, 3),)}, "expected states .batch, hidden. with batch=5"),
    ({"state": (torch.zeros(5, 4),)}, "expected states .batch, hidden. with hidden=3"),
    ({"u": torch.zeros(4, 5, 2, dtype=torch.float16)}, "it takes torch.float32 or torch.float64"),
    ({"state": (torch.zeros(5, 3).double(),)}, "expected weights and states of torch.float32"),
    ({"state": (torch.zeros(5, 3, device="meta"),)}, "of torch.float32 on cpu"),
]


@pytest.mark.parametrize(("changed", "told"), BAD)
@pytest.mark.parametrize("name", ["indrnn", "rnn"])
def test_bad_input_is_refused_in_a_sentence(name, changed, told):
    assert a_call(name)[0].shape == (4, 5, 3)
    with pytest.raises(ValueError, match=told) as refusal:
        a_call(name, **changed)
    assert "\n" not in str(refusal.value)


def test_a_hidden_size_beyond_the_shared_memory_is_refused():
    cell = make_cell("lem", 1, 1800)
    with pytest.raises(ValueError, match=r"at most 1755 in torch.float32 on numba-cuda, got 1800"):
        cell(torch.zeros(1, 1, 1), engine="numba-cuda")


def test_a_device_without_enough_memory_is_told_in_a_sentence(monkeypatch):
    def no_room(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 9 GiB, and more.")

    monkeypatch.setattr(torch.nn.functional, "linear", no_room)
    with pytest.raises(torch.OutOfMemoryError, match="indrnn needs several arrays") as refusal:
        a_call()
    assert "\n" not in str(refusal.value)


def test_inputs_that_are_not_contiguous_are_copied():
    weights = make_cell("rnn", 2, 3).weights()
    u, x0 = torch.randn(5, 4, 2).transpose(0, 1), torch.randn(3, 5).T
    run = kernels.select("rnn", "numba-cuda", u)
    found, expected = run(weights, (x0,), u), run(weights, (x0.contiguous(),), u.contiguous())
    assert torch.equal(found[0], expected[0])


# ---------------------------------------------------------------------------------- the GPU's benchmark


def test_figure_1_is_set_beside_cudnn_and_the_memory(monkeypatch):
    monkeypatch.setattr(figure_1, "on_device", wall)  # a clock in place of events
    monkeypatch.setattr(figure_1, "bandwidth", lambda: 1e9)
    monkeypatch.setattr(figure_1, "capture", lambda run: (SimpleNamespace(replay=run), run()))
    # The GPU's way through the figure, on the CPU's tensors: the simulated kernels stand for those of the GPU.
    monkeypatch.setattr(figure_1, "on_gpu", lambda u: True)
    monkeypatch.setattr(_registry, "PREFERENCE", ("numba-cuda", "library"))
    ledger = Ledger()
    found = figure_1.time_figure_1(Workload(2, 3, 3), ledger, rounds=1, device="cpu")
    assert [row for row in ledger.rows if row["failure"]] == []
    names = {row["what"] for row in found}
    for cell in ("unicornn", "sru", "indrnn"):
        own = f"{cell}, numba-cuda, 2 layer(s)"
        assert {own, f"{own}, graph"} <= names
        (floor,) = [row["value"] for row in ledger.rows if row["what"] == cell]
        arrays = {"unicornn": 8, "sru": 16, "indrnn": 5}[cell]
        assert floor == pytest.approx(1e3 * arrays * 2 * (3 * 2 * 3) * 4 / 1e9)
        goals = [row for row in ledger.rows if row["what"] == own and row["limit"]]
        assert {row["limit"] for row in goals} == {">= 10", "<= 3"}
        assert {row["unit"] for row in goals} == {"ratio"}
    assert {"nn.LSTM, TF32", "nn.LSTM, graph", "lem, numba-cuda, 1 layer(s)"} <= names
    assert "cornn, reference, 1 layer(s), graph" not in names
