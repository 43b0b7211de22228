"""What PyTorch users expect of a module, on every layer class; notebook 86 shows the table."""

import pytest
import torch
from longrnn.cells import LAYER_CLASSES
from study.bench import conformance
from study.bench.conformance import CHECKS, failure


@pytest.mark.slow
@pytest.mark.parametrize("label", CHECKS)
@pytest.mark.parametrize("layer_class", LAYER_CLASSES.values(), ids=LAYER_CLASSES)
@pytest.mark.filterwarnings("ignore")  # compilers warn of their own internals
def test_layers_pass_conformance_check(layer_class, label):
    assert failure(layer_class, label) == ""


def test_conformance_checks_report_wrong_results(monkeypatch):
    layer_class = LAYER_CLASSES["LEM"]

    def wrong(layer, u):
        output, state = type(layer).forward(layer, u)
        return output.detach(), state

    monkeypatch.setattr(conformance, "_function_of", lambda layer: lambda u, *_: wrong(layer, u)[0])
    assert failure(layer_class, "gradcheck")
    monkeypatch.setattr(torch, "vmap", lambda function: lambda several: several)
    assert failure(layer_class, "vmap").startswith("AssertionError: ")


def test_opcheck_gets_each_operator_of_a_layer():
    layer = LAYER_CLASSES["LEM"](2, 3, 2)
    with conformance._OperatorCalls() as recorded:
        layer(torch.randn(4, 1, 2))
    assert [str(operator) for operator in recorded.calls] == ["longrnn.lem_cpu.default"]
    [arguments] = recorded.calls.values()
    assert any(torch.is_tensor(part) and part.requires_grad for part in arguments)
