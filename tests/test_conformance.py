"""What PyTorch users expect of a module, on every layer class; notebook 86 shows the table."""

import longrnn
import pytest
import torch
from longrnn.cells import LAYER_CLASSES
from study.bench import conformance
from study.bench.conformance import CHECKS, failure
from torch.autograd.function import once_differentiable


@pytest.mark.slow
@pytest.mark.parametrize("label", CHECKS)
@pytest.mark.parametrize("layer_class", LAYER_CLASSES.values(), ids=LAYER_CLASSES)
@pytest.mark.filterwarnings("ignore")  # compilers warn of their own internals
def test_layers_pass_conformance_check(layer_class, label):
    assert failure(layer_class, label) == ""


class WrongGradients(longrnn.LEM):
    """A layer whose gradients are twice the right ones."""

    def forward(self, input, hx=None, **keywords):
        output, state = super().forward(input, hx, **keywords)
        return 2 * output - output.detach(), state


class Once(torch.autograd.Function):
    """The identity, with a backward pass that has no derivative."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient


class NoSecondGradients(longrnn.LEM):
    def forward(self, input, hx=None, **keywords):
        output, state = super().forward(input, hx, **keywords)
        return Once.apply(output), state


class WrongIfCompiled(longrnn.LEM):
    def forward(self, input, hx=None, **keywords):
        output, state = super().forward(input, hx, **keywords)
        if torch.compiler.is_compiling():
            output = 2 * output
        return output, state


class WrongIfMapped(longrnn.LEM):
    def forward(self, input, hx=None, **keywords):
        output, state = super().forward(input, hx, **keywords)
        if torch._C._functorch.is_batchedtensor(input):
            output = 2 * output
        return output, state


class ReadsValues(longrnn.LEM):
    """A layer that looks at values, which neither transforms nor the meta device have."""

    def forward(self, input, hx=None, **keywords):
        output, state = super().forward(input, hx, **keywords)
        assert output.sum().item() < 1e9
        return output, state


@torch.library.custom_op("longrnn::test_wrong_shape", mutates_args=())
def wrong_shape(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@wrong_shape.register_fake
def _(x):
    return x.new_empty(1)


class WrongOperator(longrnn.LEM):
    """A layer that calls an operator whose shape PyTorch's compiler gets wrong."""

    def forward(self, input, hx=None, **keywords):
        output, state = super().forward(wrong_shape(input), hx, **keywords)
        return output, state


class WrongTypeUnderAutocast(longrnn.LEM):
    def forward(self, input, hx=None, **keywords):
        output, state = super().forward(input, hx, **keywords)
        if torch.is_autocast_enabled("cpu"):
            output = output.bfloat16()
        return output, state


class Forgetful(longrnn.LEM):
    """A layer with a random factor that copies and files lose."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.factor = torch.rand(()).item()

    def __setstate__(self, state):
        super().__setstate__(state)
        self.factor = 1.0

    def forward(self, input, hx=None, **keywords):
        output, state = super().forward(input, hx, **keywords)
        return self.factor * output, state


FAULTS = {
    "gradcheck": (WrongGradients, "GradcheckError"),
    "gradgradcheck": (NoSecondGradients, "GradcheckError"),
    "compile": (WrongIfCompiled, "AssertionError: Tensor-likes are not close"),
    "export": (WrongIfCompiled, "AssertionError: Tensor-likes are not close"),
    "opcheck": (WrongOperator, "OpCheckError"),
    "autocast": (WrongTypeUnderAutocast, "AssertionError"),
    "vmap": (WrongIfMapped, "AssertionError: Tensor-likes are not close"),
    "per-sample gradients": (ReadsValues, "RuntimeError"),
    "deepcopy": (Forgetful, "AssertionError: Tensor-likes are not close"),
    "pickle": (Forgetful, "AssertionError: Tensor-likes are not close"),
    "weights_only": (Forgetful, "AssertionError: Tensor-likes are not close"),
    "meta": (ReadsValues, "RuntimeError"),
}
"""For each check a layer that must fail it, and how the failure begins."""


@pytest.mark.parametrize("label", CHECKS)
@pytest.mark.filterwarnings("ignore")  # compilers warn of their own internals
def test_each_check_fails_on_a_faulty_layer(label):
    layer_class, beginning = FAULTS[label]
    reason = failure(layer_class, label)
    assert reason.startswith(beginning), f"the reason is {reason!r}"


def test_opcheck_gets_each_operator_of_a_layer():
    layer = LAYER_CLASSES["LEM"](2, 3, 2)
    with conformance._OperatorCalls() as recorded:
        layer(torch.randn(4, 1, 2))
    assert [str(operator) for operator in recorded.calls] == ["longrnn.lem_cpu.default"]
    [arguments] = recorded.calls.values()
    assert any(torch.is_tensor(part) and part.requires_grad for part in arguments)
