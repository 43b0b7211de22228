"""Tasks of chapter 2 and of UnICORNN's, LEM's and iRNN's experiments: what their sequences hold, and what they refuse."""

import numpy as np
import pytest
import torch

from lib.tasks import make_task
from lib.tasks.copying import draw_copies, memoryless
from lib.tasks.fast_slow import trajectories
from lib.tasks.language import cut
from lib.tasks.long_time_gap import draw_signs
from lib.tasks.permutations import PERMUTATIONS, torch_permutation
from lib.tasks.prepared import prepared_dataset, save_prepared
from lib.tasks.sources.texts import stream
from lib.training.model import cross_entropy, likeliest


def _rng(seed=0):
    return np.random.default_rng(seed)


def _made(folder, task, dataset, **settings):
    return make_task({"task": task, "dataset": dataset} | settings, folder, _rng())


# ------------------------------------------------------------------------------- long time gaps


@pytest.mark.parametrize("place", [1, 23, 40])
def test_the_label_is_the_sign_at_the_place(place):
    part = draw_signs(place, 40, 400, _rng())
    assert part.inputs.shape == (400, 40, 1) and part.inputs.dtype == np.float32
    assert part.targets.shape == (400,) and part.targets.dtype == np.int64
    assert set(np.unique(part.inputs)) == {-1, 1}
    # Places count from 1: u_23 is the array's entry 22.
    assert np.array_equal(part.targets, (part.inputs[:, place - 1, 0] + 1) / 2)


def test_signs_are_fair_independent_and_the_generators():
    signs = draw_signs(23, 40, 4000, _rng()).inputs[:, :, 0].astype(float)
    bound = 5 / np.sqrt(len(signs))  # five standard errors of a mean of signs
    assert np.abs(signs.mean(axis=0)).max() < bound
    assert np.abs(signs.T @ signs / len(signs) - np.eye(40)).max() < bound
    rng = _rng(3)
    first, second = (draw_signs(23, 40, 10, rng).inputs for _ in range(2))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, draw_signs(23, 40, 10, _rng(3)).inputs)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((0, 40, 4), r"expected the deciding input among 1..40, got 0"),
        ((41, 40, 4), r"expected the deciding input among 1..40, got 41"),
        ((1, 40, 0), "expected a positive size, got 0"),
        ((1, 0, 4), "expected a positive time_steps, got 0"),
    ],
)
def test_bad_sizes_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        draw_signs(*wrong, _rng())


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
    error = np.sqrt(np.mean((author.targets[:, 1:] - straight) ** 2))
    assert error == pytest.approx(0.028, abs=1e-3)


def test_fast_slow_as_a_task():
    sizes = {"train_size": 3, "validation_size": 2, "test_size": 4}
    made = make_task({"task": "fast_slow", "time_steps": 20} | sizes, None, _rng())
    shapes = [part.inputs.shape for part in (made.train, made.validation, made.test)]
    assert shapes == [(3, 20, 1), (2, 20, 1), (4, 20, 1)]
    assert (made.target, made.outputs, made.features, made.classifies) == ("steps", 1, 1, False)


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
    with pytest.raises(ValueError, match="expected a positive delay and size, got 0 and 3"):
        draw_copies(0, 3, _rng())


@pytest.mark.parametrize(("delay", "printed"), [(200, 0.0945), (500, 0.0400)])
def test_guessing_the_copy_costs_what_the_text_says(delay, printed):
    part = draw_copies(delay, 500, _rng())
    loss, accuracy = make_task({"task": "copying", "delay": delay}, None, _rng()).guess(part)
    assert loss == pytest.approx(printed, abs=5e-5)
    probabilities = np.zeros((delay + 20, 9))
    probabilities[:-10, 0] = 1
    probabilities[-10:, 1:] = 1 / 8
    chosen = probabilities[np.arange(delay + 20), part.targets]
    assert (loss, accuracy) == memoryless(delay)
    assert -np.log(chosen).mean() == pytest.approx(loss)
    assert chosen.mean() == pytest.approx(accuracy)


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
    places = PERMUTATIONS[name](784)
    assert places[:5].tolist() == first
    assert np.array_equal(np.sort(places), np.arange(784))


@pytest.mark.parametrize(("length", "seed"), [(784, 5544), (7949, 123456), (1, 0), (2, 7)])
def test_permutations_are_those_of_torch(length, seed):
    drawn = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
    assert torch_permutation(length, seed).tolist() == drawn.tolist()


# ------------------------------------------------------------------------------- images


@pytest.fixture
def images(tmp_path):
    """Images of 4 x 4 pixels, three channels; image n has the value 100 c + 16 n' + place in channel c, modulo 256."""
    base = np.arange(16)[None, :, None] + 100 * np.arange(3) + np.arange(12)[:, None, None]
    about = {"kind": "pixels", "source": "made up", "outputs": 2, "valid_max": 255}
    for name, channels in (("colour", 3), ("grey", 1)):
        part = base[:, :, :channels].astype(np.uint8), np.arange(12) % 2
        save_prepared(prepared_dataset(name, part, part, **about), tmp_path)
    return tmp_path


def test_pixels_in_the_order_of_a_program_pooled_or_standardised(images):
    plain = _made(images, "pixels", "grey")
    moved = _made(images, "pixels", "grey", order="lem")
    places = torch_permutation(16, 5544)
    for part in ("train", "test"):
        assert np.array_equal(getattr(moved, part).inputs, getattr(plain, part).inputs[:, places])
    pooled = _made(images, "pixels", "grey", pool=2)
    assert pooled.train.inputs.shape == (12, 4, 1)
    corner = plain.train.inputs[:, [0, 1, 4, 5], 0].mean(axis=1)
    assert pooled.train.inputs[:, 0, 0] == pytest.approx(corner)
    made = _made(images, "pixels", "grey", standardised=True, validation_size=4)
    assert abs(made.train.inputs.mean()) < 1e-5
    assert made.train.inputs.std() == pytest.approx(1, abs=1e-5)
    assert made.kind == "series"


def test_a_validation_part_is_taken_out_of_the_training_part(images):
    whole = _made(images, "pixels", "grey")
    made = _made(images, "pixels", "grey", validation_size=4)
    both = np.concatenate([made.train.inputs, made.validation.inputs])
    assert np.array_equal(both, whole.train.inputs)
    assert np.bincount(made.validation.targets).tolist() == [2, 2]


def test_a_row_is_red_then_green_then_blue(images):
    made = _made(images, "rows_then_noise", "colour", time_steps=10)
    first = made.train.inputs[0] * 255
    assert made.train.inputs.shape == (12, 10, 12)
    start = first[0, 0]  # which image comes first is the data set's choice
    row = start + np.array([[0, 1, 2, 3], [100, 101, 102, 103], [200, 201, 202, 203]])
    assert first[0] == pytest.approx(row.ravel() % 256, abs=1e-3)
    assert first[1] == pytest.approx((row + 4).ravel() % 256, abs=1e-3)


def test_noise_is_one_block_or_fresh(images):
    shared, fresh = (
        _made(images, "rows_then_noise", "colour", time_steps=10, block=block)
        for block in ("shared", "fresh")
    )
    for task, blocks in ((shared, 1), (fresh, 24)):
        noise = np.concatenate([task.train.inputs, task.test.inputs])[:, 4:]
        assert len(np.unique(noise.reshape(24, -1), axis=0)) == blocks
    assert np.array_equal(shared.train.inputs[:, :4], fresh.train.inputs[:, :4])
    # The block that follows all sequences is held once.
    part, whole = shared.train, shared.train.inputs
    rows, row = 4, 4 * 3  # of an image, and numbers in one
    assert part.nbytes == part.targets.nbytes + 4 * row * (rows * len(part) + 10 - rows)
    assert whole.shape == (len(part), part.time_steps, shared.features) == (len(part), 10, row)
    taken = part.take(np.array([2, 0]))
    assert np.array_equal(taken.inputs, whole[[2, 0]])
    assert np.array_equal(taken.targets, part.targets[[2, 0]])


@pytest.mark.parametrize(
    ("law", "mean", "deviation"), [("normal", 0, 1), ("uniform", 0.5, 12**-0.5)]
)
def test_the_noise_follows_its_law(images, law, mean, deviation):
    settings = {"law": law, "block": "fresh", "time_steps": 500}
    noise = _made(images, "rows_then_noise", "colour", **settings).train.inputs[:, 4:]
    assert noise.mean() == pytest.approx(mean, abs=0.02)
    assert noise.std() == pytest.approx(deviation, abs=0.02)


# ------------------------------------------------------------------------------- series


@pytest.fixture
def waves(tmp_path):
    """Series whose inputs tell their place, 0..19, and whose targets their number."""
    inputs = np.tile(np.arange(20.0)[None, :, None], (6, 1, 2))
    inputs[:, :, 1] = np.arange(6)[:, None]
    targets = np.arange(6.0)[:, None]
    train, validation, test = (
        (inputs[k], targets[k]) for k in (slice(0, 4), slice(4, 5), slice(5, 6))
    )
    about = {"kind": "series", "target": "value", "source": "made up", "outputs": 1}
    save_prepared(prepared_dataset("waves", train, test, validation=validation, **about), tmp_path)
    return tmp_path


def test_series_keep_every_so_manieth_and_the_last_steps(waves):
    for settings in ({"steps": 3}, {"share": 0.6}):
        made = _made(waves, "series", "waves", every=4, **settings)
        for part in (made.train, made.validation, made.test):
            assert (part.inputs[:, :, 0] == [8, 12, 16]).all()
            assert np.array_equal(part.inputs[:, 0, 1], part.targets[:, 0])
    assert _made(waves, "series", "waves").train.inputs.shape == (4, 20, 2)


def test_random_steps_are_in_order_and_differ_between_series(waves):
    made = _made(waves, "series", "waves", keep="random", steps=8)
    places = made.train.inputs[:, :, 0]
    assert (np.diff(places, axis=1) > 0).all()
    assert len(np.unique(places, axis=0)) == 4
    assert np.array_equal(made.train.inputs[:, 0, 1], made.train.targets[:, 0])


def test_centred_targets_keep_their_differences(waves):
    plain, centred = (_made(waves, "series", "waves", centred=c) for c in (False, True))
    assert abs(centred.train.targets.mean()) < 1e-6
    for part in ("train", "validation", "test"):
        off = getattr(plain, part).targets - getattr(centred, part).targets
        assert np.allclose(off, plain.train.targets.mean())
    assert centred.guess(centred.test)[1] == pytest.approx(plain.guess(plain.test)[1])


# ------------------------------------------------------------------------------- texts and streams


@pytest.fixture
def letters(tmp_path):
    text = [chr(97 + k % 7) for k in range(500)]
    about = {"kind": "tokens", "target": "steps", "source": "made up"}
    ds = prepared_dataset("letters", **stream(text, text[:200], text[:100]), **about)
    save_prepared(ds, tmp_path)
    return tmp_path


@pytest.fixture
def reviews(tmp_path):
    inputs = np.array([[0, 0, 1, 5], [1, 7, 6, 5], [0, 1, 4, 4], [0, 0, 0, 1]])
    part = inputs, np.arange(4) % 2
    about = {"kind": "tokens", "source": "made up", "outputs": 2}
    about |= {"valid_max": 7, "vocabulary_size": 8}
    vectors = {"glove": np.arange(16.0).reshape(8, 2)}
    save_prepared(prepared_dataset("reviews", part, part, **about, vectors=vectors), tmp_path)
    return tmp_path


def test_a_stream_is_cut_anew_and_every_target_is_the_next_token(letters):
    made = _made(letters, "language", "letters", time_steps=13)
    assert (made.vocabulary_size, made.outputs, made.target) == (7, 7, "steps")
    assert made.train.inputs.shape == made.train.targets.shape == (34, 13)
    inputs, targets = made.train.inputs.ravel(), made.train.targets.ravel()
    assert np.array_equal(inputs[1:], targets[:-1])
    period = inputs[:7]
    assert sorted(period.tolist()) == list(range(7))
    assert np.array_equal(inputs, np.resize(period, inputs.shape))
    few = _made(letters, "language", "letters", time_steps=13, train_size=2, test_size=1)
    assert np.array_equal(few.train.inputs, made.train.inputs[:2])
    assert len(few.test) == 1


def test_streams_that_are_cut_or_unknown_are_refused():
    inputs, targets = cut(np.arange(8), 3)
    assert (inputs.tolist(), targets.tolist()) == ([[0, 1, 2], [3, 4, 5]], [[1, 2, 3], [4, 5, 6]])
    with pytest.raises(ValueError, match=r"the test part has 'z', which the training part lacks"):
        stream(list("ab" * 50), list("ab" * 50), list("az" * 50))
    with pytest.raises(ValueError, match=r"more than 50 tokens in the validation part, got 2"):
        stream(list("ab" * 50), list("ab"), list("ab" * 50))


def test_texts_bring_the_vectors_of_their_words(reviews):
    assert _made(reviews, "texts", "reviews").vectors is None
    assert _made(reviews, "texts", "reviews", vectors="glove").vectors[5].tolist() == [10, 11]


def test_texts_are_filled_in_front_or_behind(reviews):
    def rows(**settings):
        made = _made(reviews, "texts", "reviews", **settings)
        return set(map(tuple, made.test.inputs.tolist()))

    assert rows() == {(0, 0, 1, 5), (1, 7, 6, 5), (0, 1, 4, 4), (0, 0, 0, 1)}
    assert rows(filling="behind") == {(1, 5, 0, 0), (1, 7, 6, 5), (1, 4, 4, 0), (1, 0, 0, 0)}
    assert rows(filling="behind", words=2) == {(1, 5), (6, 5), (4, 4), (1, 0)}


@pytest.mark.parametrize(
    ("task", "dataset", "settings", "sentence"),
    [
        ("pixels", "grey", {"validation_size": 12}, "grey: expected a validation part of 1 to 11"),
        ("pixels", "grey", {"pool": 3}, "grey: a side of 4 pixels is no multiple of 3"),
        ("pixels", "waves", {"pool": 2}, "waves: expected square images, .* got series"),
        ("padded_rows", "colour", {"padding": 1}, "colour: expected images of one channel, got 3"),
        ("rows_then_noise", "colour", {"time_steps": 3}, "colour: expected at least 4 time steps"),
        ("rows_then_noise", "waves", {}, "waves: expected square images, .* got series"),
        ("series", "waves", {"steps": 21}, "waves: 21 steps to be kept, there are 20"),
        ("series", "waves", {"steps": 2, "share": 0.5}, "steps or share to keep, not both"),
        ("series", "waves", {"validation_size": 1}, "waves has a validation part of its own; lea"),
        ("series", "reviews", {}, "reviews: expected series with one target each, got tokens"),
        ("series", "letters", {}, "letters: expected series with one target each, got tokens"),
        ("texts", "letters", {}, "letters: expected texts with one target each, got tokens"),
        ("texts", "reviews", {"vectors": "elmo"}, "reviews has no vectors 'elmo'; it has glove"),
        ("dataset", "grey", {"words": 3}, "grey: expected texts to keep 3 words of, got pixels"),
        ("language", "reviews", {"time_steps": 2}, "reviews: expected tokens with a target at ev"),
        ("language", "letters", {"time_steps": 100}, "test: 1 pieces of 100 tokens .* are 0"),
        ("language", "letters", {"time_steps": 10, "train_size": 99}, "99 pieces .* there are 4"),
    ],
)
def test_data_that_do_not_fit_a_task_are_refused(task, dataset, settings, sentence, request):
    fixture = {"grey": "images", "colour": "images"}.get(dataset, dataset)
    with pytest.raises(ValueError, match=sentence):
        _made(request.getfixturevalue(fixture), task, dataset, **settings)


# ------------------------------------------------------------------------------- one output for two classes


def test_one_output_is_the_log_odds_of_two():
    logits, classes = torch.randn(7, 2), torch.arange(7) % 2
    odds = (logits[:, 1] - logits[:, 0])[:, None]
    for reduction in ("mean", "sum"):
        two, one = (cross_entropy(of, classes, reduction) for of in (logits, odds))
        assert torch.allclose(one, two)
    assert torch.equal(likeliest(odds), likeliest(logits))
