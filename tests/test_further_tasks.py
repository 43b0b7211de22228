"""Tasks of UnICORNN's, LEM's and iRNN's experiments: what their sequences hold, and what they refuse."""

import numpy as np
import pytest
import torch

from lib.tasks import make_task
from lib.tasks.copying import draw_copies, memoryless
from lib.tasks.fast_slow import trajectories
from lib.tasks.language import cut
from lib.tasks.permutations import permutation, torch_permutation
from lib.tasks.prepared import prepared_dataset, save_prepared
from lib.tasks.sources._stream import stream_dataset
from lib.tasks.word_vectors import with_vectors


def _rng(seed=0):
    return np.random.default_rng(seed)


# ------------------------------------------------------------------------------- fast and slow


def test_trajectories_solve_the_equations():
    part = trajectories(3, 50, _rng(), solver="exact")
    v = np.concatenate([part.inputs, part.targets[:, -1:]], axis=1)[..., 0].astype(float)
    assert np.array_equal(part.inputs[:, 1:], part.targets[:, :-1])
    assert v[:, 0] == pytest.approx(_rng().uniform(-1, 1, 3), abs=1e-6)
    state = np.array([v[:, 0], np.zeros(3)])
    for n in range(1, 51):  # the classical Runge-Kutta method, in small steps
        for _ in range(40):
            state = _runge_kutta(state, 0.01)
        assert state[0] == pytest.approx(v[:, n], abs=2e-6)


def _runge_kutta(state, h):
    def slope(s):
        return np.array([s[0] - s[0] ** 3 / 3 - s[1] + 0.5, 0.02 * (s[0] + 0.7 - 0.8 * s[1])])

    a = slope(state)
    b = slope(state + h / 2 * a)
    c = slope(state + h / 2 * b)
    d = slope(state + h * c)
    return state + h / 6 * (a + 2 * b + 2 * c + d)


def test_the_authors_solver_leaves_the_exact_trajectory_as_measured():
    author, exact = (trajectories(8, 1000, _rng(), solver=name) for name in ("author", "exact"))
    off = np.sqrt(np.mean((author.targets - exact.targets) ** 2))
    assert 0.02 < off < 0.07
    copied = np.sqrt(np.mean((author.targets - author.inputs) ** 2))
    assert copied == pytest.approx(0.079, abs=0.002)
    straight = 2 * author.inputs[:, 1:] - author.inputs[:, :-1]
    assert np.sqrt(np.mean((author.targets[:, 1:] - straight) ** 2)) == pytest.approx(
        0.028, abs=1e-3
    )


def test_fast_slow_as_a_task():
    spec = {"task": "fast_slow", "time_steps": 20, "train_size": 3, "validation_size": 2}
    made = make_task(spec | {"test_size": 4}, None, _rng())
    assert [part.inputs.shape for part in (made.train, made.validation, made.test)] == [
        (3, 20, 1),
        (2, 20, 1),
        (4, 20, 1),
    ]
    assert (made.target, made.outputs, made.features, made.classifies) == ("steps", 1, 1, False)
    with pytest.raises(ValueError, match="unknown solver 'euler'; known: author, exact"):
        make_task(spec | {"solver": "euler"}, None, _rng())


# ------------------------------------------------------------------------------- copying


@pytest.mark.parametrize("delay", [1, 2, 30])
def test_what_is_copied_returns_at_the_end(delay):
    part = draw_copies(delay, 5, _rng())
    assert part.inputs.shape == (5, delay + 20, 10)
    assert (part.inputs.sum(axis=2) == 1).all()
    steps = part.inputs.argmax(axis=2)
    assert np.array_equal(steps[:, :10], part.targets[:, -10:])
    assert steps[:, :10].min() >= 1 and steps[:, :10].max() <= 8
    assert (steps[:, 10 + delay - 1] == 9).all()
    steps[:, 10 + delay - 1] = 0
    assert not steps[:, 10:].any()
    assert not part.targets[:, :-10].any()


def test_guessing_the_copy_costs_what_is_written():
    part = draw_copies(200, 500, _rng())
    probabilities = np.zeros((220, 9))
    probabilities[:-10, 0] = 1
    probabilities[-10:, 1:] = 1 / 8
    loss = -np.log(probabilities[np.arange(220), part.targets]).mean()
    assert loss == pytest.approx(memoryless(200)) == pytest.approx(0.0945, abs=1e-4)
    assert memoryless(500) == pytest.approx(0.040, abs=1e-4)
    with pytest.raises(ValueError, match="expected a positive delay and size, got 0 and 3"):
        draw_copies(0, 3, _rng())


# ------------------------------------------------------------------------------- permutations


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("none", [0, 1, 2, 3, 4]),
        ("lem", [327, 72, 48, 129, 109]),
        ("cornn", [91, 97, 471, 426, 157]),
        ("exprnn", [319, 576, 323, 107, 355]),
    ],
)
def test_the_programs_permutations(name, first):
    places = permutation(name, 784)
    assert places[:5].tolist() == first
    assert np.array_equal(np.sort(places), np.arange(784))


@pytest.mark.parametrize(("length", "seed"), [(784, 5544), (7949, 123456), (1, 0), (2, 7)])
def test_permutations_are_those_of_torch(length, seed):
    drawn = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
    assert torch_permutation(length, seed).tolist() == drawn.tolist()


def test_an_unknown_permutation_is_refused():
    with pytest.raises(ValueError, match="unknown permutation 'irnn'; known: none, lem, cornn"):
        permutation("irnn", 784)


# ------------------------------------------------------------------------------- images


@pytest.fixture
def images(tmp_path):
    """Images of 4 x 4 pixels, three channels; image n has the value 100 c + 16 n' + place in channel c, modulo 256."""
    base = np.arange(16)[None, :, None] + 100 * np.arange(3) + np.arange(12)[:, None, None]
    labels = np.arange(12) % 2
    for name, channels in (("colour", 3), ("grey", 1)):
        part = base[:, :, :channels].astype(np.uint8), labels
        ds = prepared_dataset(
            name, part, part, kind="pixels", source="made up", outputs=2, valid_max=255
        )
        save_prepared(ds, tmp_path)
    return tmp_path


def test_pixels_in_the_order_of_a_program(images):
    plain = make_task({"task": "pixels", "dataset": "grey"}, images, _rng())
    moved = make_task({"task": "pixels", "dataset": "grey", "order": "lem"}, images, _rng(1))
    places = torch_permutation(16, 5544)
    assert np.array_equal(moved.train.inputs, plain.train.inputs[:, places])
    assert np.array_equal(moved.test.inputs, plain.test.inputs[:, places])


def test_a_validation_part_is_taken_out_of_the_training_part(images):
    whole = make_task({"task": "pixels", "dataset": "grey"}, images, _rng())
    spec = {"task": "pixels", "dataset": "grey", "validation_size": 4}
    made = make_task(spec, images, _rng())
    assert np.array_equal(
        np.concatenate([made.train.inputs, made.validation.inputs]), whole.train.inputs
    )
    assert np.bincount(made.validation.targets).tolist() == [2, 2]
    with pytest.raises(ValueError, match=r"grey: expected a validation part of 1 to 11 of the 12"):
        make_task(spec | {"validation_size": 12}, images, _rng())


def test_standardised_pixels(images):
    spec = {"task": "pixels", "dataset": "grey", "standardised": True, "validation_size": 4}
    made = make_task(spec, images, _rng())
    assert abs(made.train.inputs.mean()) < 1e-5
    assert made.train.inputs.std() == pytest.approx(1, abs=1e-5)
    assert made.kind == "series"


def test_pooled_pixels(images):
    made = make_task({"task": "pixels", "dataset": "grey", "pool": 2}, images, _rng())
    whole = make_task({"task": "pixels", "dataset": "grey"}, images, _rng())
    corner = whole.train.inputs[:, [0, 1, 4, 5], 0].mean(axis=1)
    assert made.train.inputs.shape == (12, 4, 1)
    assert made.train.inputs[:, 0, 0] == pytest.approx(corner)


ROWS = {"task": "rows_then_noise", "dataset": "colour", "time_steps": 10}


def test_a_row_is_red_then_green_then_blue(images):
    made = make_task(ROWS, images, _rng())
    first = made.train.inputs[0] * 255
    assert made.train.inputs.shape == (12, 10, 12)
    start = first[0, 0]  # which image comes first is the data set's choice
    row = start + np.array([[0, 1, 2, 3], [100, 101, 102, 103], [200, 201, 202, 203]])
    assert first[0] == pytest.approx(row.ravel() % 256, abs=1e-3)
    assert first[1] == pytest.approx((row + 4).ravel() % 256, abs=1e-3)


def test_noise_is_one_block_or_fresh(images):
    shared, fresh = (make_task(ROWS | {"block": b}, images, _rng()) for b in ("shared", "fresh"))
    for task, blocks in ((shared, 1), (fresh, 24)):
        noise = np.concatenate([task.train.inputs, task.test.inputs])[:, 4:]
        assert len(np.unique(noise.reshape(24, -1), axis=0)) == blocks
    assert np.array_equal(shared.train.inputs[:, :4], fresh.train.inputs[:, :4])


def test_a_block_that_follows_all_sequences_is_held_once(images):
    made = make_task(ROWS, images, np.random.default_rng(0))
    part, whole = made.train, made.train.inputs
    rows, row = 4, 4 * 3  # of an image, and numbers in one
    assert part.nbytes == part.targets.nbytes + 4 * row * (rows * len(part) + 10 - rows)
    assert whole.shape == (len(part), part.time_steps, made.features) == (len(part), 10, row)
    taken = part.take(np.array([2, 0]))
    assert np.array_equal(taken.inputs, whole[[2, 0]])
    assert np.array_equal(taken.targets, part.targets[[2, 0]])


@pytest.mark.parametrize(
    ("law", "mean", "deviation"), [("normal", 0, 1), ("uniform", 0.5, 12**-0.5)]
)
def test_the_noise_follows_its_law(images, law, mean, deviation):
    spec = ROWS | {"law": law, "block": "fresh", "time_steps": 500}
    noise = make_task(spec, images, _rng()).train.inputs[:, 4:]
    assert noise.mean() == pytest.approx(mean, abs=0.02)
    assert noise.std() == pytest.approx(deviation, abs=0.02)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"block": "none"}, "unknown block 'none'; known: shared, fresh"),
        ({"law": "cauchy"}, "unknown law 'cauchy'; known: normal, uniform"),
        ({"time_steps": 3}, "colour: expected at least 4 time steps, its rows, got 3"),
    ],
)
def test_rows_that_cannot_be_made_are_refused(images, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_task(ROWS | change, images, _rng())


# ------------------------------------------------------------------------------- series


@pytest.fixture
def waves(tmp_path):
    """Series whose inputs tell their place, 0..19, and whose targets their number."""
    inputs = np.tile(np.arange(20.0)[None, :, None], (6, 1, 2))
    inputs[:, :, 1] = np.arange(6)[:, None]
    targets = np.arange(6.0)[:, None]
    parts = [(inputs[k], targets[k]) for k in (slice(0, 4), slice(4, 5), slice(5, 6))]
    ds = prepared_dataset(
        "waves",
        parts[0],
        parts[2],
        validation=parts[1],
        kind="series",
        target="value",
        source="made up",
        outputs=1,
    )
    save_prepared(ds, tmp_path)
    return tmp_path


def _waves(waves, **settings):
    return make_task({"task": "series", "dataset": "waves"} | settings, waves, _rng())


def test_series_keep_every_so_manieth_and_the_last_steps(waves):
    made = _waves(waves, every=4, steps=3)
    for part in (made.train, made.validation, made.test):
        assert (part.inputs[:, :, 0] == [8, 12, 16]).all()
        assert np.array_equal(part.inputs[:, 0, 1], part.targets[:, 0])
    assert _waves(waves).train.inputs.shape == (4, 20, 2)


def test_random_steps_are_in_order_and_differ_between_series(waves):
    made = _waves(waves, keep="random", steps=8)
    places = made.train.inputs[:, :, 0]
    assert (np.diff(places, axis=1) > 0).all()
    assert len(np.unique(places, axis=0)) == 4
    assert np.array_equal(made.train.inputs[:, 0, 1], made.train.targets[:, 0])


def test_centred_targets_keep_their_differences(waves):
    plain, centred = _waves(waves), _waves(waves, centred=True)
    assert abs(centred.train.targets.mean()) < 1e-6
    for part in ("train", "validation", "test"):
        off = getattr(plain, part).targets - getattr(centred, part).targets
        assert np.allclose(off, plain.train.targets.mean())
    assert centred.guess(centred.test)[1] == pytest.approx(plain.guess(plain.test)[1])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"steps": 21}, "waves: 21 steps to be kept, there are 20"),
        ({"keep": "first"}, "unknown steps to keep 'first'; known: last, random"),
        ({"every": 0}, "expected to keep every step or fewer.*got every=0"),
        (
            {"validation_size": 1},
            "waves has a validation part of its own; leave validation_size out",
        ),
    ],
)
def test_series_that_cannot_be_made_are_refused(waves, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        _waves(waves, **settings)


# ------------------------------------------------------------------------------- language models


@pytest.fixture
def stream(tmp_path):
    letters = [chr(97 + k % 7) for k in range(500)]
    save_prepared(
        stream_dataset("letters", letters, letters[:200], letters[:100], "made up"), tmp_path
    )
    return tmp_path


def test_a_stream_is_cut_anew_and_every_target_is_the_next_token(stream):
    made = make_task({"task": "language", "dataset": "letters", "time_steps": 13}, stream, _rng())
    assert (made.vocabulary_size, made.outputs, made.target) == (7, 7, "steps")
    assert made.train.inputs.shape == made.train.targets.shape == (34, 13)
    inputs, targets = made.train.inputs.ravel(), made.train.targets.ravel()
    assert np.array_equal(inputs[1:], targets[:-1])
    period = inputs[:7]
    assert sorted(period.tolist()) == list(range(7))
    assert np.array_equal(inputs, np.resize(period, inputs.shape))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"time_steps": 100}, "letters test: 1 pieces of 100 tokens asked for, there are 0"),
        ({"time_steps": 10, "train_size": 99}, "letters train: 99 pieces of 10 .* there are 4"),
    ],
)
def test_pieces_that_are_not_there_are_refused(stream, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_task({"task": "language", "dataset": "letters"} | settings, stream, _rng())


def test_a_stream_with_an_unknown_token_is_refused():
    with pytest.raises(
        ValueError, match=r"odd: the test part has 'z', which the training part has"
    ):
        stream_dataset("odd", list("ab" * 50), list("ab" * 50), list("az" * 50), "made up")


def test_cutting_leaves_an_incomplete_row_out():
    inputs, targets = cut(np.arange(8), 3)
    assert (inputs.tolist(), targets.tolist()) == ([[0, 1, 2], [3, 4, 5]], [[1, 2, 3], [4, 5, 6]])


# ------------------------------------------------------------------------------- texts


@pytest.fixture
def reviews(tmp_path):
    inputs = np.array([[0, 0, 1, 5], [1, 7, 6, 5], [0, 1, 4, 4], [0, 0, 0, 1]])
    part = inputs, np.arange(4) % 2
    ds = prepared_dataset(
        "reviews",
        part,
        part,
        kind="tokens",
        source="made up",
        outputs=2,
        valid_max=7,
        vocabulary_size=8,
    )
    save_prepared(with_vectors(ds, {"glove": np.arange(16.0).reshape(8, 2)}), tmp_path)
    return tmp_path


def test_texts_bring_the_vectors_of_their_words(reviews):
    spec = {"task": "texts", "dataset": "reviews"}
    assert make_task(spec, reviews, _rng()).vectors is None
    made = make_task(spec | {"vectors": "glove"}, reviews, _rng())
    assert made.vectors[5].tolist() == [10, 11]
    with pytest.raises(ValueError, match=r"reviews has no vectors 'elmo'; it has glove"):
        make_task(spec | {"vectors": "elmo"}, reviews, _rng())


def test_texts_are_filled_in_front_or_behind(reviews):
    def rows(**settings):
        made = make_task({"task": "texts", "dataset": "reviews"} | settings, reviews, _rng())
        return set(map(tuple, made.test.inputs.tolist()))

    assert rows() == {(0, 0, 1, 5), (1, 7, 6, 5), (0, 1, 4, 4), (0, 0, 0, 1)}
    assert rows(filling="behind") == {(1, 5, 0, 0), (1, 7, 6, 5), (1, 4, 4, 0), (1, 0, 0, 0)}
    assert rows(filling="behind", words=2) == {(1, 5), (6, 5), (4, 4), (1, 0)}
    with pytest.raises(ValueError, match="unknown filling 'middle'; known: front, behind"):
        rows(filling="middle")


def test_texts_and_series_do_not_mix(reviews, stream):
    with pytest.raises(ValueError, match=r"reviews: expected series with one target each, got tok"):
        make_task({"task": "series", "dataset": "reviews"}, reviews, _rng())
    with pytest.raises(
        ValueError, match=r"letters: expected texts with one target each, got tokens"
    ):
        make_task({"task": "texts", "dataset": "letters"}, stream, _rng())
    with pytest.raises(ValueError, match=r"reviews: expected tokens with a target at every step"):
        make_task({"task": "language", "dataset": "reviews", "time_steps": 2}, reviews, _rng())
