"""Prepared data in memory, the tasks made of them or drawn, and what a task's settings may say."""

import numpy as np
import pytest
import torch
import xarray as xr
from refusals import refused
from scipy.integrate import solve_ivp
from study.results.netcdf import ResultsError, write_netcdf
from study.tasks import Split, Task, check_task, find_maker, load_prepared, make_task
from study.tasks import variations as variations_module
from study.tasks.fast_slow import trajectories
from study.tasks.permutations import PERMUTATIONS, torch_permutation
from study.tasks.prepared import FIRST_WORD, load_file, prepared_dataset, save_prepared
from study.tasks.sources.streams import stream
from study.tasks.variations import noise_mask, vary
from study.training.scores import cross_entropy, predicted_classes


def _rng(seed=0):
    return np.random.default_rng(seed)


def _counting(length, noise_inputs, n=3, features=1):
    """Pixels whose value tells their place: 10, 11, 12, ... lie outside the noise's range."""
    positions = np.arange(10, 10 + length, dtype=np.float32)
    part = Split(np.tile(positions[None, :, None], (n, 1, features)), np.zeros(n, int))
    about = {"kind": "pixels", "target": "class", "outputs": 1}
    return Task(name="counting", **about, noise_inputs=noise_inputs, train=part, test=part)


def _tokens(length=20, noise_inputs=500, n=4):
    part = Split(np.full((n, length), 7), np.zeros(n, int))
    about = {"kind": "tokens", "target": "class", "outputs": 1, "vocabulary_size": 12}
    return Task(name="words", **about, noise_inputs=noise_inputs, train=part, test=part)


def test_permutation_is_shared_and_noise_is_not():
    author = np.random.RandomState(92916).permutation(50)
    settings = {"order": "permuted", "noise": "post", "permutation": "exprnn"}
    actual = [vary(_counting(50, 10), _rng(seed), **settings).test.inputs for seed in (0, 1)]
    rows = np.concatenate(actual)[:, :, 0]
    assert (rows[:, :50] - 10 == author).all()
    assert len(np.unique(rows[:, 50:], axis=0)) == len(rows)


SPREAD = [(1, 1), (1, 5), (7, 3), (64, 82), (784, 1000), (9, 9), (5, 0)]


@pytest.mark.parametrize(("length", "noise_inputs"), SPREAD)
def test_uniform_noise_is_distributed_by_both_rules(length, noise_inputs):
    signal_steps = np.flatnonzero(~noise_mask(length, noise_inputs, "uniform"))
    after = np.diff([*signal_steps, length + noise_inputs]) - 1
    upto = [i * noise_inputs // length for i in range(length + 1)]
    assert after.tolist() == np.diff(upto).tolist()
    actual = noise_mask(length, noise_inputs, "uniform", "bresenham")
    assert actual.tolist() == list(_interleaved(length, noise_inputs))


def _interleaved(length, noise_inputs):
    """Bresenham's rule step by step, as more_itertools.interleave_evenly has it: True for noise."""
    longer = max(length, noise_inputs)
    shorter = min(length, noise_inputs)
    error = longer // 2
    noise_is_longer = noise_inputs > length
    for _ in range(longer):
        yield noise_is_longer
        error -= shorter
        if error < 0:
            yield not noise_is_longer
            error += longer


def test_noise_is_uniform_over_data_range():
    noise = vary(_counting(1, 20_000, n=1, features=3), _rng(), noise="post").train.inputs[0, 1:]
    assert noise.dtype == np.float32 and noise.min() >= 0 and noise.max() < 1
    shares = np.histogram(noise, bins=10, range=(0, 1))[0] / noise.size
    assert np.abs(shares - 0.1).max() < 0.01
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.05, "features share their noise"
    data = _tokens(noise_inputs=5000)
    noise = vary(data, _rng(), noise="post").train.inputs[:, 20:]
    assert noise.dtype == np.int64
    shares = np.bincount(noise.ravel(), minlength=data.vocabulary_size) / noise.size
    assert not shares[:FIRST_WORD].any() and len(shares) == data.vocabulary_size
    assert np.abs(shares[FIRST_WORD:] - 1 / 9).max() < 0.01


@pytest.mark.parametrize("spread", ["floor", "bresenham"])
@pytest.mark.parametrize("data", [_counting(6, 9, n=5, features=3), _tokens(n=5)])
def test_variations_follow_the_seed_and_keep_the_data(data, spread, monkeypatch):
    before = data.train.inputs.copy()
    settings = {"order": "permuted", "noise": "uniform", "spread": spread}
    first, again, other = (vary(data, _rng(s), **settings).test.inputs for s in (1, 1, 2))
    assert first.tobytes() == again.tobytes()
    assert first.shape[1:] == (before.shape[1] + data.noise_inputs, *before.shape[2:])
    assert not np.array_equal(first, other)
    monkeypatch.setattr(variations_module, "ROWS", 2)  # a few rows at a time change nothing
    assert np.array_equal(vary(data, _rng(1), **settings).test.inputs, first)
    assert np.array_equal(data.train.inputs, before)


BAD_TASKS = [
    ({"task": "adding", "time_steps": -3}, "time_steps is -3; .* than or equal to 2"),
    ({"task": "adding", "time_steps": True}, "time_steps is True; .* integer"),
    ({"task": "adding", "time_steps": 20, "tau": 1}, "unknown parameter task adding.tau"),
    ({"task": "adding"}, "task adding.time_steps is missing"),
    ({"task": "long_time_gap", "place": 30, "time_steps": 20}, "place in 1..20, .* got 30"),
    ({"task": "fast_slow", "solver": "euler"}, "solver is 'euler'; .* 'author' or 'exact'"),
    ({"task": "series", "dataset": "../x"}, "dataset is '../x'; string should match"),
    ({"task": "pixels", "dataset": "x", "order": "irnn"}, "order is 'irnn'; .* 'exprnn'"),
    ({"task": "summing"}, "unknown task 'summing'; known: adding, copying"),
    ({"task": {"series": 1}}, "expected a task's name and its settings, .* got {'task': {'"),
    (None, "expected a task's name and its settings"),
]

test_a_task_that_cannot_be_made_is_refused = refused(
    ValueError, *((sentence, lambda spec=spec: check_task(spec)) for spec, sentence in BAD_TASKS)
)


def test_drawn_tasks_need_no_data():
    spec = {"task": "long_time_gap", "place": 5, "time_steps": 5}
    assert find_maker(spec).draws and not find_maker({"task": "fast_slow"}).draws
    made = make_task(spec, None, _rng())
    assert (made.name, made.train, made.test, made.classifies) == ("LTG5", None, None, True)
    copying = make_task({"task": "copying", "delay": 200}, None, _rng())
    # Blanks, then guesses.
    costs = pytest.approx((10 * np.log(8) / 220, (210 + 10 / 8) / 220))
    assert copying.guess(copying.draw(2, _rng())) == costs


def _pixels(counts=(30, 10), **changes):
    """A data set with counts[k] sequences of class k, sorted; the last two values are the class."""
    labels = np.repeat(np.arange(len(counts)), counts)
    inputs = _rng().integers(0, 17, (len(labels), 6, 1))
    inputs[0, 0] = 0
    inputs[0, 1] = 16
    inputs[:, 4:, 0] = labels[:, None]
    settings = {"kind": "pixels", "source": "made up", "outputs": len(counts), "valid_max": 16}
    test = (inputs[:8], labels[:8])
    return prepared_dataset("made_up", (inputs, labels), test, **(settings | changes))


def test_pixels_are_scaled_and_keep_labels(tmp_path):
    ds = _pixels()
    paths = [save_prepared(ds, tmp_path / name) for name in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert list((tmp_path / "a").iterdir()) == [paths[0]]
    data = load_prepared(paths[0])
    assert (data.train.inputs.dtype, data.train.targets.dtype) == (np.float32, np.int64)
    assert (data.train.inputs.min(), data.train.inputs.max()) == (0, 1)
    assert (data.features, data.outputs, data.vocabulary_size, data.noise_inputs) == (1, 2, 0, 1000)
    stored = ds["inputs"].values[ds["split"].values == 0] / np.float32(16)
    assert sorted(map(bytes, data.train.inputs)) == sorted(map(bytes, stored.astype(np.float32)))
    assert np.array_equal(data.train.inputs[:, 5, 0] * 16, data.train.targets)


@pytest.mark.parametrize("size", [0, 4, 20, 40])
def test_subsets_keep_class_proportions_and_order(tmp_path, size):
    path = save_prepared(_pixels((30, 10)), tmp_path)
    data = load_prepared(path, size, 0)
    labels = data.train.targets
    assert len(labels) == (size or 40)
    for end in range(1, len(labels) + 1):
        assert abs((labels[:end] == 0).sum() - 0.75 * end) <= 1
    assert np.array_equal(load_prepared(path).train.inputs[: len(labels)], data.train.inputs)
    with pytest.raises(
        ValueError, match=r"made_up train: expected at most 40 sequences, got 41; use 0"
    ):
        load_prepared(path, 41, 0)


def test_unreadable_prepared_files_are_refused(tmp_path):
    path = save_prepared(_pixels((300, 100)), tmp_path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    write_netcdf(xr.Dataset({"x": ("t", [1.0])}), tmp_path / "other.nc", {})
    for read, name, sentence in (
        (load_prepared, "digits", r"no prepared data at .*digits.nc, .*; build them with"),
        (load_file, "made_up", "made_up.nc has no seal: it was cut"),
        (load_file, "other", "schema 'prepared/2', got None; run notebook 00 again"),
    ):
        with pytest.raises(ResultsError, match=sentence):
            read(tmp_path / f"{name}.nc")


GOOD = np.zeros((2, 2, 1)), np.zeros((2, 2))
NONE = GOOD[0][:0], GOOD[1][:0]


def _brightness(value):
    return np.full((4, 4, 1), value)


def _images(inputs=None, target=0, outputs=50_000):
    if inputs is None:
        inputs = _brightness(1)
    part = (inputs, np.full(4, target))
    about = {"kind": "pixels", "outputs": outputs, "valid_max": 255, "source": "made up"}
    return prepared_dataset("made_up", part, part, **about)


def _token_set(valid_max, **about):
    part = np.zeros((2, 3), int), np.zeros(2, int)
    about |= {"kind": "tokens", "outputs": 1, "valid_max": valid_max, "source": "made up"}
    return prepared_dataset("made_up", part, part, **about)


def _two_parts(*sizes):
    parts = [(np.zeros((n, 4, 1), np.uint8), np.zeros(labels, int)) for n, labels in sizes]
    return prepared_dataset("made_up", *parts, kind="pixels", outputs=1, valid_max=1, source="x")


def _series(train, test=GOOD, outputs=2):
    about = {"kind": "series", "target": "value", "source": "made up", "outputs": outputs}
    return lambda: prepared_dataset("made_up", train, test, **about)


test_schema_violations_are_not_written = refused(
    ResultsError,
    ("expected pixels, tokens or series, .* got 'sounds'", lambda: _pixels(kind="sounds")),
    ("a class .*, a value .* or steps .*, got .* 'word'", lambda: _pixels(target="word")),
    ("expected classes 0..0, got 0..1", lambda: _pixels(outputs=1)),
    ("expected inputs 0..15, got 0..16", lambda: _pixels(valid_max=15)),
    ("up to 16 need a vocabulary of 17, got 9", lambda: _token_set(16, vocabulary_size=9)),
    ("made_up: the train split is empty", _series(NONE)),
    ("made_up: the test split is empty", _series(GOOD, NONE)),
    ("made_up: expected finite inputs, got 4 that are not", _series((GOOD[0] + np.inf, GOOD[1]))),
    ("made_up: expected finite targets, got 4 that are not", _series((GOOD[0], GOOD[1] + np.nan))),
    ("made_up: expected 3 numbers per target, got 2", _series(GOOD, outputs=3)),
    (
        "inputs that float32 can represent, got 4 that .* 1e\\+300",
        _series((GOOD[0] + 1e300, GOOD[1])),
    ),
    ("train split are masked", _series((np.ma.masked_equal(GOOD[0], 0), GOOD[1]))),
    (
        "expected inputs of one shape in all splits, got ..2,., .2, 1..",
        _series((GOOD[0][..., 0], GOOD[1])),
    ),
    (
        "inputs over .sample, time, feature., got the shape .4, 2.",
        _series((GOOD[0][..., 0], GOOD[1]), (GOOD[0][..., 0], GOOD[1])),
    ),
    ("as many inputs as targets in the train split, got 2 and 1", _series((GOOD[0], GOOD[1][:1]))),
    ("uint8 can represent, got 32 that it can.t, such as 0.5", lambda: _images(_brightness(0.5))),
    ("int16 can represent, got 8 that it can.t, such as 40000", lambda: _images(target=40_000)),
    ("train split, got 40 and 20", lambda: _two_parts((40, 20), (20, 40))),
)


def test_trajectories_solve_their_equations():
    part = trajectories(3, 50, _rng(), solver="exact")
    v = np.concatenate([part.inputs, part.targets[:, -1:]], axis=1)[..., 0].astype(float)
    assert np.array_equal(part.inputs[:, 1:], part.targets[:, :-1])
    assert v[:, 0] == pytest.approx(_rng().uniform(-1, 1, 3), abs=1e-6)
    how = {"t_eval": 0.4 * np.arange(1, 51), "rtol": 1e-10, "atol": 1e-10}
    for trajectory in v:
        state = solve_ivp(slope, (0, 20.1), [trajectory[0], 0], **how).y
        assert state[0] == pytest.approx(trajectory[1:], abs=2e-6)


def slope(_, s):
    return s[0] - s[0] ** 3 / 3 - s[1] + 0.5, 0.02 * (s[0] + 0.7 - 0.8 * s[1])


def test_error_of_the_authors_solver():
    author, exact = (trajectories(8, 1000, _rng(), solver=name) for name in ("author", "exact"))
    assert 0.02 < np.sqrt(np.mean((author.targets - exact.targets) ** 2)) < 0.07
    copied = np.sqrt(np.mean((author.targets - author.inputs) ** 2))
    assert copied == pytest.approx(0.079, abs=0.002)


@pytest.mark.parametrize(("length", "seed"), [(784, 5544), (7949, 123456), (1, 0), (2, 7)])
def test_permutations_equal_those_of_the_programs(length, seed):
    drawn = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
    assert torch_permutation(length, seed).tolist() == drawn.tolist()
    assert np.array_equal(PERMUTATIONS["lem"](length), torch_permutation(length, 5544))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make a task of one of five small prepared data sets."""
    folder = tmp_path_factory.mktemp("prepared")

    def save(name, *parts, **about):
        save_prepared(prepared_dataset(name, *parts, source="made up", **about), folder)

    # Images of 4 x 4 pixels; image n has the value 100 c + n + place in channel c, modulo 256.
    base = np.arange(16)[None, :, None] + 100 * np.arange(3) + np.arange(12)[:, None, None]
    for name, channels in (("color", 3), ("gray", 1)):
        part = base[:, :, :channels].astype(np.uint8), np.arange(12) % 2
        save(name, part, part, kind="pixels", outputs=2, valid_max=255)
    # Series whose inputs tell their place, 0..19, and their number, as their targets do.
    inputs = np.tile(np.arange(20.0)[None, :, None], (6, 1, 2))
    inputs[:, :, 1] = np.arange(6)[:, None]
    train, validation, test = (
        (inputs[k], np.arange(6.0)[k, None]) for k in (slice(0, 4), slice(4, 5), slice(5, 6))
    )
    about = {"kind": "series", "target": "value", "outputs": 1}
    save("waves", train, test, validation=validation, **about)
    text = [chr(97 + k % 7) for k in range(500)]
    save("letters", **stream(text, text[:200], text[:100]), kind="tokens", target="steps")
    inputs = np.array([[0, 0, 1, 5], [1, 7, 6, 5], [0, 1, 4, 4], [0, 0, 0, 1]])
    about = {"kind": "tokens", "outputs": 2, "valid_max": 7, "vocabulary_size": 8}
    vectors = {"glove": np.arange(16.0).reshape(8, 2)}
    save("reviews", *[(inputs, np.arange(4) % 2)] * 2, **about, vectors=vectors)

    def make(task, dataset, **settings):
        return make_task({"task": task, "dataset": dataset} | settings, folder, _rng())

    return make


def test_pixels_are_ordered_pooled_or_standardized(made):
    plain = made("pixels", "gray")
    moved = made("pixels", "gray", order="lem")
    positions = torch_permutation(16, 5544)
    for one, other in ((moved.train, plain.train), (moved.test, plain.test)):
        assert np.array_equal(one.inputs, other.inputs[:, positions])
    pooled = made("pixels", "gray", pool=2).train.inputs
    assert pooled.shape == (12, 4, 1)
    assert pooled[:, 0, 0] == pytest.approx(plain.train.inputs[:, [0, 1, 4, 5], 0].mean(axis=1))
    task = made("pixels", "gray", standardised=True, validation_size=4)
    shares = task.train.inputs.mean(), task.train.inputs.std()
    assert shares == pytest.approx((0, 1), abs=1e-5) and task.kind == "series"
    dataset = made("pixels", "gray", validation_size=4)
    both = np.concatenate([dataset.train.inputs, dataset.validation.inputs])
    assert np.array_equal(both, plain.train.inputs)
    assert np.bincount(dataset.validation.targets).tolist() == [2, 2]


def test_channels_of_rows_and_kinds_of_noise(made):
    how = "rows_then_noise", "color"
    shared, fresh = (made(*how, time_steps=10, block=block) for block in ("shared", "fresh"))
    first = shared.train.inputs[0] * 255
    start = first[0, 0]  # which image comes first is the data set's choice
    row = start + np.array([[0, 1, 2, 3], [100, 101, 102, 103], [200, 201, 202, 203]])
    for k in (0, 1):
        assert first[k] == pytest.approx((row + 4 * k).ravel() % 256, abs=1e-3)
    for task, blocks in ((shared, 1), (fresh, 24)):
        noise = np.concatenate([task.train.inputs, task.test.inputs])[:, 4:]
        assert len(np.unique(noise.reshape(24, -1), axis=0)) == blocks
    assert np.array_equal(shared.train.inputs[:, :4], fresh.train.inputs[:, :4])
    part = shared.train
    whole = shared.train.inputs  # the block that follows all is held once
    assert part.heads.size + part.tail.size == 12 * (4 * len(part) + 6)
    assert whole.shape == (len(part), part.time_steps, shared.features) == (12, 10, 12)
    selected = part.take(np.array([2, 0]))
    assert np.array_equal(selected.inputs, whole[[2, 0]])
    assert np.array_equal(selected.targets, part.targets[[2, 0]])


@pytest.mark.parametrize("law, mean, deviation", [("normal", 0, 1), ("uniform", 0.5, 12**-0.5)])
def test_noise_follows_its_distribution(made, law, mean, deviation):
    task = made("rows_then_noise", "color", law=law, block="fresh", time_steps=500)
    noise = task.train.inputs[:, 4:]
    assert (noise.mean(), noise.std()) == pytest.approx((mean, deviation), abs=0.02)


def test_padded_rows_end_in_noise(made):
    task = made("padded_rows", "gray", padding=2)
    images = made("pixels", "gray")
    rng = _rng()
    for part, image in ((task.train, images.train), (task.test, images.test)):
        assert np.array_equal(part.inputs[:, :4].reshape(12, 16, 1), image.inputs)
        assert np.array_equal(part.inputs[:, 4:], rng.random((12, 8, 4), dtype=np.float32))


def test_series_are_subsampled_and_cropped(made):
    task = made("series", "waves", every=4, share=0.6)
    for part in (task.train, task.validation, task.test):
        assert (part.inputs[:, :, 0] == [8, 12, 16]).all()
        assert np.array_equal(part.inputs[:, 0, 1], part.targets[:, 0])
    train = made("series", "waves", keep="random", share=0.4).train
    positions = train.inputs[:, :, 0]
    assert (np.diff(positions, axis=1) > 0).all() and len(np.unique(positions, axis=0)) == 4
    assert np.array_equal(train.inputs[:, 0, 1], train.targets[:, 0])


def test_centring_keeps_differences_of_targets(made):
    plain, centred = (made("series", "waves", centred=c) for c in (False, True))
    mean = plain.train.targets.mean()
    for ours, theirs in ((plain.train, centred.train), (plain.test, centred.test)):
        assert np.allclose(ours.targets - theirs.targets, mean)
    assert centred.guess(centred.test)[1] == pytest.approx(plain.guess(plain.test)[1])


def test_stream_targets_are_the_next_token(made):
    task = made("language", "letters", time_steps=13)
    assert (task.vocabulary_size, task.outputs, task.target) == (7, 7, "steps")
    assert task.train.inputs.shape == (34, 13)
    inputs = task.train.inputs.ravel()
    targets = task.train.targets.ravel()
    assert np.array_equal(inputs[1:], targets[:-1])
    assert sorted(inputs[:7]) == list(range(7))
    assert np.array_equal(inputs, np.resize(inputs[:7], inputs.shape))
    few = made("language", "letters", time_steps=13, train_size=2, test_size=1)
    assert np.array_equal(few.train.inputs, task.train.inputs[:2])
    assert len(few.test) == 1


def test_texts_are_padded_and_have_word_vectors(made):
    def rows(**settings):
        return set(map(tuple, made("texts", "reviews", **settings).test.inputs.tolist()))

    assert rows() == {(0, 0, 1, 5), (1, 7, 6, 5), (0, 1, 4, 4), (0, 0, 0, 1)}
    assert rows(filling="behind") == {(1, 5, 0, 0), (1, 7, 6, 5), (1, 4, 4, 0), (1, 0, 0, 0)}
    assert rows(filling="behind", words=2) == {(1, 5), (6, 5), (4, 4), (1, 0)}
    task = made("texts", "reviews")
    assert (task.vectors, task.train.inputs.dtype, task.features) == (None, np.int64, 0)
    assert made("texts", "reviews", vectors="glove").vectors[5].tolist() == [10, 11]


def test_single_output_is_log_odds(made):
    data = made("texts", "reviews")
    assert [vary(data, _rng(), sigmoid=s).outputs for s in (False, True)] == [2, 1]
    logits = torch.randn(7, 2)
    classes = torch.arange(7) % 2
    odds = (logits[:, 1] - logits[:, 0])[:, None]
    assert torch.allclose(*(cross_entropy(of, classes, "sum") for of in (logits, odds)))
    assert torch.equal(predicted_classes(odds), predicted_classes(logits))


BAD_DATA = [
    ("pixels", "gray", {"validation_size": 12}, "gray: expected a validation split of 1 to 11"),
    ("pixels", "gray", {"pool": 3}, "gray: a side of 4 pixels is not a multiple of 3"),
    ("pixels", "waves", {"pool": 2}, "waves: expected square images, .* got series"),
    ("padded_rows", "color", {"padding": 1}, "color: expected images of one channel, got 3"),
    ("rows_then_noise", "color", {"time_steps": 3}, "color: expected at least 4 time steps"),
    ("series", "waves", {"validation_size": 1}, "waves has a validation split of its own; lea"),
    ("series", "reviews", {}, "reviews: expected series .* class or value, got tokens"),
    ("texts", "letters", {}, "letters: expected tokens .* class or value, got tokens"),
    ("texts", "reviews", {"vectors": "elmo"}, "reviews has no vectors 'elmo'; it has glove"),
    ("language", "reviews", {"time_steps": 2}, "reviews: expected tokens .* target steps"),
    (
        "language",
        "letters",
        {"time_steps": 100},
        r"test: expected more than 100 tokens, .* got \d+; lower time_steps",
    ),
    (
        "language",
        "letters",
        {"time_steps": 10, "train_size": 99},
        "expected at most 45 pieces of 10 tokens, got 99",
    ),
]

test_unsuitable_data_are_refused = refused(
    ValueError,
    *(
        (sentence, lambda made, of=(task, dataset), how=settings: made(*of, **how))
        for task, dataset, settings, sentence in BAD_DATA
    ),
)
