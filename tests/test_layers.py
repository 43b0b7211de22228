"""The layer classes that users import: the interface of torch.nn.LSTM, on every cell.

The checks are those of PyTorch's own tests of its recurrent modules and of torchrecurrent's, in
their logic: layouts, lengths, directions, stacking, dropout, states, serialization.
"""

import ast
import copy
import importlib
import inspect
import io
import pickle
import warnings
from functools import partial

import longrnn
import numpy as np
import pytest
import torch
from longrnn.cells import LAYER_CLASSES, cell_names, make_cell
from longrnn.cells._packing import Segment
from longrnn.cells._registry import REGISTRY
from longrnn.cells.lstm import LSTMCore
from refusals import refused
from study.paths import ROOT
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.func import functional_call
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import remove_parametrizations
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence
from torch.testing._internal.two_tensor import TwoTensor

T = 6
B = 3
P = 2
D = 4
LENGTHS = [4, 6, 1]
DOUBLE = torch.float64
SIXTEEN_BITS = (torch.bfloat16, torch.float16)
every_layer = pytest.mark.parametrize("layer_class", LAYER_CLASSES.values(), ids=LAYER_CLASSES)


def build(layer_class, **arguments):
    """Return a layer in float64 whose weights are away from the special values they start at."""
    torch.manual_seed(0)
    layer = layer_class(P, D, **{"dtype": DOUBLE} | arguments)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer


def noise(*shape):
    return torch.randn(*shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(1))


def parts(state):
    """Return the tensors of a state."""
    if isinstance(state, tuple):
        return state
    return (state,)


def assert_same(result, expected):
    """Compare a layer's outputs and states, as it returns them, with others."""
    output, state = result
    expected_output, expected_state = expected
    torch.testing.assert_close(output, expected_output)
    torch.testing.assert_close(parts(state), parts(expected_state))


# The classes themselves


def test_every_cell_has_layer_and_one_step_classes():
    assert {layer.core.name for layer in LAYER_CLASSES.values()} == set(cell_names())
    for name, layer_class in LAYER_CLASSES.items():
        assert getattr(longrnn, name) is layer_class
        assert getattr(longrnn, f"{name}Cell").layer is layer_class
    assert {*LAYER_CLASSES, "make_cell", "adjoint_norms"} <= set(dir(longrnn))


def test_code_written_for_nn_lstm_runs():
    for layer_class in (nn.LSTM, longrnn.LSTM):
        layer = layer_class(P, D, 2, batch_first=True, dropout=0.1)
        layer.flatten_parameters()
        output, (h_n, c_n) = layer(torch.randn(B, T, P))
        assert output.shape == (B, T, D)
        assert h_n.shape == c_n.shape == (2, B, D)


COPIED = {
    "LSTM": (nn.LSTM, {}),
    "RNN": (nn.RNN, {}),
    "RNN with ReLU": (nn.RNN, {"nonlinearity": "relu"}),
}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"num_layers": 2, "bidirectional": True, "batch_first": True},
        {"num_layers": 2, "bias": False, "dropout": 0.5},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", COPIED)
def test_layers_of_torch_are_copied(name, arguments):
    torch_class, more = COPIED[name]
    theirs = torch_class(P, D, **arguments, **more, dtype=DOUBLE).eval()
    ours = getattr(longrnn, torch_class.__name__).from_torch(theirs)
    assert not ours.training and ours.dropout == theirs.dropout
    u = noise(T, B, P)
    if theirs.batch_first:
        u = u.transpose(0, 1)
    state = torch.randn(ours.num_layers * ours.num_directions, B, D, dtype=DOUBLE)
    if name == "LSTM":
        state = (state, state.flip(0))
    assert_same(ours(u, state), theirs(u, state))
    before = theirs.weight_hh_l0.clone()
    with torch.no_grad():
        ours.cells["l0"].W.zero_()
    assert torch.equal(theirs.weight_hh_l0, before), "the weights are shared"


def same_layers(name, **arguments):
    """Return a layer of PyTorch and ours with the same equations, but different weights."""
    torch_class, more = COPIED[name]
    theirs = torch_class(P, D, **arguments, **more, dtype=DOUBLE)
    if more:
        arguments["activation"] = more["nonlinearity"]
    ours = getattr(longrnn, torch_class.__name__)(P, D, **arguments, dtype=DOUBLE)
    return theirs, ours


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", COPIED)
def test_a_model_loads_weights_saved_with_torchs_layer(name, bias):
    theirs, ours = same_layers(name, num_layers=2, bidirectional=True, bias=bias)
    saved = nn.ModuleDict({"rnn": theirs, "head": nn.Linear(D, 1)}).state_dict()
    names = list(saved)
    model = nn.ModuleDict({"rnn": ours, "head": nn.Linear(D, 1)})
    model.load_state_dict(saved)
    assert list(saved) == names, "the caller's state dict changed"
    u = noise(T, B, P)
    assert_same(ours(u), theirs(u))
    model.load_state_dict(model.state_dict())  # our own names work as before
    assert_same(ours(u), theirs(u))


@pytest.mark.parametrize("name", COPIED)
def test_a_one_step_class_loads_weights_saved_with_torchs_cell(name):
    torch_class, more = COPIED[name]
    cell_name = f"{torch_class.__name__}Cell"
    theirs = getattr(nn, cell_name)(P, D, dtype=DOUBLE, **more)
    settings = {}
    if more:
        settings["activation"] = more["nonlinearity"]
    ours = getattr(longrnn, cell_name)(P, D, dtype=DOUBLE, **settings)
    ours.load_state_dict(theirs.state_dict())
    u = noise(B, P)
    torch.testing.assert_close(parts(ours(u)), parts(theirs(u)))


def test_weights_of_torch_that_do_not_fit_are_refused():
    ours = longrnn.LSTM(P, D)
    for theirs, message in (
        (nn.LSTM(P, D, 2), "Unexpected.*weight_ih_l1"),
        (nn.LSTM(P, D, bias=False), "Missing.*cells.l0.b"),
        (nn.LSTM(P, D, proj_size=2), "Unexpected.*weight_hr_l0"),
        (nn.GRU(P, D), "size mismatch for cells.l0.W"),
    ):
        with pytest.raises(RuntimeError, match=f"(?s){message}"):
            ours.load_state_dict(theirs.state_dict())


def test_users_can_subclass_a_layer():
    class Normalized(longrnn.LEM):
        def forward(self, input, hx=None, **keywords):
            output, state = super().forward(input, hx, **keywords)
            return nn.functional.normalize(output, dim=-1), state

    output, _ = Normalized(P, D, dtype=DOUBLE)(noise(T, B, P))
    torch.testing.assert_close(output.norm(dim=-1), torch.ones(T, B, dtype=DOUBLE))
    assert LAYER_CLASSES["LEM"] is longrnn.LEM


def test_users_can_subclass_a_one_step_class():
    class Normalized(longrnn.LEMCell):
        def __init__(self, *sizes, **keywords):
            super().__init__(*sizes, **keywords)
            self.scale = nn.Parameter(torch.ones(self.hidden_size))

        def forward(self, input, hx=None):
            y, z = super().forward(input, hx)
            return self.scale * nn.functional.normalize(y, dim=-1), z

    class Silent(Normalized):
        pass

    for cell_class in (Normalized, Silent):
        y, _ = cell_class(P, D, dt=0.5)(torch.ones(B, P))
        torch.testing.assert_close(y.norm(dim=-1), torch.ones(B))


def test_a_cell_inherits_a_forward_that_calls_super():
    class Doubled(LSTMCore):
        def forward(self, u, state=None, **keywords):
            outputs, state = super().forward(u, state, **keywords)
            return 2 * outputs, state

    try:

        class DoubledLSTM(Doubled, name="doubled_lstm"):
            pass

        cell = DoubledLSTM(P, D)
        u = torch.ones(T, B, P)
        torch.testing.assert_close(cell(u)[0], 2 * LSTMCore.forward(cell, u)[0])
    finally:
        REGISTRY.pop("doubled_lstm", None)


@pytest.mark.parametrize("layer_class", [longrnn.RNN, longrnn.GRU])
def test_wide_layers_compile(layer_class):
    layer = layer_class(P, 512)  # from this width on, the number of threads chooses the engine
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    u = torch.randn(2, B, P)
    torch.testing.assert_close(compiled(u)[0], layer(u)[0])


def test_one_process_can_compile_many_layers_and_steps():
    # torch.compile gives up at the ninth class if they share the code of `forward`. That each
    # layer compiles by itself is tested in test_conformance.py.
    def compiled(module):
        return torch.compile(module, fullgraph=True, backend="eager")

    u = torch.randn(1, B, P)
    for layer_class in [*LAYER_CLASSES.values()][:10]:
        layer = layer_class(P, D)
        output, _ = compiled(layer)(u)
        torch.testing.assert_close(output, layer(u)[0])
    for name in LAYER_CLASSES:
        step = getattr(longrnn, f"{name}Cell")(P, D)
        torch.testing.assert_close(compiled(step)(u[0]), step(u[0]))


@every_layer
def test_signatures_state_the_declared_defaults(layer_class):
    parameters = dict(inspect.signature(layer_class).parameters)
    for name, keyword in layer_class.core.hyper_parameters.items():
        if name in ("layers", "dropout"):  # replaced by num_layers, and by the layer's dropout
            continue
        assert parameters[name].default == keyword.default, name
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
    for name in ("batch_first", "dropout", "bidirectional", "device", "dtype"):
        assert name in parameters
    assert ("bias" in parameters) == bool(layer_class.core.biases)


@every_layer
def test_docstrings_document_every_argument(layer_class):
    doc = inspect.getdoc(layer_class)
    section = doc.split("Parameters\n----------\n")[1].split("\nNotes\n")[0]
    documented = []
    for line in section.splitlines():
        if line and not line.startswith(" "):
            documented += line.split(", ")
    assert sorted(documented) == sorted(inspect.signature(layer_class).parameters)
    assert f">>> from longrnn import {layer_class.__name__}\n" in doc


@every_layer
def test_repr_shows_what_differs_from_the_defaults(layer_class):
    name = layer_class.__name__
    assert repr(layer_class(3, 5)) == f"{name}(3, 5)"
    other = layer_class(3, 5, 2, dropout=0.5, batch_first=True, bidirectional=True)
    expected = f"{name}(3, 5, num_layers=2, batch_first=True, dropout=0.5, bidirectional=True)"
    assert repr(other) == expected
    assert repr(getattr(longrnn, f"{name}Cell")(3, 5)) == f"{name}Cell(3, 5)"


def test_repr_shows_hyper_parameters():
    assert repr(longrnn.LEM(3, 5, dt=0.5)) == "LEM(3, 5, dt=0.5)"
    assert repr(make_cell("lem", 3, 5, dt=0.5)) == "LEMCore(3, 5, dt=0.5)"


def test_repr_shows_present_values():
    """As that of `nn.Dropout` does, whose rate may be changed, too."""
    layer = longrnn.LEM(3, 5, 2, dt=0.5)
    layer.cells["l1"].dt = 0.25
    assert repr(layer) == "LEM(3, 5, dt=[0.5, 0.25], num_layers=2)"
    layer.cells["l0"].dt = 0.25
    assert repr(layer) == "LEM(3, 5, dt=0.25, num_layers=2)"
    assert repr(layer.cells["l0"]) == "LEMCore(3, 5, dt=0.25)"
    layer.cells["l0"].dt = 1.0
    layer.cells["l1"].dt = 1.0
    assert repr(layer) == "LEM(3, 5, num_layers=2)", "the default"
    layer.cells["l0"].dt = nn.Parameter(torch.tensor(0.25))
    assert repr(layer) == "LEM(3, 5, dt=[Parameter(), 1.0], num_layers=2)"
    step = longrnn.LEMCell(3, 5)
    step.cell.dt = 0.5
    assert repr(step) == "LEMCell(3, 5, dt=0.5)"
    cell = make_cell("unicornn", 3, 5, dropout=0.5)
    cell.dropout = 0.1
    assert cell.extra_repr() == "3, 5, dropout=0.1"


def test_repr_shows_a_value_for_each_layer_as_it_was_given():
    layer = longrnn.UnICORNN(3, 5, 2, dt=(0.1, 0.2), bidirectional=True)
    expected = "UnICORNN(3, 5, dt=(0.1, 0.2), num_layers=2, bidirectional=True)"
    assert repr(layer) == expected
    layer.cells["l1_reverse"].dt = 0.3
    assert repr(layer) == expected.replace("(0.1, 0.2)", "[0.1, 0.1, 0.2, 0.3]")


def test_bare_cells_have_the_device_and_dtype_of_the_call():
    cell = make_cell("lem", P, D, device="cpu", dtype=DOUBLE)
    assert {parameter.dtype for parameter in cell.parameters()} == {DOUBLE}
    cell = make_cell("lem", P, D, device="meta")
    assert all(parameter.is_meta for parameter in cell.parameters())


@every_layer
def test_weights_are_those_of_the_bare_cell(layer_class):
    torch.manual_seed(3)
    cell = make_cell(layer_class.core.name, P, D, **layer_class.fixed)
    torch.manual_seed(3)
    layer = layer_class(P, D)
    state = layer.cells["l0"].state_dict()
    torch.testing.assert_close(state, cell.state_dict(), rtol=0, atol=0)


# Layouts


@every_layer
@pytest.mark.parametrize("arguments", [{}, {"num_layers": 2, "bidirectional": True}], ids=str)
def test_shapes_and_states_are_those_of_nn_lstm(layer_class, arguments):
    layer = build(layer_class, **arguments)
    oracle = nn.LSTM(P, D, **arguments).double()
    output, state = layer(noise(T, B, P))
    expected, (h, _) = oracle(noise(T, B, P))
    assert output.shape == expected.shape
    assert {part.shape for part in parts(state)} == {h.shape}
    assert isinstance(state, tuple) == (layer.cells["l0"].states > 1)


@every_layer
def test_batch_first_transposes_input_and_output_only(layer_class):
    u = noise(T, B, P)
    output, state = build(layer_class, num_layers=2)(u)
    transposed, same = build(layer_class, num_layers=2, batch_first=True)(u.transpose(0, 1))
    assert_same((transposed.transpose(0, 1), same), (output, state))


@every_layer
@pytest.mark.parametrize("batch_first", [False, True])
def test_unbatched_input_equals_a_batch_of_one(layer_class, batch_first):
    layer = build(layer_class, num_layers=2, bidirectional=True, batch_first=batch_first)
    u = noise(T, P)
    output, state = layer(u)
    batch_dim = 1
    if batch_first:
        batch_dim = 0
    batched, batched_state = layer(u.unsqueeze(batch_dim))
    squeezed = tuple(part.squeeze(1) for part in parts(batched_state))
    assert_same((output, state), (batched.squeeze(batch_dim), squeezed))
    again, _ = layer(u, state)
    expected, _ = layer(u.unsqueeze(batch_dim), batched_state)
    torch.testing.assert_close(again, expected.squeeze(batch_dim))


@every_layer
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_batch_may_be_empty(layer_class, batch_first):
    arguments = {"num_layers": 2, "bidirectional": True, "batch_first": batch_first}
    layer = build(layer_class, **arguments)
    oracle = nn.LSTM(P, D, **arguments).double()
    u = torch.zeros(T, 0, P, dtype=DOUBLE)
    if batch_first:
        u = u.transpose(0, 1)
    output, state = layer(u)
    expected, (h, _) = oracle(u)
    assert output.shape == expected.shape
    assert {part.shape for part in parts(state)} == {h.shape}
    output.sum().backward()
    assert not any(p.grad.any() for p in layer.parameters() if p.grad is not None)
    single = getattr(longrnn, f"{layer_class.__name__}Cell")(P, D, dtype=DOUBLE)
    assert {part.shape for part in parts(single(u.flatten(0, 1)))} == {(0, D)}


@pytest.mark.parametrize(
    "layer",
    [
        longrnn.IncrementalRNN(P, D, train_eta="time", length=T),
        longrnn.LURNN(P, D, dtype=torch.bfloat16),
        longrnn.InverseRNN(P, D, dtype=torch.float16),
    ],
    ids=str,
)
def test_an_empty_batch_has_no_time_steps_to_count(layer):
    dtype = next(layer.parameters()).dtype
    output, _ = layer(torch.zeros(T, 0, P, dtype=dtype))
    assert output.shape == (T, 0, D)


@every_layer
def test_a_split_sequence_continues_from_its_state(layer_class):
    layer = build(layer_class, num_layers=2)
    u = noise(T, B, P)
    first, middle = layer(u[:4])
    second, end = layer(u[4:], middle)
    assert_same((torch.cat([first, second]), end), layer(u))


def test_a_state_of_none_is_the_initial_one():
    layer = build(longrnn.LEM)
    u = noise(T, B, P)
    for absent in ((None, None), [None, None]):
        assert_same(layer(u, absent), layer(u))


@every_layer
def test_the_last_state_can_be_detached_in_place(layer_class):
    """Between two stretches of a long sequence, as users do; PyTorch refuses it for views."""
    _, state = build(layer_class)(noise(T, B, P))
    for part in parts(state):
        part.detach_()
        assert not part.requires_grad


@every_layer
def test_the_last_state_shares_no_memory(layer_class):
    layer = build(layer_class)
    output, state = layer(noise(T, B, P))
    before = output.detach().clone()
    with torch.no_grad():
        for part in parts(state):
            part.fill_(7.0)
    assert torch.equal(output, before)


# Lengths


def sequences_of(u):
    """Return the sequences of a padded batch."""
    return [u[:length, k] for k, length in enumerate(LENGTHS)]


def one_by_one(layer, u):
    """Run the sequences of a padded batch one by one; return padded outputs, and the states."""
    outputs = []
    states = []
    for sequence in sequences_of(u):
        output, state = layer(sequence)
        outputs.append(output)
        states.append(parts(state))
    padded = nn.utils.rnn.pad_sequence(outputs)
    stacked = tuple(torch.stack(part, dim=1) for part in zip(*states, strict=True))
    return padded, stacked


@every_layer
@pytest.mark.parametrize("bidirectional", [False, True])
def test_padded_sequences_end_at_their_lengths(layer_class, bidirectional):
    layer = build(layer_class, num_layers=2, bidirectional=bidirectional)
    u = noise(T, B, P)
    for k, length in enumerate(LENGTHS):
        u[length:, k] = torch.nan  # padding must not be read
    result = layer(u, lengths=LENGTHS)
    assert_same(result, one_by_one(layer, u))
    for lengths in (torch.tensor(LENGTHS), np.array(LENGTHS)):
        assert_same(layer(u, lengths=lengths), result)
    batch_first = copy.deepcopy(layer)
    batch_first.batch_first = True
    output, state = batch_first(u.transpose(0, 1), lengths=LENGTHS)
    assert_same((output.transpose(0, 1), state), result)


@every_layer
@pytest.mark.parametrize("enforce_sorted", [False, True])
def test_packed_sequences_equal_single_ones(layer_class, enforce_sorted):
    layer = build(layer_class, num_layers=2, bidirectional=True)
    u = noise(T, B, P)
    order = np.arange(B)
    if enforce_sorted:
        order = np.argsort(LENGTHS)[::-1].copy()
    sequences = [sequences_of(u)[k] for k in order]
    packed, state = layer(pack_sequence(sequences, enforce_sorted=enforce_sorted))
    assert isinstance(packed, PackedSequence)
    output, _ = nn.utils.rnn.pad_packed_sequence(packed)
    expected, states = one_by_one(layer, u)
    assert_same((output, state), (expected[:, order], tuple(s[:, order] for s in states)))


@every_layer
def test_packed_sequences_take_an_initial_state(layer_class):
    layer = build(layer_class, num_layers=2, bidirectional=True)
    u = noise(T, B, P)
    _, start = layer(noise(2, B, P))
    packed = pack_padded_sequence(u, torch.tensor(LENGTHS), enforce_sorted=False)
    _, state = layer(packed, start)
    for k, sequence in enumerate(sequences_of(u)):
        start_k = tuple(part[:, k].contiguous() for part in parts(start))
        if not isinstance(start, tuple):
            (start_k,) = start_k
        _, expected = layer(sequence, start_k)
        end_k = tuple(part[:, k] for part in parts(state))
        torch.testing.assert_close(end_k, parts(expected))


@every_layer
def test_gradients_do_not_reach_padding(layer_class):
    layer = build(layer_class, bidirectional=True)
    u = noise(T, B, P).requires_grad_()
    output, state = layer(u, lengths=LENGTHS)
    (output.sum() + sum(part.sum() for part in parts(state))).backward()
    for k, length in enumerate(LENGTHS):
        assert not u.grad[length:, k].any()
        assert u.grad[:length, k].any()


@every_layer
def test_lengths_work_inside_transforms(layer_class):
    layer = build(layer_class, num_layers=2, bidirectional=True)
    weights = dict(layer.named_parameters())
    u = noise(T, B, P)
    packed = pack_padded_sequence(u, torch.tensor(LENGTHS), enforce_sorted=False)

    def loss_of_padded(weights):
        output, _ = functional_call(layer, weights, (u,), {"lengths": LENGTHS})
        return output.square().sum()

    def loss_of_packed(weights):
        output, _ = functional_call(layer, weights, (packed,))
        return output.data.square().sum()

    expected = torch.autograd.grad(loss_of_padded(weights), list(weights.values()))
    for loss in (loss_of_padded, loss_of_packed):
        gradients = torch.func.grad(loss)(weights)
        torch.testing.assert_close(tuple(gradients.values()), expected)
    data = torch.stack([u, -u])
    mapped = torch.func.vmap(lambda u: layer(u, lengths=LENGTHS)[0])(data)
    torch.testing.assert_close(mapped[1], layer(-u, lengths=LENGTHS)[0])


@every_layer
def test_lengths_do_not_depend_on_the_default_device(layer_class):
    layer = build(layer_class, num_layers=2, bidirectional=True)
    u = noise(T, B, P)
    expected = layer(u, lengths=LENGTHS)
    with torch.device("meta"):
        assert_same(layer(u, lengths=LENGTHS), expected)
        without_values = layer_class(P, D)
        output, _ = without_values(torch.empty(T, B, P), lengths=LENGTHS)
    assert output.is_meta and output.shape == (T, B, D)


@every_layer
def test_a_layer_runs_and_is_reset_on_its_own_device(layer_class):
    layer = build(layer_class)
    u = noise(25, B, P)  # the LU RNN and the inverse RNN use the inverse after 10 steps
    expected = layer(u)
    new = layer_class(P, D, dtype=DOUBLE)
    with torch.device("meta"):
        assert_same(layer(u), expected)
        torch.manual_seed(0)
        layer.reset_parameters()
    torch.manual_seed(0)
    new.reset_parameters()
    torch.testing.assert_close(layer.state_dict(), new.state_dict())


def test_compiled_layers_take_packed_and_padded_sequences():
    layer = build(longrnn.LEM)
    compiled = torch.compile(layer, backend="eager")
    u = noise(T, B, P)
    packed = pack_padded_sequence(u, torch.tensor(LENGTHS), enforce_sorted=False)
    output, state = compiled(packed)
    expected, end = layer(packed)
    assert_same((output.data, state), (expected.data, end))
    assert_same(compiled(u, lengths=LENGTHS), layer(u, lengths=LENGTHS))


def test_lists_of_lengths_are_compiled_and_exported():
    torch._dynamo.reset()
    layer = build(longrnn.LEM, bidirectional=True)
    u = noise(T, B, P)
    expected = layer(u, lengths=LENGTHS)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    assert_same(compiled(u, lengths=LENGTHS), expected)
    program = torch.export.export(layer, (u,), {"lengths": LENGTHS}).module()
    assert_same(program(u, lengths=LENGTHS), expected)
    with pytest.raises(AssertionError, match="Guard failed"):
        program(u, lengths=[4, 6, 2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_one_value_that_is_not_finite_is_found(bad, dtype):
    layer = longrnn.RNN(P, D, dtype=dtype)
    for place in range(T * B * P):
        u = torch.randn(T, B, P, dtype=dtype)
        u.flatten()[place] = bad
        with pytest.raises(ValueError, match=f"got 1 of {T * B * P} values"):
            layer(u, engine="reference")


def test_lengths_of_an_empty_batch_are_ignored():
    output, _ = longrnn.LEM(P, D)(torch.zeros(T, 0, P), lengths=[])
    assert output.shape == (T, 0, D)


# Directions, layers and dropout


@every_layer
def test_the_backward_direction_reads_reversed_sequences(layer_class):
    both = build(layer_class, bidirectional=True)
    single = build(layer_class)
    single.cells["l0"].load_state_dict(both.cells["l0_reverse"].state_dict())
    u = noise(T, B, P)
    output, state = both(u)
    expected, last = single(u.flip(0))
    last_of_both = tuple(part[1:] for part in parts(state))
    assert_same((output[..., D:], last_of_both), (expected.flip(0), last))


@every_layer
def test_stacking_equals_manual_stacking(layer_class):
    layer = build(layer_class, num_layers=2)
    u = noise(T, B, P)
    below, first = layer.cells["l0"](u)
    expected, second = layer.cells["l1"](below)
    states = tuple(torch.stack(pair) for pair in zip(first, second, strict=True))
    assert_same(layer(u), (expected, states))


@every_layer
def test_dropout_acts_between_layers_in_training_only(layer_class):
    layer = build(layer_class, num_layers=2, dropout=0.5)
    plain = build(layer_class, num_layers=2)
    u = noise(T, B, P)
    assert_same(layer.eval()(u), plain(u))
    layer.train()
    assert not torch.equal(layer(u)[0], layer(u)[0])
    torch.manual_seed(1)
    first = layer(u)
    torch.manual_seed(1)
    assert_same(layer(u), first)
    # With probability 1 the second layer reads zeros.
    layer.dropout = 1.0
    zeros = torch.zeros(T, B, D, dtype=DOUBLE)
    torch.testing.assert_close(layer(u)[0], layer.cells["l1"](zeros)[0])


def test_dropout_of_one_layer_warns():
    with pytest.warns(UserWarning, match="dropout acts between layers"):
        longrnn.LEM(P, D, dropout=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        longrnn.LEM(P, D, 2, dropout=0.5)


@every_layer
def test_without_bias_there_are_no_bias_weights(layer_class):
    biases = layer_class.core.biases
    if not biases:
        with pytest.raises(TypeError, match="unexpected keyword argument 'bias'"):
            layer_class(P, D, bias=False)
        return
    layer = layer_class(P, D, bias=False)
    start = "paper"
    if "author" in layer.core.starts:
        start = "author"
    layer.reset_parameters(start)
    assert not any(set(name.split(".")) & set(biases) for name in layer.state_dict())
    torch.manual_seed(0)
    full = layer_class(P, D)
    full.load_state_dict(layer.state_dict(), strict=False)
    with torch.no_grad():
        for name, parameter in full.named_parameters():
            if set(name.split(".")) & set(biases):
                parameter.zero_()
    u = noise(T, B, P).float()
    assert_same(layer(u), full(u))


# Layers of UnICORNN, IndRNN and SRU against the cells that stack them


def test_unicornn_skip_connections_equal_the_stacked_cell():
    dt = (0.1, 0.2, 0.3, 0.4)
    layer = build(longrnn.UnICORNN, num_layers=4, dt=dt, skip=2)
    cell = make_cell("unicornn", P, D, layers=4, dt=dt, skip=2).double()
    with torch.no_grad():
        for k in range(4):
            core = layer.cells[f"l{k}"]
            for name in ("w", "b", "c"):
                getattr(cell, name)[k].copy_(getattr(core, name)[0])
            features = {0: [P], 1: [D], 2: [D, P], 3: [D, D]}[k]
            V, *connection = core.V[0].split(features, dim=1)
            cell.V[k].copy_(V)
            if connection:
                cell.skips[k - 2].copy_(connection[0])
    u = noise(T, B, P)
    output, (y, z) = layer(u)
    expected, state = cell(u)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(tuple(y), state[0::2])
    torch.testing.assert_close(tuple(z), state[1::2])


def test_unicornn_skip_connections_are_initialized_by_fan_in():
    torch.manual_seed(0)
    layer = longrnn.UnICORNN(2, 400, num_layers=4, skip=2)
    for _ in range(2):
        bounds = [block.abs().max() for block in layer.cells["l2"].V[0].split([400, 2], dim=1)]
        for bound, features in zip(bounds, (400, 2), strict=True):
            assert bound.item() == pytest.approx((6 / 65 / features) ** 0.5, rel=0.02)
        layer.reset_parameters()


def test_unicornn_drops_the_same_outputs_at_all_times():
    layer = build(longrnn.UnICORNN, num_layers=2, dropout=0.5).train()
    output = torch.ones(5 * 3 + 2 * 1, D, dtype=DOUBLE)
    segments = [Segment(steps=5, batch=3), Segment(steps=2, batch=1)]
    masked = layer._drop(output, segments)
    steps = [*masked[:15].unflatten(0, (5, 3)), masked[15:16], masked[16:17]]
    for step in steps:
        assert torch.equal(step, steps[0][: len(step)])
    assert set(steps[0].unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("layer_class", [longrnn.IndRNN, longrnn.SRU])
def test_stacked_layers_equal_the_stacked_cell(layer_class):
    layer = build(layer_class, num_layers=2)
    cell = make_cell(layer_class.core.name, P, D, layers=2).double()
    stacked = dict(cell.named_parameters())
    with torch.no_grad():
        for k in range(2):
            for name, value in layer.cells[f"l{k}"].named_parameters():
                stacked[name.replace(".0", f".{k}")].copy_(value)
    u = noise(T, B, P)
    torch.testing.assert_close(layer(u)[0], cell(u)[0])


# One step


@every_layer
def test_one_step_classes_unroll_to_the_layer(layer_class):
    cell_type = getattr(longrnn, f"{layer_class.__name__}Cell")
    torch.manual_seed(0)
    cell = cell_type(P, D, dtype=DOUBLE)
    layer = build(layer_class)
    layer.cells["l0"].load_state_dict(cell.cell.state_dict())
    u = noise(T, B, P)
    state = None
    for u_t in u:
        state = cell(u_t, state)
    _, expected = layer(u)
    torch.testing.assert_close(parts(state), tuple(part[0] for part in parts(expected)))
    state_of_one = None
    if cell.cell.states > 1:
        state_of_one = tuple(part[0] for part in parts(state))
    single = cell(u[0, 0], state_of_one)
    assert {part.shape for part in parts(single)} == {(D,)}
    assert "num_layers" not in inspect.signature(cell_type).parameters


@every_layer
def test_exported_steps_take_any_batch(layer_class):
    cell = getattr(longrnn, f"{layer_class.__name__}Cell")(P, D, dtype=DOUBLE)
    u = noise(B, P)
    state = cell(u)
    varying = {0: torch.export.Dim.DYNAMIC}
    of_state = varying
    if isinstance(state, tuple):
        of_state = (varying,) * len(state)
    program = torch.export.export(cell, (u, state), dynamic_shapes=(varying, of_state))
    u = noise(2 * B, P)
    state = cell(u)
    torch.testing.assert_close(program.module()(u, state), cell(u, state))


@pytest.mark.parametrize("name", ["LSTM", "LEM", "MinGRU", "UnICORNN"])
def test_exported_layers_take_a_named_batch(name):
    layer = build(LAYER_CLASSES[name], num_layers=2, bidirectional=True, batch_first=True)
    shapes = ({0: torch.export.Dim("batch")},)  # stricter than `Dim.DYNAMIC`
    program = torch.export.export(layer, (noise(B, T, P),), dynamic_shapes=shapes)
    for batch in (1, B + 1):
        u = noise(batch, T, P)
        assert_same(program.module()(u), layer(u))


@every_layer
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16])
def test_one_step_classes_ignore_autocast(layer_class, given):
    cell = getattr(longrnn, f"{layer_class.__name__}Cell")(P, D)
    u = noise(B, P).to(given)
    expected = cell(u.float())
    with torch.autocast("cpu", torch.bfloat16):
        state = cell(u)
    torch.testing.assert_close(parts(state), parts(expected))


def test_one_step_classes_refuse_unknown_arguments():
    with pytest.raises(TypeError, match="LEMCell: got an unexpected argument 'num_layers'; exp"):
        longrnn.LEMCell(P, D, num_layers=2)
    with pytest.raises(TypeError, match="unexpected argument 'layers'"):
        longrnn.UnICORNNCell(P, D, layers=2)
    with pytest.raises(TypeError, match="unexpected argument 'bias'"):
        longrnn.ChronoLSTMCell(P, D, bias=False)


@every_layer
def test_autocast_takes_a_list_as_state(layer_class):
    layer = layer_class(P, D)
    u = noise(T, B, P).float()
    _, state = layer(u)
    expected = layer(u, state)
    with torch.autocast("cpu", torch.bfloat16):
        assert_same(layer(u, list(parts(state))), expected)


def test_one_step_classes_take_hyper_parameters():
    cell = longrnn.LEMCell(P, D, dt=0.5, bias=False)
    assert cell.cell.dt == 0.5
    assert "cell.b" not in cell.state_dict()
    cell.reset_parameters()
    assert not cell.cell.b.any()
    with pytest.raises(ValueError, match="LEMCell: expected dt to be a number in"):
        longrnn.LEMCell(P, D, dt=3.0)


# Weights, types and serialization


@every_layer
@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE, *SIXTEEN_BITS])
def test_reset_parameters_draws_as_the_constructor(layer_class, dtype):
    torch.manual_seed(4)
    layer = layer_class(P, D, 2, dtype=dtype)
    expected = copy.deepcopy(layer.state_dict())
    layer.train_initial_state()
    with torch.no_grad():
        for cell in layer.cells.values():
            for part in cell.x0:
                part.fill_(1.0)
    torch.manual_seed(4)
    layer.reset_parameters()
    state = layer.state_dict()
    started = {name: state.pop(name) for name in list(state) if ".x0." in name}
    torch.testing.assert_close(state, expected, rtol=0, atol=0)
    assert started and not any(part.any() for part in started.values())


@every_layer
@pytest.mark.parametrize("dtype", SIXTEEN_BITS)
def test_weights_of_16_bits_are_rounded(layer_class, dtype):
    for start in layer_class.core.starts:
        states = []
        for layer in (layer_class(P, D), layer_class(P, D, dtype=dtype)):
            parameters = list(layer.parameters())
            torch.manual_seed(4)
            layer.reset_parameters(start, time_steps=T)
            assert list(layer.parameters())[: len(parameters)] == parameters
            states.append(layer.state_dict())
        expected, state = states
        assert state.keys() == expected.keys()
        for name, value in state.items():
            assert torch.equal(value, expected[name].to(dtype)), (start, name)


@every_layer
def test_a_default_dtype_of_16_bits_works(layer_class):
    torch.manual_seed(4)
    expected = layer_class(P, D, dtype=torch.bfloat16).state_dict()
    torch.manual_seed(4)
    torch.set_default_dtype(torch.bfloat16)
    try:
        state = layer_class(P, D).state_dict()
    finally:
        torch.set_default_dtype(torch.float32)
    for name, value in expected.items():
        assert value.dtype == torch.bfloat16
        assert torch.equal(state[name], value), name


@every_layer
@pytest.mark.parametrize("dtype", SIXTEEN_BITS)
def test_layers_run_in_16_bits(layer_class, dtype):
    layer = layer_class(P, D, dtype=dtype)
    in_32_bits = copy.deepcopy(layer).float()
    u = noise(T, B, P).to(dtype)
    output, state = layer(u)
    expected, _ = in_32_bits(u.float())
    assert {part.dtype for part in (output, *parts(state))} == {dtype}
    torch.testing.assert_close(output.float(), expected, atol=0.1, rtol=0)
    output.sum().backward()
    gradients = {name: p.grad for name, p in layer.named_parameters() if p.grad is not None}
    assert [name for name, gradient in gradients.items() if not gradient.isfinite().all()] == []


def test_a_refused_initialization_keeps_the_dtype():
    layer = longrnn.RNN(3, D, dtype=torch.float16)
    with pytest.raises(ValueError, match="a value and a mark, got 3 features"):
        layer.reset_parameters("adding_paper", time_steps=T)
    assert {parameter.dtype for parameter in layer.parameters()} == {torch.float16}


@every_layer
def test_copies_and_files_give_the_same_layer(layer_class):
    layer = build(layer_class, num_layers=2, bidirectional=True)
    u = noise(T, B, P)
    expected = layer(u)
    random_state = torch.get_rng_state()
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    copies = [
        copy.deepcopy(layer),
        pickle.loads(pickle.dumps(layer)),
        torch.load(file, weights_only=False),
    ]
    assert torch.equal(torch.get_rng_state(), random_state), "reading a file drew numbers"
    for other in copies:
        assert_same(other(u), expected)
        assert other.state_dict().keys() == layer.state_dict().keys()


@pytest.mark.parametrize("layer_class", [longrnn.LEM, longrnn.ExponentialRNN])
def test_cells_with_parametrizations_of_users_are_not_pickled(layer_class):
    layer = layer_class(P, D)
    weight_norm(layer.cells["l0"], "b", dim=None)
    with pytest.raises(RuntimeError, match=r"only supported through state_dict\(\)"):
        pickle.dumps(layer)


def test_a_cell_whose_parametrization_was_removed_is_an_ordinary_module():
    layer = build(longrnn.ExponentialRNN)
    cell = layer.cells["l0"]
    remove_parametrizations(cell, "B")
    u = noise(T, B, P)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert_same(other(u), layer(u))
        assert type(other.cells["l0"]) is type(cell)
        pickle.dumps(other)
    torch.manual_seed(1)
    layer.reset_parameters()
    torch.manual_seed(1)
    expected = longrnn.ExponentialRNN(P, D, dtype=DOUBLE).cells["l0"]
    torch.testing.assert_close(cell.B, expected.B)


@every_layer
def test_weights_only_files_carry_a_trained_initial_state(layer_class):
    layer = build(layer_class, num_layers=2)
    layer.train_initial_state()
    with torch.no_grad():
        for cell in layer.cells.values():
            for part in cell.x0:
                part.add_(0.5)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = layer_class(P, D, 2, dtype=DOUBLE)
    other.load_state_dict(torch.load(file, weights_only=True))
    u = noise(T, B, P)
    assert_same(other(u), layer(u))


@every_layer
def test_gradients_reach_every_trained_parameter(layer_class):
    # If not, DistributedDataParallel stops at the second step.
    layer = build(layer_class, num_layers=2, bidirectional=True)
    layer.train_initial_state()
    output, _ = layer(noise(T, B, P))
    output.sum().backward()
    missing = []
    for name, parameter in layer.named_parameters():
        if parameter.requires_grad and parameter.grad is None:
            missing.append(name)
    assert missing == []


@pytest.mark.parametrize("name", ["rnn", "lu_rnn", "inverse_rnn"])
def test_cells_with_relu_can_be_pickled(name):
    cell = make_cell(name, P, D, activation="relu")
    restored = pickle.loads(pickle.dumps(cell))
    u = noise(T, B, P).float()
    assert torch.equal(restored(u)[0], cell(u)[0])
    assert restored.step == cell.step


@pytest.fixture(scope="module")
def one_process():
    """A process group of this process alone."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


@every_layer
def test_sharded_layers_equal_plain_ones(layer_class, one_process):
    layer = build(layer_class, num_layers=2, bidirectional=True)
    layer.train_initial_state()
    sharded = copy.deepcopy(layer)
    scalars = {parameter for parameter in sharded.parameters() if parameter.dim() == 0}
    for cell in sharded.cells.values():
        fully_shard(cell, mesh=one_process, ignored_params=scalars)
    fully_shard(sharded, mesh=one_process, ignored_params=scalars)
    u = noise(T, B, P)
    for _ in range(2):  # the weights are gathered again in the second pass
        for module in (layer, sharded):
            module.zero_grad()
            output, state = module(u)
            (output.square().sum() + parts(state)[0].sum()).backward()
        assert_same(sharded(u), layer(u))
    expected = dict(layer.named_parameters())
    for name, parameter in sharded.named_parameters():
        if parameter.requires_grad:
            gradient = parameter.grad
            if parameter not in scalars:
                gradient = gradient.full_tensor()
            torch.testing.assert_close(gradient, expected[name].grad)


@every_layer
def test_traced_layers_can_be_saved(layer_class):
    layer = build(layer_class, num_layers=2, bidirectional=True)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch has deprecated its tracer, and traces sizes
        torch.jit.save(torch.jit.trace(layer, noise(T, B, P)), file)
        file.seek(0)
        traced = torch.jit.load(file)
    u = noise(T, B + 1, P).requires_grad_()
    result = traced(u)
    assert_same(result, layer(u))
    (gradient,) = torch.autograd.grad(result[0].square().sum(), u)
    (expected,) = torch.autograd.grad(layer(u)[0].square().sum(), u)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("make", [longrnn.LEM, longrnn.LEMCell, partial(make_cell, "lem")])
def test_scripting_is_refused(make, nested):
    module = make(P, D)
    if nested:
        module = nn.Sequential(nn.Linear(P, P), module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch has deprecated it
        with pytest.raises(TypeError, match=r"^LEM.*: torch.jit.script cannot compile this module"):
            torch.jit.script(module)


def test_fx_traces_a_model_that_has_a_layer_as_a_leaf():
    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, module, name):
            return isinstance(module, longrnn.Recurrent) or super().is_leaf_module(module, name)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = build(longrnn.LEM)
            self.readout = nn.Linear(D, 1, dtype=DOUBLE)

        def forward(self, u):
            output, _ = self.rnn(u)
            return self.readout(output)

    model = Model()
    graph = torch.fx.GraphModule(model, Tracer().trace(model))
    u = noise(T, B, P)
    torch.testing.assert_close(graph(u), model(u))


@every_layer
def test_subclasses_of_tensors_get_the_operators(layer_class):
    layer = build(layer_class, dtype=torch.float32)  # in float64 PyTorch's own LSTM fails
    first = noise(T, B, P).float()
    second = first.flip(1)
    u = TwoTensor(first, second).requires_grad_()
    output, _ = layer(u)
    (gradient,) = torch.autograd.grad(output.square().sum(), u)
    of_first = first, output.a, gradient.a
    of_second = second, output.b, gradient.b
    for part, result, actual in (of_first, of_second):
        plain = part.clone().requires_grad_()
        expected, _ = layer(plain)
        torch.testing.assert_close(result, expected)
        (slope,) = torch.autograd.grad(expected.square().sum(), plain)
        torch.testing.assert_close(actual, slope)


@every_layer
def test_the_meta_device_computes_shapes_only(layer_class):
    random_state = torch.get_rng_state()
    layer = layer_class(P, D, 2, device="meta")
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(parameter.is_meta for parameter in layer.parameters())
    output, state = layer(torch.empty(T, B, P, device="meta"))
    assert output.shape == (T, B, D)
    assert output.is_meta
    assert {part.shape for part in parts(state)} == {(2, B, D)}
    filled = layer.to_empty(device="cpu")
    filled.load_state_dict(layer_class(P, D, 2).state_dict())
    assert filled(torch.zeros(T, B, P))[0].isfinite().all()


WITH_BIAS = [layer_class for layer_class in LAYER_CLASSES.values() if layer_class.core.biases]


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("layer_class", WITH_BIAS)
def test_missing_biases_are_zero_after_loading(layer_class, assign):
    saved = layer_class(P, D, 2, bias=False)
    layer = layer_class(P, D, 2, bias=False, device="meta")
    if not assign:
        layer = layer.to_empty(device="cpu")
        for buffer in layer.buffers():
            buffer.fill_(torch.nan)  # memory without values may hold anything
    layer.load_state_dict(saved.state_dict(), assign=assign)
    u = noise(T, B, P).float()
    assert_same(copy.deepcopy(layer)(u), saved(u))
    pickle.loads(pickle.dumps(layer))


@every_layer
def test_dtype_converts_as_in_any_module(layer_class):
    layer = layer_class(P, D, dtype=DOUBLE)
    assert {parameter.dtype for parameter in layer.parameters()} == {DOUBLE}
    assert layer(noise(T, B, P))[0].dtype == DOUBLE
    assert layer.float()(noise(T, B, P).float())[0].dtype == torch.float32


@every_layer
def test_one_step_classes_draw_as_layers(layer_class):
    torch.manual_seed(4)
    layer = layer_class(P, D, dtype=DOUBLE)
    torch.manual_seed(4)
    cell = getattr(longrnn, f"{layer_class.__name__}Cell")(P, D, dtype=DOUBLE)
    expected = layer.cells["l0"].state_dict()
    torch.testing.assert_close(cell.cell.state_dict(), expected, rtol=0, atol=0)


# Hooks on cells, which PyTorch's pruning uses


@every_layer
def test_hooks_on_cells_are_called_once(layer_class):
    layer = build(layer_class, num_layers=2, bidirectional=True)
    calls = []

    def record(cell, inputs, outputs):
        calls.append((cell, inputs[0].shape, outputs[0].shape))

    for cell in layer.cells.values():
        cell.register_forward_hook(record)
    layer(noise(T, B, P), lengths=LENGTHS)
    rows = sum(LENGTHS)
    features = [P, P, 2 * D, 2 * D]
    expected = []
    for cell, width in zip(layer.cells.values(), features, strict=True):
        expected.append((cell, (rows, width), (rows, D)))
    assert calls == expected


@pytest.mark.parametrize("one_step", [False, True])
def test_pruned_weights_follow_training(one_step):
    torch.manual_seed(0)
    u = torch.randn(T, B, P)
    if one_step:
        module = longrnn.LSTMCell(P, D)
        cell = module.cell
        u = u[0]
    else:
        module = longrnn.LSTM(P, D)
        cell = module.cells["l0"]
    prune.l1_unstructured(cell, "R", amount=0.5)
    mask = cell.R != 0
    before = cell.R.detach().clone()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        module(u)[0].square().sum().backward()
        optimizer.step()
    module(u)
    assert torch.equal(cell.R, cell.R_orig * mask)
    assert not torch.equal(cell.R, before)


@pytest.fixture
def replicate(monkeypatch):
    """Return PyTorch's `replicate`, which here copies to the CPU and not to several GPUs."""
    module = importlib.import_module("torch.nn.parallel.replicate")

    def copies(tensors, devices, detach=False):
        replicas = []
        for _ in devices:
            replicas.append([tensor.clone() for tensor in tensors])
        return replicas

    monkeypatch.setattr(module, "_broadcast_coalesced_reshape", copies)
    monkeypatch.setattr(module, "_get_device_index", lambda device, optional: device)
    return module.replicate


@every_layer
def test_data_parallel_replicas_equal_the_layer(layer_class, replicate):
    layer = build(layer_class, num_layers=2, bidirectional=True)
    u = noise(T, B, P)
    weights = [parameter for parameter in layer.parameters() if parameter.requires_grad]
    expected = torch.autograd.grad(layer(u)[0].sum(), weights)
    for replica in replicate(layer, [0, 1]):
        assert not list(replica.parameters())
        output, state = replica(u)
        assert_same((output, state), layer(u))
        assert_same(replica(u, state), layer(u, state))
        torch.testing.assert_close(torch.autograd.grad(output.sum(), weights), expected)


@every_layer
def test_data_parallel_replicas_take_single_steps(layer_class, replicate):
    cell = getattr(longrnn, f"{layer_class.__name__}Cell")(P, D)
    u = noise(B, P).float()
    for replica in replicate(cell, [0, 1]):
        torch.testing.assert_close(parts(replica(u)), parts(cell(u)))


def test_data_parallel_replicas_carry_a_trained_initial_state(replicate):
    layer = build(longrnn.LEM, bias=False)
    layer.train_initial_state()
    u = noise(T, B, P)
    (replica,) = replicate(layer, [0])
    with torch.autocast("cpu", torch.bfloat16):
        assert_same(replica(u), layer(u))


@every_layer
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16])
def test_autocast_computes_in_the_weights_type(layer_class, given):
    layer = layer_class(P, D, 2)
    u = noise(T, B, P).to(given)
    expected = layer(u.float())
    with torch.autocast("cpu", torch.bfloat16):
        output, state = layer(u)
        packed, _ = layer(pack_padded_sequence(u, torch.tensor(LENGTHS), enforce_sorted=False))
    assert_same((output, state), expected)
    assert output.dtype == packed.data.dtype == torch.float32


@every_layer
def test_gradients_equal_finite_differences(layer_class):
    layer = build(layer_class, num_layers=2, bidirectional=True)
    u = noise(3, 2, P).requires_grad_()
    weights = [parameter for parameter in layer.parameters() if parameter.requires_grad]

    def run(u, *_):
        output, state = layer(u, lengths=[3, 2])
        return output, *parts(state)

    assert torch.autograd.gradcheck(run, (u, *weights), fast_mode=True)


def test_numpy_numbers_are_sizes_and_settings():
    layer = longrnn.LEM(np.int64(P), np.int32(D), np.int64(2), dt=np.float64(0.5))
    assert (layer.input_size, layer.hidden_size, layer.num_layers) == (P, D, 2)
    assert type(layer.cells["l0"].dt) is float
    cell = make_cell("unicornn", P, D, layers=np.int64(2), dt=[np.float32(0.25), 0.5])
    assert cell.dt == (0.25, 0.5)
    assert make_cell("irnn", P, D, sign=np.int64(-1)).sign == -1
    assert make_cell("lem", P, D, single_scale=np.bool_(True)).single_scale is True


# Mistakes

LAYER = longrnn.LEM(P, D)
U = torch.zeros(T, B, P)
NESTED = torch.nested.nested_tensor([U[:, 0], U[:2, 1]], layout=torch.jagged)
PACKED = pack_padded_sequence(U, torch.tensor(LENGTHS), enforce_sorted=False)

test_inputs_other_than_tensors_are_refused = refused(
    TypeError,
    (
        "LEM: expected a tensor as input, got Proxy; .* is_leaf_module",
        lambda: torch.fx.symbolic_trace(longrnn.LEM(P, D)),
    ),
    ("got tuple; a recurrent module returns", lambda: nn.Sequential(LAYER, LAYER)(U)),
    (
        "RNN.from_torch: expected a torch.nn.RNN, got .*LSTM",
        lambda: longrnn.RNN.from_torch(nn.LSTM(P, D)),
    ),
    (
        "LSTM.from_torch: expected a torch.nn.LSTM, got longrnn.*LSTM",
        lambda: longrnn.LSTM.from_torch(longrnn.LSTM(P, D)),
    ),
    ("got list; stack sequences", lambda: LAYER([U[:, 0], U[:, 1]])),
    (r"got ndarray; convert it with torch.from_numpy\(", lambda: LAYER(U.numpy())),
    ("got int; convert it to a tensor", lambda: LAYER(3)),
    (r"a dense tensor as input, got torch.sparse_coo; .*to_dense\(", lambda: LAYER(U.to_sparse())),
    ("a dense tensor as input, got a nested one; pad it", lambda: LAYER(NESTED)),
    ("got a nested one", lambda: LAYER(torch.nested.nested_tensor(list(NESTED.unbind())))),
    ("lem: .*got PackedSequence; a bare cell", lambda: make_cell("lem", P, D)(PACKED)),
    ("lem: .*got tuple; a recurrent", lambda: make_cell("lem", P, D)(make_cell("lem", P, D)(U))),
    ("lem: .*got ndarray", lambda: make_cell("lem", P, D)(U.numpy())),
    ("LEMCell: .*got ndarray", lambda: longrnn.LEMCell(P, D)(U[0].numpy())),
    ("LSTM.__init__.. takes from 3 to 4 positional", lambda: longrnn.LSTM(P, D, 1, True)),
    ("LSTMCell.__init__.. takes 3 positional", lambda: longrnn.LSTMCell(P, D, True)),
)
STATE = torch.zeros(1, B, D), torch.zeros(1, B, D)
COUNTED = torch.zeros(1, B, D), torch.arange(float(D)).expand(1, B, D)


def with_weight(layer, name, *shape):
    """Return a layer one of whose weights has another shape."""
    setattr(layer.cells["l0"], name, nn.Parameter(torch.zeros(shape)))
    return layer


test_values_that_do_not_fit_are_refused = refused(
    ValueError,
    ("LSTM: expected proj_size=0", lambda: longrnn.LSTM(P, D, proj_size=3)),
    (r"expected input \(time, batch, input\) or .*input=2, got \(6, 3, 5\)",
     lambda: LAYER(torch.zeros(T, B, 5))),
    (r"expected input \(batch, time, input\)",
     lambda: longrnn.LEM(P, D, batch_first=True)(torch.zeros(B, T, 5))),
    (r"got \(1, 6, 3, 2\)", lambda: LAYER(U[None])),
    (r"at least one time step, got \(0, 3, 2\)", lambda: LAYER(U[:0])),
    (r"at least one time step, got \(0, 2\)", lambda: LAYER(U[:0, 0])),
    ("expected input of torch.float32 on cpu, got torch.float64", lambda: LAYER(U.double())),
    ("expected input of torch.float32 on cpu, got torch.int64", lambda: LAYER(U.long())),
    ("expected input of torch.float32 on cpu, got torch.float32 on meta",
     lambda: LAYER(U.to("meta"))),
    ("expected finite input, got 36 of 36", lambda: LAYER(U + torch.nan)),
    ("PackedSequence of 2 features, got",
     lambda: LAYER(pack_sequence([torch.zeros(3, 5)]))),
    (r"2 state tensor\(s\) of shape \(1, 3, 4\).*got \(2, 3, 4\)",
     lambda: LAYER(U, tuple(part.repeat(2, 1, 1) for part in STATE))),
    (r"2 state tensor\(s\)", lambda: LAYER(U, STATE[0])),
    (r"got \(1, 3, 4\) of torch.float64", lambda: LAYER(U, (STATE[0].double(), STATE[1]))),
    (r"2 state tensor\(s\) of shape \(1, 4\)", lambda: LAYER(U[:, 0], STATE)),
    (r"1 state tensor\(s\) of shape \(1, 3, 4\)", lambda: longrnn.GRU(P, D)(U, STATE)),
    (r"gru: expected the state to be a tuple of 1 .* got a tensor; pass \(state,\)",
     lambda: make_cell("gru", P, D)(U, STATE[0][0])),
    ("^LURNN: expected the last tensor of the state to hold one number per sequence, the time",
     lambda: longrnn.LURNN(P, D)(U, COUNTED)),
    ("^InverseRNN: expected the last tensor", lambda: longrnn.InverseRNN(P, D)(U, COUNTED)),
    ("^IncrementalRNN: expected the last tensor",
     lambda: longrnn.IncrementalRNN(P, D, train_eta="time", length=20)(U, COUNTED)),
    ("between 1 and 6, the time steps of the input, got -1",
     lambda: LAYER(U, lengths=[6, -1, 2])),
    ("between 1 and 6, .* got 7", lambda: LAYER(U, lengths=[7, 1, 2])),
    ("between 1 and 6, .* got 0", lambda: LAYER(U, lengths=torch.tensor([6, 0, 2]))),
    ("3 whole numbers, one per sequence, got", lambda: LAYER(U, lengths=[6, 2])),
    ("3 whole numbers", lambda: LAYER(U, lengths=torch.tensor([6.0, 1.0, 2.0]))),
    ("3 whole numbers, one per sequence, got [[]6.0, 1.0, 2.0[]]",
     lambda: LAYER(U, lengths=[6.0, 1.0, 2.0])),
    ("3 whole numbers, one per sequence, got array[(]",
     lambda: LAYER(U, lengths=np.ones((3, 1), dtype=np.int64))),
    ("3 whole numbers, one per sequence, got 6", lambda: LAYER(U, lengths=6)),
    ("3 whole numbers, one per sequence, got '612'", lambda: LAYER(U, lengths="612")),
    ("3 whole numbers, one per sequence, got a tensor on the meta device",
     lambda: LAYER(U, lengths=torch.tensor(LENGTHS, device="meta"))),
    ("no lengths with one sequence", lambda: LAYER(U[:, 0], lengths=[6])),
    ("no lengths with a PackedSequence", lambda: LAYER(PACKED, lengths=LENGTHS)),
    ("num_layers to be a positive integer, got 0", lambda: longrnn.LEM(P, D, 0)),
    ("hidden_size to be a positive integer, got 2.5", lambda: longrnn.LEM(P, 2.5)),
    ("dropout to be between 0 and 1, got 1.5", lambda: longrnn.LEM(P, D, 2, dropout=1.5)),
    ("^LEM: expected dt to be a number in", lambda: longrnn.LEM(P, D, dt=3.0)),
    ("^LEM: expected dt to be a normal number", lambda: longrnn.LEM(P, D, dt=1e-300)),
    ("^LEM: expected dtype to be torch.float32, .*, got torch.complex64",
     lambda: longrnn.LEM(P, D, dtype=torch.complex64)),
    ("^LEMCell: expected dtype to be .*, got torch.int64",
     lambda: longrnn.LEMCell(P, D, dtype=torch.int64)),
    ("expected dtype to be .*, got torch.float8_e4m3fn",
     lambda: longrnn.LSTM(P, D, dtype=torch.float8_e4m3fn)),
    ("expected dtype to be .*, got 'float32'", lambda: longrnn.LSTM(P, D, dtype="float32")),
    ("bidirectional to be True or False, got 'False'",
     lambda: longrnn.LEM(P, D, bidirectional="False")),
    ("batch_first to be True or False, got 2", lambda: longrnn.LEM(P, D, batch_first=2)),
    ("LEM: expected bias to be True or False, got 'no'", lambda: longrnn.LEM(P, D, bias="no")),
    ("LEMCell: expected bias to be True or False, got 0", lambda: longrnn.LEMCell(P, D, bias=0)),
    ("^LEM: expected engine to be a name such as 'auto', got None",
     lambda: LAYER(U, engine=None)),
    ("^IncrementalRNN: expected sequences of at most length=3 time steps, .* got 6; build it",
     lambda: longrnn.IncrementalRNN(P, D, train_eta="time", length=3)(U)),
    ("^LSTM: expected time_steps to be a positive integer, got 5.5",
     lambda: longrnn.LSTM(P, D).reset_parameters("padding", time_steps=5.5)),
    ("^LEM: expected initial weights among paper, author, got 'cold'",
     lambda: LAYER.reset_parameters("cold")),
    ("if train_eta='time', which has .* time step, got train_eta='time'$",
     lambda: longrnn.IncrementalRNN(P, D, train_eta="time")),
    (r"1 <= rank <= 4 \(or None\), got rank=5, phi='tanh'$",
     lambda: longrnn.IncrementalRNN(P, D, rank=5, phi="tanh")),
    ("LEM: expected bias=True with chrono", lambda: longrnn.LEM(P, D, chrono=100, bias=False)),
    ("LEMCell: expected bias=True with", lambda: longrnn.LEMCell(P, D, chrono=100, bias=False)),
    ("LURNN: .* at most 256 time steps in torch.bfloat16, .* got 257",
     lambda: longrnn.LURNN(P, D, dtype=torch.bfloat16)(torch.zeros(257, 1, P).bfloat16())),
    ("at most 256 time steps in torch.bfloat16, which cannot count further, got 257",
     lambda: longrnn.IncrementalRNN(P, D, train_eta="time", length=300).bfloat16()(
         torch.zeros(257, B, P, dtype=torch.bfloat16))),
    ("one dt, or one for each of the 2 layers, got 3",
     lambda: longrnn.UnICORNN(P, D, 2, dt=(0.1, 0.2, 0.3))),
    ("^UnICORNN: expected dt to be a number, or one for each layer, in .*, got '0.1'",
     lambda: longrnn.UnICORNN(P, D, dt="0.1")),
    ("^UnICORNN: expected dt to be a number, or .*, got [(]0.1, 5[)]",
     lambda: longrnn.UnICORNN(P, D, 2, dt=[0.1, 5])),
    ("^UnICORNN: expected skip to be a whole number in .*, got None",
     lambda: longrnn.UnICORNN(P, D, skip=None)),
    ("skip = 0 or 2 <= skip < num_layers = 2", lambda: longrnn.UnICORNN(P, D, 2, skip=2)),
    ("LSTM: expected proj_size=0, .* got 2",
     lambda: longrnn.LSTM.from_torch(nn.LSTM(P, D, proj_size=2))),
    (r"LEMCell: expected input \(batch, input\) or", lambda: longrnn.LEMCell(P, D)(U)),
    (r"LEMCell: expected 2 state tensor\(s\) of shape \(3, 4\)",
     lambda: longrnn.LEMCell(P, D)(U[0], STATE)),
    ("lem has no engine 'fast'", lambda: LAYER(U, engine="fast")),
    # Without these checks, oneDNN or a kernel would read memory beyond the weight.
    (r"^lstm: expected weights W of shape [(]16, 4[)], got [(]17, 4[)]",
     lambda: with_weight(longrnn.LSTM(P, D), "W", 4 * D + 1, D)(U)),
    (r"^lstm: expected weights R of shape [(]16, 2[)], got [(]16, 3[)]",
     lambda: with_weight(longrnn.ChronoLSTM(P, D), "R", 4 * D, P + 1)(U)),
    (r"^lstm: expected weights b of shape [(]16,[)], got [(]17,[)]",
     lambda: with_weight(longrnn.LSTM(P, D), "b", 4 * D + 1)(U)),
    ("one number for each unit of each sequence, got arrays of 3 and 12 chains",
     lambda: with_weight(longrnn.SRU(P, D), "skip", 1, P)(U)),
)  # fmt: skip


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'longrnn' has no attribute 'LSTN'"):
        longrnn.LSTN  # noqa: B018


# Installed nowhere: torch.hub from a clone, and what type checkers see


def test_torch_hub_loads_every_layer_from_a_clone():
    for layer_class in LAYER_CLASSES.values():
        entry = layer_class.core.name
        layer = torch.hub.load(str(ROOT), entry, P, D, num_layers=2, source="local")
        assert type(layer) is layer_class


def test_the_stub_lists_all_public_names():
    stub = ast.parse((ROOT / "lib" / "longrnn" / "__init__.pyi").read_text("utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    aliases = {alias.asname: node.module for node in imports for alias in node.names}
    exported = {name: module for name, module in aliases.items() if name is not None}
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    assert exported.keys() | classes.keys() == set(longrnn.__all__)
    for name, module in exported.items():
        assert getattr(longrnn, name).__module__.startswith(module)
    for name, node in classes.items():
        (base,) = getattr(longrnn, name).__bases__
        assert [ast.unparse(name) for name in node.bases] == [base.__name__]
