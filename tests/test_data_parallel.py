"""Layers in `DistributedDataParallel`: two processes train as one does."""

import pytest
import torch
from longrnn.cells import LAYER_CLASSES
from parallel_training import layer_named, train, train_in_two_processes


@pytest.fixture(scope="module")
def trained_by_two(tmp_path_factory):
    return train_in_two_processes(str(tmp_path_factory.mktemp("processes")))


@pytest.mark.parametrize("name", LAYER_CLASSES)
def test_two_processes_train_as_one_does(name, trained_by_two):
    start = layer_named(name).state_dict()
    expected = train(layer_named(name))
    moved = max((expected[key] - start[key]).abs().max() for key in start)
    assert moved > 1e-7
    for states in trained_by_two:
        torch.testing.assert_close(states[name], expected, rtol=1e-9, atol=1e-12)
