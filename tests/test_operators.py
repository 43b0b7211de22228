"""Engines as PyTorch operators: derivatives of any order, compilation, export and vmap."""

import shutil
from functools import partial

import longrnn
import pytest
import torch
from longrnn import kernels
from longrnn.cells import cell_names, make_cell
from longrnn.kernels._recurrence import Recurrence
from processes import python
from study.bench.parity import device_of, random_case
from torch.autograd import forward_ad
from torch.func import functional_call, grad, vmap
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

ENGINES = [
    (name, engine)
    for name in cell_names()
    for engine in kernels.engine_names(name)[1:]
    if device_of(name, engine) == "cpu"
]
ENGINES += [("lstm", "numba-cpu")]  # which only runs if it is named
OURS = [case for case in ENGINES if case[1] != "library"]
CHOSEN = [(name, engine) for name, engine in ENGINES if engine == kernels.choose(name, "cpu")]
"""Engines that `auto` chooses; test_conformance.py compiles every layer with them."""
by_engine = pytest.mark.parametrize(("name", "engine"), ENGINES)
by_kernel = pytest.mark.parametrize(("name", "engine"), OURS)

VARIANTS = [
    ("unicornn", {"backward": "recovered", "layers": 3, "skip": 2}),
    ("unicornn", {"backward": "reversible", "checkpoint": 2}),
    ("lem", {"clip": 0.6}),
    ("lem", {"single_scale": True, "dt": 0.3}),
    ("irnn", {"rank": 2, "inner_steps": 2}),
    ("irnn", {"form": 8, "inner_steps": 2, "phi": "tanh", "inner_start": "previous"}),
    ("irnn", {"train_eta": "time", "length": 8, "inner_steps": 2}),
    ("sru", {"inputs": 3, "layers": 2}),
    ("lu_rnn", {"tau": 1}),
    ("indrnn", {"phi": "tanh", "layers": 2}),
    ("fastrnn", {"phi": "sigmoid"}),
    ("dt_lstm", {"version": 2}),
]
"""Settings that other kernels, or other parts of a kernel's reference, compute."""


def small_case(name, **variant):
    """Return a case whose time, if it has one, asks for no gradient: it is a count."""
    cell, u, state = random_case(name, 3, 2, 3, **variant)
    if name in ("lu_rnn", "inverse_rnn") or variant.get("train_eta") == "time":
        times = torch.tensor([0.0, 1.0], dtype=u.dtype)[:, None].expand(2, 3).clone()
        state = (state[0], times)
    return cell, u, state


def as_function(cell, u, state, engine):
    """Return a function of all tensors that require gradients, and these tensors."""
    trained = {name: part for name, part in cell.named_parameters() if part.requires_grad}
    indices = [k for k, part in enumerate(state) if part.requires_grad]

    def function(u, *tensors):
        start = list(state)
        for k, part in zip(indices, tensors[: len(indices)], strict=True):
            start[k] = part
        weights = dict(zip(trained, tensors[len(indices) :], strict=True))
        outputs, final = functional_call(cell, weights, (u, tuple(start)), {"engine": engine})
        return outputs, *(final[k] for k in indices)

    inputs = [u, *(state[k] for k in indices), *trained.values()]
    return function, [part.detach().clone().requires_grad_() for part in inputs]


def check_gradients(case, engine):
    """Compare first and second derivatives with finite differences.

    The second derivatives are checked in a random direction.
    """
    function, inputs = as_function(*case, engine)
    assert torch.autograd.gradcheck(function, inputs, atol=1e-6)
    assert torch.autograd.gradgradcheck(function, inputs, atol=1e-6, fast_mode=True)


@by_engine
def test_first_and_second_derivatives_equal_finite_differences(name, engine):
    check_gradients(small_case(name), engine)


@pytest.mark.parametrize(("name", "variant"), VARIANTS, ids=str)
def test_derivatives_of_variants_equal_finite_differences(name, variant):
    check_gradients(small_case(name, **variant), "numba-cpu")


@by_engine
def test_hessian_equals_the_reference(name, engine):
    cell, u, state = small_case(name)

    def hessian(engine):
        def loss(u):
            return cell(u, state, engine=engine)[0].pow(2).sum()

        return torch.autograd.functional.hessian(loss, u.detach())

    expected = hessian("reference")
    assert expected.abs().max() > 0
    torch.testing.assert_close(hessian(engine), expected)


@by_engine
def test_several_gradients_at_once_equal_the_reference(name, engine):
    cell, u, state = small_case(name)

    def gradients(engine):
        outputs, _ = cell(u, state, engine=engine)
        each = torch.eye(outputs.numel(), dtype=u.dtype).unflatten(1, outputs.shape)
        return torch.autograd.grad(outputs, u, each, is_grads_batched=True)[0]

    torch.testing.assert_close(gradients(engine), gradients("reference"))


@by_engine
def test_gradient_penalty_reaches_the_weights(name, engine):
    cell, u, state = small_case(name)

    def penalty_gradients(engine):
        outputs, _ = cell(u, state, engine=engine)
        (slope,) = torch.autograd.grad(outputs.square().sum(), u, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), list(cell.parameters()))

    actual = penalty_gradients(engine)
    torch.testing.assert_close(actual, penalty_gradients("reference"))


@by_kernel
def test_vmap_over_data_equals_a_loop(name, engine):
    cell, _, _ = small_case(name)
    data = torch.randn(4, 3, 2, 2, dtype=torch.float64)
    actual = vmap(lambda u: cell(u, engine=engine)[0])(data)
    expected = torch.stack([cell(u, engine=engine)[0] for u in data])
    torch.testing.assert_close(actual, expected)


@by_engine
def test_gradients_per_sample_equal_a_loop(name, engine):
    cell, _, _ = small_case(name)
    weights = {name: part.detach() for name, part in cell.named_parameters()}
    data = torch.randn(3, 3, 1, 2, dtype=torch.float64)

    def loss(weights, u, engine):
        outputs, final = functional_call(cell, weights, (u,), {"engine": engine})
        return outputs.square().sum() + final[0].sum()

    actual = vmap(grad(lambda w, u: loss(w, u, engine)), in_dims=(None, 0))(weights, data)
    for k, u in enumerate(data):
        expected = grad(lambda w, u=u: loss(w, u, "reference"))(weights)
        for label, gradient in expected.items():
            torch.testing.assert_close(actual[label][k], gradient)


DROPPING = [
    (lambda: longrnn.LEM(2, 3, num_layers=2, dropout=0.5), "auto"),
    (lambda: longrnn.UnICORNN(2, 3, num_layers=2, dropout=0.5), "auto"),
    (lambda: make_cell("unicornn", 2, 3, layers=2, dropout=0.5), "numba-cpu"),
    (lambda: make_cell("unicornn", 2, 3, layers=2, dropout=0.5), "reference"),
]


@pytest.mark.parametrize("randomness", ["same", "different"])
@pytest.mark.parametrize("mapped", ["data", "weights"])
@pytest.mark.parametrize(("build", "engine"), DROPPING)
def test_vmap_draws_dropout_as_it_does_for_pytorch(build, engine, mapped, randomness):
    torch.manual_seed(0)
    module = build()
    copies = 3  # equal copies, so that only masks can make a difference
    u = torch.randn(4, 5, 2)
    weights = {name: part.detach() for name, part in module.named_parameters()}

    def outputs(weights, u):
        return functional_call(module, weights, u, {"engine": engine})[0]

    if mapped == "data":
        run = vmap(outputs, in_dims=(None, 0), randomness=randomness)
        results = run(weights, u.expand(copies, -1, -1, -1))
    else:
        run = vmap(outputs, in_dims=(0, None), randomness=randomness)
        results = run({name: torch.stack([part] * copies) for name, part in weights.items()}, u)
    are_equal = [torch.equal(result, results[0]) for result in results[1:]]
    assert are_equal == [randomness == "same"] * 2


@by_kernel
def test_vmap_over_weights_equals_a_loop(name, engine):
    cell, u, _ = small_case(name)
    weights = {
        label: torch.stack([part.detach(), 0.5 * part.detach()])
        for label, part in cell.named_parameters()
    }

    def outputs(weights):
        return functional_call(cell, weights, (u.detach(),), {"engine": engine})[0]

    actual = vmap(outputs)(weights)
    for k in range(2):
        expected = outputs({label: part[k] for label, part in weights.items()})
        torch.testing.assert_close(actual[k], expected)


@by_kernel
def test_maps_over_data_and_weights_nest(name, engine):
    cell, _, _ = small_case(name)
    weights = {
        label: torch.stack([part.detach(), 0.5 * part.detach()])
        for label, part in cell.named_parameters()
    }
    data = torch.randn(3, 3, 2, 2, dtype=torch.float64)

    def outputs(weights, u, engine):
        return functional_call(cell, weights, (u,), {"engine": engine})[0]

    def gradients(weights, u, engine):
        by_weight = grad(lambda w: outputs(w, u, engine).square().sum())(weights)
        return torch.cat([part.flatten() for part in by_weight.values()])

    for function in (outputs, gradients):

        def run(weights, u, function=function):
            return function(weights, u, engine)

        weights_inside = vmap(vmap(run, in_dims=(0, None)), in_dims=(None, 0))(weights, data)
        data_inside = vmap(vmap(run, in_dims=(None, 0)), in_dims=(0, None))(weights, data)
        for i, u in enumerate(data):
            for k in range(2):
                one = {label: part[k] for label, part in weights.items()}
                expected = function(one, u, "reference")
                torch.testing.assert_close(weights_inside[i, k], expected)
                torch.testing.assert_close(data_inside[k, i], expected)


@pytest.mark.parametrize("name", cell_names())
def test_hessian_by_forward_over_reverse_mode(name):
    cell, u, _ = small_case(name)

    def loss(u):
        return cell(u)[0].square().sum()

    forward_over_reverse = torch.func.hessian(loss)(u.detach())
    reverse_over_reverse = torch.autograd.functional.hessian(loss, u.detach())
    torch.testing.assert_close(forward_over_reverse, reverse_over_reverse)


@by_engine
def test_tangents_pass_through_the_backward_pass(name, engine):
    cell, u, state = small_case(name)
    outputs, _ = cell(u, state, engine=engine)
    arriving = torch.randn_like(outputs)
    tangent = torch.randn_like(outputs)
    leaves = [u, *cell.parameters()]
    expected = torch.autograd.grad(outputs, leaves, tangent, retain_graph=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(arriving, tangent)
        gradients = torch.autograd.grad(outputs, leaves, dual)
        actual = [forward_ad.unpack_dual(gradient).tangent for gradient in gradients]
    torch.testing.assert_close(actual, list(expected))


@pytest.mark.parametrize("recorded", [False, True])
def test_an_engine_that_is_named_refuses_forward_mode(recorded):
    """A kernel would drop the tangents."""
    cell, u, _ = small_case("lem")
    with torch.set_grad_enabled(recorded), forward_ad.dual_level():
        dual = forward_ad.make_dual(u.detach(), torch.ones_like(u))
        with pytest.raises(NotImplementedError, match="forward mode"):
            cell(dual, engine="numba-cpu")
        outputs, _ = cell(dual)
        assert forward_ad.unpack_dual(outputs).tangent.any()


@pytest.mark.parametrize("name", cell_names())
def test_cells_can_be_linearized(name):
    cell, u, _ = small_case(name)
    tangent = torch.randn_like(u)

    def run(u):
        return cell(u)[0]

    outputs, linear = torch.func.linearize(run, u.detach())
    torch.testing.assert_close(
        (outputs, linear(tangent)), torch.func.jvp(run, (u.detach(),), (tangent,))
    )


@pytest.mark.parametrize(("name", "engine"), [case for case in ENGINES if case not in CHOSEN])
def test_compiles_without_a_graph_break(name, engine):
    torch._dynamo.reset()
    cell, u, _ = small_case(name)
    expected = cell(u, engine=engine)[0]
    gradients = torch.autograd.grad(expected.square().sum(), list(cell.parameters()))
    compiled = torch.compile(cell, fullgraph=True, backend="aot_eager")
    outputs, _ = compiled(u, engine=engine)
    torch.testing.assert_close(outputs, expected)
    actual = torch.autograd.grad(outputs.square().sum(), list(cell.parameters()))
    torch.testing.assert_close(actual, gradients)


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru", "chrono_lstm"])
def test_compiled_library_layers_do_not_unroll(name):
    torch._dynamo.reset()
    graphs = []

    def count_nodes(graph, _):
        graphs.append([node.target for node in graph.graph.nodes if node.op == "call_function"])
        return graph

    cell, u, state = small_case(name)
    u = u.detach().repeat(100, 1, 1).requires_grad_()
    compiled = torch.compile(cell, fullgraph=True, backend=count_nodes)
    outputs, final = compiled(u, state, engine="library")
    expected, expected_final = cell(u, state, engine="library")
    torch.testing.assert_close((outputs, final), (expected, expected_final))
    leaves = [u, *state, *cell.parameters()]
    actual = torch.autograd.grad(outputs.square().sum() + final[0].sum(), leaves)
    loss = expected.square().sum() + expected_final[0].sum()
    torch.testing.assert_close(actual, torch.autograd.grad(loss, leaves))
    (nodes,) = graphs
    assert len(nodes) < 40, "one operator for 300 time steps"


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
def test_compiled_library_layers_have_gradients_in_float32(name, autocast):
    torch._dynamo.reset()
    cell, u, _ = small_case(name)
    weights = list(cell.parameters())
    loss = cell(u, engine="reference")[0].square().sum()
    expected = torch.autograd.grad(loss, [u, *weights])
    cell = cell.float()
    u = u.detach().float().requires_grad_()
    compiled = torch.compile(cell, fullgraph=True, backend="eager")
    outputs, _ = compiled(u, engine="library")
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        actual = torch.autograd.grad(outputs.square().sum(), [u, *cell.parameters()])
    for gradient, truth in zip(actual, expected, strict=True):
        torch.testing.assert_close(gradient.double(), truth, rtol=1e-5, atol=1e-5)


@by_engine
def test_gradients_of_selective_checkpoints_equal_the_reference(name, engine):
    cell, u, state = small_case(name)
    weights = [part for part in cell.parameters() if part.requires_grad]
    products = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)

    def policy(_, operator, *args, **kwargs):
        if operator in products:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    outputs, _ = checkpoint(
        partial(cell, engine=engine),
        u,
        state,
        use_reentrant=False,
        context_fn=partial(create_selective_checkpoint_contexts, policy),
    )
    actual = torch.autograd.grad(outputs.square().sum(), [u, *weights])
    expected_outputs, _ = cell(u, state, engine="reference")
    expected = torch.autograd.grad(expected_outputs.square().sum(), [u, *weights])
    torch.testing.assert_close(actual, expected)


@pytest.mark.skipif(shutil.which("c++") is None, reason="PyTorch's compiler needs one for C++")
def test_the_default_backend_trains():
    torch._dynamo.reset()
    cell, u, _ = small_case("lem")
    leaves = [u, *cell.parameters()]
    anew = {"fx_graph_cache": False}
    compiled = torch.compile(cell, fullgraph=True, options=anew)
    outputs, _ = compiled(u)
    expected, _ = cell(u)
    torch.testing.assert_close(outputs, expected)
    actual = torch.autograd.grad(outputs.square().sum(), leaves)
    torch.testing.assert_close(actual, torch.autograd.grad(expected.square().sum(), leaves))


def test_arguments_of_an_operator_have_different_names():
    # PyTorch registers an operator that uses a name twice, but its compiler cannot call it.
    schemas = torch._C._jit_get_all_schemas()
    ours = [schema for schema in schemas if schema.name.startswith("longrnn::")]
    assert ours
    for schema in ours:
        names = [argument.name for argument in schema.arguments]
        assert len(set(names)) == len(names), schema.name


@pytest.mark.parametrize(("name", "engine"), CHOSEN)
def test_compiled_programs_take_sequences_of_any_length(name, engine):
    torch._dynamo.reset()
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph

    cell, _, _ = small_case(name)
    compiled = torch.compile(cell, fullgraph=True, backend=keep)
    for time_steps in (3, 4, 5, 6):
        u = torch.randn(time_steps, 2, 2, dtype=torch.float64)
        torch.testing.assert_close(compiled(u, engine=engine)[0], cell(u, engine=engine)[0])
    assert len(graphs) == 2  # PyTorch lets the length vary from the second one on


@pytest.mark.parametrize(("name", "engine"), OURS)
def test_exported_programs_take_any_length_and_batch(name, engine):
    cell, u, _ = small_case(name)
    varying = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    shapes = {"u": varying, "state": None, "engine": None, "packing": None}
    program = torch.export.export(
        cell, (u.detach(), None), {"engine": engine, "packing": None}, dynamic_shapes=shapes
    )
    longer = torch.randn(7, 4, 2, dtype=torch.float64)
    outputs, _ = program.module()(longer, None, engine=engine, packing=None)
    torch.testing.assert_close(outputs, cell(longer, engine=engine)[0])


@by_engine
def test_exported_programs_equal_the_cell(name, engine):
    cell, u, _ = small_case(name)
    program = torch.export.export(cell, (u.detach(),), {"engine": engine})
    outputs, _ = program.module()(u.detach(), engine=engine)
    torch.testing.assert_close(outputs, cell(u.detach(), engine=engine)[0])


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn", "lem", "unicornn"])
def test_exports_to_onnx_have_operators_of_pytorch(name, monkeypatch):
    cell, u, _ = small_case(name)
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    program = torch.export.export(cell, (u.detach(),))
    monkeypatch.undo()
    operators = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert not [target for target in operators if "longrnn" in target]
    if name in ("lstm", "gru"):
        assert f"aten.{name}.input" in operators
    outputs, _ = program.module()(u.detach())
    torch.testing.assert_close(outputs, cell(u.detach())[0])


def test_saved_programs_run_in_another_process_that_imports_longrnn(tmp_path):
    cell, u, _ = small_case("lem")
    u = u.detach()
    torch.export.save(torch.export.export(cell, (u,)), tmp_path / "lem.pt2")
    torch.save((u, cell(u)[0].detach()), tmp_path / "expected.pt")
    code = """
import sys

import longrnn
import torch

program = torch.export.load(f"{sys.argv[1]}/lem.pt2").module()
u, expected = torch.load(f"{sys.argv[1]}/expected.pt")
torch.testing.assert_close(program(u)[0], expected)
"""
    result = python("-c", code, tmp_path)
    assert result.returncode == 0, result.stderr


@by_kernel
def test_operators_pass_opcheck(name, engine, monkeypatch):
    calls = []
    call = Recurrence.call

    def recording(self, *arguments):
        calls.append((self, arguments))
        return call(self, *arguments)

    monkeypatch.setattr(Recurrence, "call", recording)
    cell, u, state = small_case(name)
    cell(u, state, engine=engine)
    recurrence, arguments = calls[0]
    leaves = []
    for part in arguments:
        if torch.is_tensor(part):
            part = part.detach().requires_grad_(part.requires_grad)
        leaves.append(part)
    torch.library.opcheck(recurrence.operator, leaves)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@by_engine
def test_autocast_computes_in_float32(name, engine, dtype):
    cell = make_cell(name, 2, 3)
    u = torch.randn(4, 2, 2)
    expected = cell(u.to(dtype).float(), engine=engine)[0]
    with torch.autocast("cpu", dtype):
        outputs, _ = cell(u.to(dtype), engine=engine)
    assert torch.equal(outputs, expected)


@pytest.mark.parametrize(
    ("name", "engine"), [*ENGINES, *((name, "reference") for name in cell_names())]
)
def test_final_state_is_not_a_view_of_outputs(name, engine):
    cell = make_cell(name, 2, 3)
    u = torch.randn(4, 2, 2)
    with torch.no_grad():
        outputs, state = cell(u, engine=engine)
        before = outputs.clone()
        for part in state:
            part.fill_(7)
    assert torch.equal(outputs, before)


@by_engine
def test_memory_of_arguments_can_be_resized_afterwards(name, engine):
    cell, u, state = small_case(name)
    outputs, _ = cell(u, state, engine=engine)
    arriving = torch.ones_like(outputs)
    outputs.backward(arriving)
    for part in (u, arriving, *state, *cell.parameters()):
        assert part.untyped_storage().resizable()
