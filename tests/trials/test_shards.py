"""Damaged shards and checkpoints, and other things in their place: none of it is believed."""

import os
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from study.training.checkpoint import Checkpoint
from study.training.shards import read_shard, shard_path, write_shard
from study.training.state import RunState
from trials.faults import damaged, put_in_the_way

pytestmark = pytest.mark.trials

IDENTITY = {"job": {"width": 3, "rate": 0.01}, "code": "0123", "versions": {"torch": "2"}}
ARRAYS = {
    "status": np.array(0, np.int8),
    "loss": np.linspace(2, 1, 24).reshape(2, 12),
    "adjoint": np.array([-np.inf, np.nan, 3.5], np.float32),
    "label": np.array("a name"),
    "none": np.zeros((0, 3)),
}
RUN = torch.nn.Linear(1, 1), [], SimpleNamespace(), RunState()


def _content(arrays):
    """Return type, shape and bytes of every array."""
    return {name: (part.dtype, part.shape, part.tobytes()) for name, part in arrays.items()}


def _is_whole(arrays):
    return arrays is not None and _content(arrays) == _content(ARRAYS)


def _read(cache, capsys):
    """Read a shard; return what happened: whole, put aside with one sentence, or wrong."""
    path = shard_path(cache, IDENTITY)
    arrays = read_shard(cache, IDENTITY)
    message = capsys.readouterr().err
    if arrays is not None:
        return "whole" if _is_whole(arrays) else "wrong"
    put_aside = not os.path.lexists(path) and os.path.lexists(path.with_suffix(".damaged"))
    one_sentence = message.count("\n") == 1 and "is damaged (" in message
    return "put aside" if put_aside and one_sentence else "wrong"


def test_damaged_bytes_are_never_believed(trials, draw, tmp_path, capsys):
    path = write_shard(tmp_path, IDENTITY, ARRAYS)
    whole = path.read_bytes()
    read = partial(_read, tmp_path, capsys)
    trials.accept("whole", read, "whole".__eq__)
    assert path.exists()
    for i in trials.some(2000):
        path.write_bytes(damaged(draw, whole))
        trials.accept(f"damaged {i}", read, "put aside".__eq__)


def test_obstacles_are_put_aside_and_never_followed(trials, draw, tmp_path, capsys):
    precious = tmp_path / "precious"
    precious.write_text("kept")
    for i in trials.some(60):
        cache = tmp_path / f"{i}"
        cache.mkdir()
        state = cache / "a.state"
        for path in (shard_path(cache, IDENTITY), state):
            put_in_the_way(draw, path, precious)
            if draw.random() < 0.5:
                put_in_the_way(draw, path.with_suffix(".damaged"), precious)
        trials.accept(f"{i}", partial(_read, cache, capsys), "put aside".__eq__)
        write_shard(cache, IDENTITY, ARRAYS)
        trials.accept(f"{i} anew", partial(read_shard, cache, IDENTITY), _is_whole)
        checkpoint = Checkpoint(state)
        checkpoint.track(*RUN)
        checkpoint.resume()
        outcome = (capsys.readouterr().err.count("starts over\n"), os.path.lexists(state))
        trials.accept(f"{i} state", partial(tuple, outcome), (1, False).__eq__)
    trials.accept("the link's target", precious.read_text, "kept".__eq__)
