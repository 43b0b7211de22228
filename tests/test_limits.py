"""Trainings that cannot fit are refused in one sentence before they start."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from toys import toy_task

from lib.tasks import Part, make_task
from lib.training.limits import ARRAYS, check_memory, memory_needed
from lib.training.model import Network, build

CPU = torch.device("cpu")
TOKENS = Part(np.zeros((10, 20), np.int64), np.zeros(10, np.int64))
WORDS = Part(TOKENS.inputs, TOKENS.inputs)
TEXTS = replace(toy_task("tokens"), vocabulary_size=25_003, train=TOKENS, test=TOKENS)


def test_memory_is_that_of_the_parts_and_of_a_batch():
    held = 2 * 8 * (10 * 20 + 10)
    assert memory_needed(TEXTS, 20, 0, 64) == held
    assert memory_needed(TEXTS, 20, 5, 64) == held + 4 * 20 * 5 * (2 + ARRAYS * 64)
    every = replace(TEXTS, target="steps", outputs=1000, train=WORDS, test=WORDS)
    held = 2 * 8 * 2 * 10 * 20
    predicted = 3 * 1000  # logits, their softmax, and the gradient
    assert memory_needed(every, 20, 5, 64) == held + 4 * 20 * 5 * (2 + ARRAYS * 64 + predicted)


def test_a_batch_that_does_not_fit_names_one_that_does():
    task = make_task({"task": "adding", "time_steps": 10_000}, None, np.random.default_rng(0))
    sentence = (
        r"adding: batches of 500 sequences of 10000 steps at width 128 need about 28.7 GiB, there are 8.0 GiB; "
        r"lower batch_size to 139"
    )
    with pytest.raises(ValueError, match=sentence):
        check_memory(task, 10_000, 500, 128, CPU, available=8 * 2**30)
    check_memory(task, 10_000, 139, 128, CPU, available=8 * 2**30)


def test_what_fits_passes_to_the_byte():
    check_memory(TEXTS, 20, 5, 64, CPU)
    needed, empty = (memory_needed(TEXTS, 20, batch, 1) for batch in (5, 0))
    check_memory(TEXTS, 20, 5, 1, CPU, available=needed)
    for available, advice in ((needed - 1, "lower batch_size to 4"), (empty, "lower the length")):
        with pytest.raises(ValueError, match=advice):
            check_memory(TEXTS, 20, 5, 1, CPU, available=available)


def test_an_embedding_starts_from_the_vectors_of_its_words():
    vectors = np.random.default_rng(0).normal(size=(25_003, 6)).astype(np.float32)
    task, lstm = replace(TEXTS, vectors=vectors), Network(cell="lstm", width=4, embedding_width=6)
    model = build(task, lstm)
    assert np.array_equal(model.embedding.weight.detach().numpy(), vectors)
    assert model.embedding.weight.requires_grad
    for cut, width, why in [
        (vectors, 5, "vectors of 6 numbers, got embedding_width 5; make them"),
        (vectors[:25_000], 6, "a vocabulary of 25,003 tokens, larger than the embedding's 25,000"),
    ]:
        with pytest.raises(ValueError, match=f"toy has {why}"):
            build(replace(TEXTS, vectors=cut), lstm.model_copy(update={"embedding_width": width}))
