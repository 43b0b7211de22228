"""What only the GPU kernels have, without a GPU, in Numba's simulator.

`test_cuda.py` runs this file, and `test_kernels.py`, in a process of its own.
"""

from functools import partial

import pytest
import torch
from cuda_threads import FIRST_AHEAD, LAST_AHEAD, count_barriers, in_turn
from longrnn import kernels
from longrnn.cells import make_cell
from longrnn.kernels import (
    _cuda,
    _cuda_kernel,
    _cuda_launch,
    _cuda_persistent,
    cuda_cornn,
    cuda_gru,
    cuda_irnn,
    cuda_lem,
    cuda_lstm,
    cuda_persistent_gru,
    cuda_persistent_lem,
    cuda_persistent_lstm,
    cuda_persistent_rnn,
    cuda_rnn,
)
from longrnn.kernels._cpu_dense import BASIC
from longrnn.kernels._cuda import inlined_late
from longrnn.kernels._cuda_pipeline import pipelined
from longrnn.probes.adjoint import adjoint_norms
from study.bench.parity import random_case
from torch.func import functional_call
from toys import sums

from tests.engines import NUMBA, assert_engine_agrees

assert _cuda.SIMULATED

DENSE = ["antisymmetric", "cornn", "dt_lstm", "exponential", "gru", "irnn", "lem", "lipschitz"]
DENSE += ["lstm", "rnn"]
PERSISTENT = ["rnn", "lstm", "dt_lstm", "gru", "lem"]
"""Cells with kernels whose weights stay on the multiprocessor."""


def assert_agrees(case):
    assert_engine_agrees(case, case[0].name, "numba-cuda")


@pytest.mark.parametrize("name", [*DENSE, "indrnn", "sru", "unicornn"])
def test_threads_of_numba_give_the_same(name, monkeypatch):
    monkeypatch.setattr(_cuda_kernel.kernel, "compiled", NUMBA)
    assert_agrees(random_case(name, 2, 2, 3))


SCHEDULED = [
    *((name, {"epsilon": 0.5}) for name in ("antisymmetric", "lipschitz")),
    *((name, {}) for name in ("cornn", "dt_lstm", "gru", "lem", "rnn")),
    *(("irnn", special) for special in ({}, {"form": 8})),
]


@pytest.mark.parametrize(("name", "special"), SCHEDULED)
def test_a_hostile_schedule_changes_nothing(name, special, monkeypatch):
    """Between two barriers the last thread runs ahead here, and the first one in all other tests.

    A thread that reads another's value, or overwrites it, on the wrong side of a barrier then
    changes the result.
    """
    monkeypatch.setattr(_cuda_kernel.kernel, "compiled", in_turn(LAST_AHEAD))
    assert_agrees(random_case(name, 3, 2, 3, torch.float64, **special))


DENSE_MODULES = {
    "cornn": cuda_cornn,
    "gru": cuda_gru,
    "irnn": cuda_irnn,
    "lem": cuda_lem,
    "lstm": cuda_lstm,
    "rnn": cuda_rnn,
}
"""Files of the dense kernels, by a cell that they run."""


@pytest.mark.parametrize("name", DENSE_MODULES)
def test_dense_kernels_need_each_of_their_barriers(name, monkeypatch):
    case = random_case(name, 3, 2, 5)

    def is_wrong(order, missing):
        monkeypatch.setattr(_cuda_kernel.kernel, "compiled", in_turn(order, missing=missing))
        try:
            assert_agrees(case)
        except AssertionError as error:
            return "exceeds" in str(error)
        return False

    module = DENSE_MODULES[name]
    for run in (module._forward_kernel, module._backward_kernel):
        for barrier in range(count_barriers(run)):
            orders = (FIRST_AHEAD, LAST_AHEAD)
            assert any(is_wrong(order, (run, barrier)) for order in orders), (run, barrier)
    assert not is_wrong(FIRST_AHEAD, None), "with all barriers"


def test_a_block_computes_more_units_than_threads(monkeypatch):
    monkeypatch.setattr(_cuda_launch, "MOST_THREADS", 32)
    for name in DENSE:
        assert_agrees(random_case(name, 2, 1, 40))


TAKE_RUNS = [
    *((name, {}) for name in (*DENSE, "indrnn", "sru", "unicornn")),
    *((f"{name}, persistent", {}) for name in PERSISTENT),
    ("irnn", {"form": 8, "inner_steps": 2, "inner_start": "previous", "phi": "tanh"}),
    ("irnn", {"rank": 2, "inner_steps": 2, "train_eta": "one", "alpha": 0.8}),
    ("irnn", {"inner_steps": 1, "train_eta": "fixed", "eta": 0.3, "sign": -1}),
    ("irnn", {"inner_steps": 2, "train_eta": "time", "length": 8, "phi": "sigmoid"}),
]


@pytest.mark.parametrize(("name", "special"), TAKE_RUNS, ids=str)
def test_many_networks_are_one_launch(name, special, monkeypatch):
    name, _, variant = name.partition(", ")
    assert kernels._ENGINES[name, "numba-cuda"].takes_networks
    # With three processors, two sequences of a run share a block.
    monkeypatch.setattr(_cuda_launch, "_processors", lambda _: 3)
    launches = []
    launch = _cuda_launch.launch

    def note_and_launch(kernel, *arguments, **options):
        launches.append(kernel)
        launch(kernel, *arguments, **options)

    monkeypatch.setattr(_cuda_launch, "launch", note_and_launch)
    cell, u, _ = random_case(name, 3, 3, 3, **special)
    if variant:
        cell.engine_options = {"variant": variant}
    stacked = {label: torch.stack([p, 0.5 * p]) for label, p in cell.named_parameters()}
    weights = {label: p.detach().requires_grad_() for label, p in stacked.items()}
    data = torch.stack([u, 2 * u]).detach()

    def gradients(engine):
        def loss(weights, u):
            outputs, final = functional_call(cell, weights, (u,), {"engine": engine})
            return outputs.square().sum() + sum(part.sum() for part in final)

        total = torch.vmap(loss)(weights, data).sum()
        return torch.autograd.grad(total, list(weights.values()), allow_unused=True)

    actual = gradients("numba-cuda")
    side_by_side = len(launches)
    torch.testing.assert_close(actual, gradients("reference"))
    launches.clear()
    outputs, _ = cell(u, engine="numba-cuda")
    outputs.sum().backward()
    assert side_by_side == len(launches) > 0


@pytest.mark.parametrize("name", [*DENSE, "indrnn", "sru", "unicornn"])
def test_whole_numbers_reach_kernels_as_floats(name, monkeypatch):
    """A kernel that was compiled for an integer would cut the digits of a later float."""
    launched = []
    launch = _cuda_launch.launch

    def note(*arguments, **sizes):
        launched.append([type(part) for part in arguments])
        launch(*arguments, **sizes)

    monkeypatch.setattr(_cuda_launch, "launch", note)
    cell = make_cell(name, 2, 3)
    numbers = [key for key, value in cell.weights()._asdict().items() if isinstance(value, float)]
    whole = cell.weights()._replace(**dict.fromkeys(numbers, 1))
    run = kernels._ENGINES[name, "numba-cuda"].run
    for given in (cell.weights(), whole):
        outputs, _ = run(given, cell.initial_state(1), torch.ones(2, 1, 2))
        outputs.sum().backward()
    half = len(launched) // 2
    assert launched[:half] == launched[half:]


def test_any_number_of_networks_fits_one_grid(monkeypatch):
    """A grid has at most 65,535 blocks along its second dimension."""
    grids = []
    monkeypatch.setattr(_cuda_launch, "launch", lambda _, blocks, *__, **___: grids.append(blocks))
    networks = 70_000
    M = torch.zeros(networks, 1, 1, requires_grad=True)
    g = torch.zeros(1, networks, 1)
    persistent_rnn = partial(cuda_persistent_rnn.RNN, M)
    for loop in (partial(cuda_rnn._DENSE, BASIC, 0.0, M, None), persistent_rnn):
        outputs, _ = loop(g, g[0])
        outputs.sum().backward()
    assert grids == [networks] * 4


def test_more_blocks_than_a_grid_has_are_refused():
    run = _cuda_kernel.kernel(lambda x: None)
    with pytest.raises(ValueError, match="needs 2147483648 blocks for this batch.*; split the bat"):
        _cuda_launch.launch(run, 2**31, 32, torch.zeros(1))


@pytest.fixture
def persistent(monkeypatch):
    """Return a function that compares kernels with persistent weights with the reference.

    It returns the compile-time constants of the forward and of the backward kernel.
    """

    def agree(
        name, time_steps, batch, units, *, threads=512, in_registers=16, processors=1000, **case
    ):
        monkeypatch.setattr(_cuda_launch, "_processors", lambda _: processors)
        monkeypatch.setattr(_cuda_persistent, "_MOST_THREADS", threads)
        for dtype in (torch.float32, torch.float64):
            monkeypatch.setitem(_cuda_persistent._IN_REGISTERS, dtype, in_registers)
        launches = []
        launch = _cuda_launch.launch

        def note(*arguments, **more):
            launches.append(more)
            launch(*arguments, **more)

        with monkeypatch.context() as patch:
            patch.setattr(_cuda_launch, "launch", note)
            use = case.pop("use", ("outputs", "state"))
            case = random_case(name, time_steps, batch, units, **case)
            case[0].engine_options = {"variant": "persistent"}
            assert_engine_agrees(case, name, "numba-cuda", use=use)
        forward, backward = launches
        assert "parts" in forward and "parts" in backward, "the dense kernels ran"
        return forward, backward

    return agree


@pytest.mark.parametrize("order", [FIRST_AHEAD, LAST_AHEAD])
@pytest.mark.parametrize("name", PERSISTENT)
def test_persistent_kernels_equal_the_reference(name, order, persistent, monkeypatch):
    monkeypatch.setattr(_cuda_kernel.kernel, "compiled", in_turn(order))
    persistent(name, 1, 1, 1)
    _, backward = persistent(name, 3, 3, 33)
    assert backward["parts"] > 1
    forward, _ = persistent(name, 2, 5, 7, processors=3)
    assert forward["tile"] == 2
    forward, backward = persistent(name, 2, 3, 5, processors=1, dtype=torch.float32)
    assert forward["tile"] == backward["tile"] == 4, "one sequence is computed twice"


@pytest.mark.parametrize("name", PERSISTENT)
@pytest.mark.parametrize(("threads", "parts"), [(160, (1, 2)), (320, (2, 5))])
def test_persistent_weights_in_shared_memory(name, threads, parts, persistent):
    launched = persistent(name, 2, 2, 40, threads=threads, in_registers=4)
    assert all(sizes["in_memory"] > 0 for sizes in launched)
    if name in ("lstm", "dt_lstm"):
        assert tuple(sizes["parts"] for sizes in launched) == parts


@pytest.mark.parametrize("use", ["outputs", "state"])
@pytest.mark.parametrize("name", PERSISTENT)
def test_persistent_kernels_take_absent_gradients(name, use, persistent):
    persistent(name, 3, 2, 3, use=(use,))


@pytest.mark.parametrize("name", PERSISTENT)
@pytest.mark.parametrize("threads", [64, 512])  # with one part and with several
def test_a_hostile_schedule_changes_nothing_in_persistent_kernels(
    name, threads, persistent, monkeypatch
):
    monkeypatch.setattr(_cuda_kernel.kernel, "compiled", in_turn(LAST_AHEAD))
    persistent(name, 3, 2, 12, threads=threads, in_registers=4)


MODULES = {
    "rnn": cuda_persistent_rnn,
    "lstm": cuda_persistent_lstm,
    "gru": cuda_persistent_gru,
    "lem": cuda_persistent_lem,
}
"""Files of the kernels whose weights stay on the multiprocessor, by a cell that they run."""


@pytest.mark.parametrize("name", MODULES)
def test_persistent_kernels_need_each_of_their_barriers(name, persistent, monkeypatch):
    def is_wrong(threads):
        try:
            persistent(name, 3, 2, 12, threads=threads, in_registers=4, processors=1)
        except AssertionError as error:
            return "exceeds" in str(error)
        return False

    module = MODULES[name]
    for run in (module._forward_kernel, module._backward_kernel):
        for barrier in range(count_barriers(run)):
            missing = run, barrier
            monkeypatch.setattr(_cuda_kernel.kernel, "compiled", in_turn(missing=missing))
            # One barrier of the LSTM and the GRU is needed only if several threads share a row.
            assert is_wrong(64) or is_wrong(512), missing
    monkeypatch.setattr(_cuda_kernel.kernel, "compiled", in_turn())
    assert not is_wrong(64) and not is_wrong(512), "with all barriers"


@pytest.mark.parametrize("name", PERSISTENT)
def test_numba_s_own_threads_run_the_persistent_kernels(name, persistent, monkeypatch):
    monkeypatch.setattr(_cuda_kernel.kernel, "compiled", NUMBA)
    persistent(name, 2, 2, 5, threads=64, in_registers=4)


WIDEST = {"rnn": (256, 192), "lstm": (128, 96), "gru": (156, 101), "lem": (128, 80)}
"""Hidden sizes whose weights fit on a multiprocessor of an H100, in float32 and in float64."""


@pytest.mark.parametrize("name", WIDEST)
def test_persistent_kernels_refuse_wide_networks(name):
    layouts = MODULES[name].layouts
    widest, widest_double = WIDEST[name]
    for units, dtype in ((widest, torch.float32), (widest_double, torch.float64)):
        assert _cuda_persistent.fits(layouts, torch.zeros(1, units, dtype=dtype))
        assert not _cuda_persistent.fits(layouts, torch.zeros(1, units + 1, dtype=dtype))
    cell = make_cell(name, 2, widest + 1)
    cell.engine_options = {"variant": "persistent"}
    message = f"of {widest + 1} units in torch.float32 don't fit; use variant='auto'"
    with pytest.raises(ValueError, match=message):
        cell(torch.zeros(1, 1, 2), engine="numba-cuda")


PROBED = [
    # cell, sequences per block, the thread that is ahead
    *((name, tile, LAST_AHEAD) for name in ("lstm", "gru") for tile in (1, 4)),
    *((name, 2, FIRST_AHEAD) for name in ("chrono_lstm", "gru")),
]


@pytest.mark.parametrize(("name", "tile", "order"), PROBED)
def test_adjoints_by_kernel_equal_the_reference(name, tile, order, monkeypatch):
    monkeypatch.setattr(_cuda_kernel.kernel, "compiled", in_turn(order))
    monkeypatch.setattr(_cuda_launch, "_processors", lambda _: -(-5 // tile))
    torch.manual_seed(0)
    cell = make_cell(name, 2, 3)
    u = torch.randn(19, 5, 2)
    assert kernels.choose(f"{name}/pull_back", "cpu") == "numba-cuda"
    kernel = kernels.select(f"{name}/pull_back", "auto", u)
    expected = adjoint_norms(cell, u, sums, engine="reference")
    for steps in (7, 19):
        monkeypatch.setattr(kernel, "stored_bytes", steps * kernel.vectors * 5 * 3 * 8)
        norms = adjoint_norms(cell, u, sums)
        torch.testing.assert_close(norms.readout, expected.readout, rtol=0, atol=1e-12)
        torch.testing.assert_close(norms.full, expected.full, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_underflowed_adjoints_are_recomputed_step_by_step(name):
    torch.manual_seed(0)
    cell = make_cell(name, 2, 3).double()
    u = torch.randn(20, 2, 2)
    with torch.no_grad():
        cell.b.sub_(80)
    expected = adjoint_norms(cell, u, sums, times=(1, 20), engine="reference")
    assert expected.full[0].max() < -310
    norms = adjoint_norms(cell, u, sums, times=(1, 20))
    torch.testing.assert_close(norms.full, expected.full, rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    ("name", "option", "words"),
    [
        ("unicornn", {"backward": "reversible"}, "backward to be one of stored, recovered, got"),
        ("rnn", {"variant": "columns"}, "variant to be one of auto, persistent, rows, got 'col"),
    ],
)
def test_kernels_refuse_wrong_options(name, option, words):
    cell = make_cell(name, 1, 3)
    cell.engine_options = option
    with pytest.raises(ValueError, match=f"^{name}: expected {words}"):
        cell(torch.zeros(1, 1, 1), engine="numba-cuda")


@pytest.mark.parametrize("tile", [1, 2, 4])
@pytest.mark.parametrize(
    ("name", "buffers"),
    [
        ("antisymmetric", 3),
        ("cornn", 4),
        ("gru", 7),
        ("irnn", 4),
        ("lem", 7),
        ("lipschitz", 5),
        ("lstm", 9),
        ("rnn", 2),
    ],
)
def test_block_memory_limits_its_sequences(name, buffers, tile, monkeypatch):
    launch = _cuda_launch.launch
    tiles = set()

    def noting(*arguments, **more):
        tiles.add(more["tile"])
        launch(*arguments, **more)

    monkeypatch.setattr(_cuda_launch, "launch", noting)
    monkeypatch.setattr(_cuda_launch, "_SHARED_BYTES", tile * buffers * 3 * 8)
    assert_agrees(random_case(name, 3, 5, 3))
    assert tiles == {tile}


@pytest.mark.parametrize("inputs", [1, 3, 4, 5])
@pytest.mark.parametrize("name", ["indrnn", "unicornn"])
def test_kernels_multiply_few_inputs_themselves(name, inputs):
    assert_agrees(random_case(name, 3, 2, 3, inputs=inputs))


@pytest.mark.parametrize("ahead", [8, 16])
@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 48, 61])
def test_chains_fetch_ahead_of_their_steps(count, ahead):
    fetched = []
    steps = []

    @inlined_late
    def fetch(arrays, n):
        fetched.append(n)
        return n

    @inlined_late
    def step(neuron, state, inputs, arrays, n):
        assert inputs == n
        steps.append((n, max(fetched)))
        return state + 1

    run = pipelined(fetch, step, ahead=ahead)
    assert run.compiled(None, 0, None, count) == count
    assert [n for n, _ in steps] == list(range(count))
    whole = count // ahead * ahead
    for n, furthest in steps[:whole]:
        pair = n // 2 * 2
        assert furthest == min(pair + ahead, whole) - 1, "the last inputs are fetched again"


TWICE = [*DENSE, "indrnn", "sru", "unicornn", *(f"{name}, persistent" for name in PERSISTENT)]


@pytest.mark.parametrize("name", TWICE)
def test_second_derivatives_equal_the_reference(name):
    name, _, variant = name.partition(", ")
    cell, u, state = random_case(name, 2, 2, 3)
    if variant:
        cell.engine_options = {"variant": variant}

    def penalty_gradients(engine):
        outputs, _ = cell(u, state, engine=engine)
        (slope,) = torch.autograd.grad(outputs.square().sum(), u, create_graph=True)
        leaves = [u, *cell.parameters()]
        return torch.autograd.grad(
            slope.square().sum(), leaves, allow_unused=True, materialize_grads=True
        )

    actual = penalty_gradients("numba-cuda")
    torch.testing.assert_close(actual, penalty_gradients("reference"))


@pytest.mark.parametrize("name", TWICE)
def test_second_derivatives_of_many_networks_equal_the_reference(name):
    name, _, variant = name.partition(", ")
    cell, u, _ = random_case(name, 2, 2, 3)
    if variant:
        cell.engine_options = {"variant": variant}
    stacked = {label: torch.stack([p, 0.5 * p]) for label, p in cell.named_parameters()}
    weights = {label: p.detach().requires_grad_() for label, p in stacked.items()}

    def penalty_gradients(engine):
        def loss(weights, u):
            outputs, _ = functional_call(cell, weights, (u,), {"engine": engine})
            return outputs.square().sum()

        slopes = torch.vmap(torch.func.grad(loss, argnums=1), in_dims=(0, None))(weights, u)
        leaves = list(weights.values())
        return torch.autograd.grad(
            slopes.square().sum(), leaves, allow_unused=True, materialize_grads=True
        )

    actual = penalty_gradients("numba-cuda")
    torch.testing.assert_close(actual, penalty_gradients("reference"))


WIDE = make_cell("lem", 1, 1800)
REVERSED = make_cell("unicornn", 1, 3, backward="reversible")
TOLD = {
    "run lem: its hidden size is at most 1755 in torch.float32, got 1800": WIDE,
    "run unicornn: it has no option 'checkpoint'; it has back": REVERSED,
}


@pytest.mark.parametrize("words", TOLD)
def test_excess_width_and_reversible_backward_are_refused(words):
    with pytest.raises(ValueError, match=words):
        TOLD[words](torch.zeros(1, 1, 1), engine="numba-cuda")
    assert kernels.choose("unicornn", "cpu", REVERSED.engine_options) == "numba-cpu"


def test_auto_skips_a_kernel_that_is_too_narrow():
    wide = {"dtype": torch.float32, "units": 1800}
    assert kernels.choose("lem", "cpu", **wide) == "numba-cpu"
    assert kernels.choose("lem", "cpu", dtype=torch.float32, units=1755) == "numba-cuda"
    outputs, _ = WIDE(torch.zeros(1, 1, 1))
    assert torch.equal(outputs, WIDE(torch.zeros(1, 1, 1), engine="numba-cpu")[0])
