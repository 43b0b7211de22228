"""Shards that were damaged, cut, altered or swapped, and what lies in their place or a state's: none of it is believed."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from study.training.checkpoint import Checkpoint
from study.training.shards import read_shard, shard_path, write_shard
from study.training.state import RunState
from trials.faults import damaged, in_the_way

pytestmark = pytest.mark.trials

IDENTITY = {"job": {"width": 3, "rate": 0.01}, "code": "0123", "versions": {"torch": "2"}}
ARRAYS = {
    "status": np.array(0, np.int8),
    "loss": np.linspace(2, 1, 24).reshape(2, 12),
    "adjoint": np.array([-np.inf, np.nan, 3.5], np.float32),
    "label": np.array("a name"),
    "none": np.zeros((0, 3)),
}
TRAINING = torch.nn.Linear(1, 1), [], SimpleNamespace(), RunState()


def _same(found):
    told = lambda arrays: {n: (v.dtype, v.shape, v.tobytes()) for n, v in arrays.items()}
    return told(found) == told(ARRAYS)


def _read(trials, what, cache, capsys, *, lost=False):
    """Count what is read: nothing, with one sentence and the file put aside, or, unless it must be `lost`, what was written."""
    path = shard_path(cache, IDENTITY)

    def read():
        found, said = read_shard(cache, IDENTITY), capsys.readouterr().err
        if found is not None:
            return not lost and _same(found)
        aside = not os.path.lexists(path) and os.path.lexists(path.with_suffix(".damaged"))
        return aside and said.count("\n") == 1 and "is damaged (" in said

    trials.accept(what, read, bool)


def test_damaged_bytes_are_never_believed(trials, draw, tmp_path, capsys):
    path = write_shard(tmp_path, IDENTITY, ARRAYS)
    whole = path.read_bytes()
    _read(trials, "whole", tmp_path, capsys)
    assert path.exists()
    for i in trials.some(2000):
        path.write_bytes(damaged(draw, whole))
        _read(trials, f"damaged {i}", tmp_path, capsys)


def test_what_lies_in_the_way_is_put_aside_and_never_followed(trials, draw, tmp_path, capsys):
    precious = tmp_path / "precious"
    precious.write_text("kept")
    for i in trials.some(60):
        cache = tmp_path / f"{i}"
        path, state = shard_path(cache, IDENTITY), cache / "a.state"
        cache.mkdir()
        for place in (path, state):
            in_the_way(draw, place, precious)
            if draw.random() < 0.5:
                in_the_way(draw, place.with_suffix(".damaged"), precious)
        _read(trials, f"{i}", cache, capsys, lost=True)
        write_shard(cache, IDENTITY, ARRAYS)
        trials.accept(f"{i} anew", lambda: read_shard(cache, IDENTITY), _same)
        Checkpoint(state).restore(*TRAINING)
        told = capsys.readouterr().err.count("begins anew\n")
        trials.accept(f"{i} state", lambda: (told, os.path.lexists(state)), (1, False).__eq__)
    trials.accept("the link's target", precious.read_text, "kept".__eq__)
