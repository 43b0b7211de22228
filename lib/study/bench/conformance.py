"""Check that a layer class does what PyTorch users expect of a module.

Each check does one thing that users do, such as compiling or pickling, with a small layer. It
compares the result with a plain forward and backward pass. A check fails if PyTorch raises an error
or the numbers differ. Notebook 86 runs all checks.
"""

import copy
import io
import pickle
from collections.abc import Callable

import torch
from longrnn.cells import Recurrent
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

FEATURES = 2
WIDTH = 4
TIME_STEPS = 3
BATCH = 2


def failure(layer_class: type[Recurrent], label: str) -> str:
    """Run one check on a layer class, and return why it failed.

    Parameters
    ----------
    layer_class : type of Recurrent
        One of `longrnn.cells.LAYER_CLASSES`.
    label : str
        A key of `CHECKS`.

    Returns
    -------
    str
        Kind and first line of the error that the check raised; empty if it succeeded.
    """
    torch.manual_seed(0)
    torch.compiler.reset()
    layer = layer_class(FEATURES, WIDTH, 2, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():  # initial values such as zero would hide errors
            parameter.add_(0.1 * torch.randn_like(parameter))
    u = torch.randn(TIME_STEPS, BATCH, FEATURES, dtype=torch.float64)
    try:
        CHECKS[label](layer, u)
    except Exception as error:  # PyTorch's compilers and exporters raise errors of many kinds
        message = str(error).strip() or "no message"
        return f"{type(error).__name__}: {message.splitlines()[0]}"
    return ""


def _check_gradients(layer: Recurrent, u: Tensor) -> None:
    """First derivatives with respect to input and weights equal finite differences."""
    assert torch.autograd.gradcheck(_function_of(layer), _inputs(layer, u), fast_mode=True)


def _check_second_gradients(layer: Recurrent, u: Tensor) -> None:
    """Second derivatives with respect to input and weights equal finite differences."""
    assert torch.autograd.gradgradcheck(_function_of(layer), _inputs(layer, u), fast_mode=True)


def _check_compilation(layer: Recurrent, u: Tensor) -> None:
    """`torch.compile` captures forward and backward of one layer without a graph break."""
    layer = type(layer)(FEATURES, WIDTH, dtype=torch.float64)  # tracing takes most of the time
    compiled = torch.compile(copy.deepcopy(layer), fullgraph=True, backend="aot_eager")
    _assert_same_pass(compiled, layer, u)


def _check_export(layer: Recurrent, u: Tensor) -> None:
    """`torch.export` returns a program for any batch size, with the same outputs."""
    any_batch = {"input": {1: torch.export.Dim.DYNAMIC}}
    program = torch.export.export(layer, (u,), dynamic_shapes=any_batch)
    _assert_same_outputs(program.module(), layer, u)
    _assert_same_outputs(program.module(), layer, torch.cat([u, u], dim=1))


def _check_operators(layer: Recurrent, u: Tensor) -> None:
    """The custom operators that the layer calls pass `torch.library.opcheck`.

    A layer that uses only PyTorch's own operators passes without a check.
    """
    with _OperatorCalls() as recorded:
        layer(u)
    for operator, arguments in recorded.calls.items():
        leaves = [_as_leaf(argument) for argument in arguments]
        torch.library.opcheck(operator, leaves)


def _check_autocast(layer: Recurrent, u: Tensor) -> None:
    """Under autocast to bfloat16 the layer computes in float32."""
    layer = layer.float()
    u = u.float()
    expected, _ = layer(u)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = layer(u.bfloat16().float())
        from_bfloat16, _ = layer(u.bfloat16())
    assert output.dtype == torch.float32
    torch.testing.assert_close(output, from_bfloat16)
    torch.testing.assert_close(output, expected, atol=0.05, rtol=0.05)


def _check_vmap(layer: Recurrent, u: Tensor) -> None:
    """`torch.vmap` over data equals a loop."""
    several = torch.stack([u, 2 * u])
    mapped = torch.vmap(lambda sequences: layer(sequences)[0])(several)
    looped = torch.stack([layer(sequences)[0] for sequences in several])
    torch.testing.assert_close(mapped, looped)


def _check_sample_gradients(layer: Recurrent, u: Tensor) -> None:
    """Gradients per sequence by `torch.func` equal those of single sequences."""
    weights = {
        name: parameter.detach()
        for name, parameter in layer.named_parameters()
        if parameter.requires_grad
    }

    def loss(weights: dict[str, Tensor], sequence: Tensor) -> Tensor:
        output, _ = torch.func.functional_call(layer, weights, (sequence[:, None],))
        return output.square().sum()

    mapped = torch.vmap(torch.func.grad(loss), in_dims=(None, 1))(weights, u)
    for index in range(BATCH):
        single = torch.func.grad(loss)(weights, u[:, index])
        of_index = {name: gradients[index] for name, gradients in mapped.items()}
        torch.testing.assert_close(of_index, single)


def _check_deepcopy(layer: Recurrent, u: Tensor) -> None:
    """`copy.deepcopy` gives the same layer."""
    _assert_same_pass(copy.deepcopy(layer), layer, u)


def _check_pickle(layer: Recurrent, u: Tensor) -> None:
    """`torch.save` and pickle of the whole module give the same layer."""
    _assert_same_pass(pickle.loads(pickle.dumps(layer)), layer, u)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    _assert_same_pass(torch.load(file, weights_only=False), layer, u)


def _check_weights_only(layer: Recurrent, u: Tensor) -> None:
    """A file of the state dict loads with ``weights_only=True``."""
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = type(layer)(FEATURES, WIDTH, 2, dtype=torch.float64)
    other.load_state_dict(torch.load(file, weights_only=True))
    _assert_same_pass(other, layer, u)


def _check_meta(layer: Recurrent, u: Tensor) -> None:
    """On the meta device the outputs have the right shapes."""
    empty = type(layer)(FEATURES, WIDTH, 2, device="meta")
    assert empty(u.float().to("meta"))[0].shape == layer(u)[0].shape


CHECKS: dict[str, Callable[[Recurrent, Tensor], None]] = {
    "gradcheck": _check_gradients,
    "gradgradcheck": _check_second_gradients,
    "compile": _check_compilation,
    "export": _check_export,
    "opcheck": _check_operators,
    "autocast": _check_autocast,
    "vmap": _check_vmap,
    "per-sample gradients": _check_sample_gradients,
    "deepcopy": _check_deepcopy,
    "pickle": _check_pickle,
    "weights_only": _check_weights_only,
    "meta": _check_meta,
}
"""The checks by name of the property: functions of a layer and its input (time, batch, input)."""


class _OperatorCalls(TorchDispatchMode):
    """Records the arguments of the first call of each operator of `longrnn`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = {}

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if operator.namespace == "longrnn":
            self.calls.setdefault(operator, args)
        return operator(*args, **(kwargs or {}))


def _as_leaf(argument: object) -> object:
    """Return a tensor as a leaf that requires gradients if it did; return other objects as is."""
    if not isinstance(argument, Tensor):
        return argument
    return argument.detach().requires_grad_(argument.requires_grad)


def _tensors(state: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the tensors of a state."""
    if isinstance(state, tuple):
        return state
    return (state,)


def _inputs(layer: Recurrent, u: Tensor) -> tuple[Tensor, ...]:
    """Return an input that requires gradients, and the weights."""
    weights = [parameter for parameter in layer.parameters() if parameter.requires_grad]
    return u.clone().requires_grad_(), *weights


def _function_of(layer: Recurrent) -> Callable[..., tuple[Tensor, ...]]:
    """Return outputs and state as a function of the input and the weights."""

    def run(u: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        output, state = layer(u)
        return output, *_tensors(state)

    return run


def _assert_same_outputs(module: nn.Module, layer: Recurrent, u: Tensor) -> None:
    """Compare outputs and states with those of `layer`."""
    output, state = module(u)
    expected, expected_state = layer(u)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(_tensors(state), _tensors(expected_state))


def _assert_same_pass(module: nn.Module, layer: Recurrent, u: Tensor) -> None:
    """Compare outputs, states and gradients with those of `layer`."""
    _assert_same_outputs(module, layer, u)
    torch.testing.assert_close(_gradients(module, u), _gradients(layer, u))


def _gradients(module: nn.Module, u: Tensor) -> list[Tensor]:
    """Return the gradients of a loss of the outputs."""
    module.zero_grad()
    module(u)[0].square().sum().backward()
    return [p.grad for p in module.parameters() if p.grad is not None]
