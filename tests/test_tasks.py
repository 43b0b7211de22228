"""Prepared data in memory, the six variations that Table 1.3 and Figure 1.1 make of them, and what a task's settings may say."""

import numpy as np
import pytest
import xarray as xr

from lib.results.schema import ResultsError
from lib.tasks import (
    Part,
    Task,
    check_task,
    load_prepared,
    make_task,
    task_draws,
    task_settings,
)
from lib.tasks import variations as variations_module
from lib.tasks.permutations import PERMUTATIONS
from lib.tasks.prepared import (
    FIRST_WORD,
    load_file,
    prepared_dataset,
    save_prepared,
    validate_prepared,
)
from lib.tasks.variations import NOISES, ORDERS, SPREADS, noise_places, time_steps, vary


def _rng(seed=0):
    return np.random.default_rng(seed)


def _counting(length, noise_inputs, n=3, features=1):
    """Pixels whose value tells their place: 10, 11, 12, ... lie outside the noise's range."""
    places = np.arange(10, 10 + length, dtype=np.float32)
    part = Part(np.tile(places[None, :, None], (n, 1, features)), np.zeros(n, int))
    about = {"kind": "pixels", "target": "class", "outputs": 1}
    return Task(name="counting", **about, noise_inputs=noise_inputs, train=part, test=part)


def _tokens(length=20, noise_inputs=500, n=4):
    part = Part(np.full((n, length), 7), np.zeros(n, int))
    about = {"kind": "tokens", "target": "class", "outputs": 1, "vocabulary_size": 12}
    return Task(name="words", **about, noise_inputs=noise_inputs, train=part, test=part)


BOTH = pytest.mark.parametrize(
    "data", [_counting(6, 9, n=5), _tokens(n=5)], ids=["pixels", "tokens"]
)

# ------------------------------------------------------------------------------- Table 1.3


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        ("none", [f"u{i}" for i in range(1, 501)]),
        ("post", [f"u{i}" for i in range(1, 501)] + [f"n{i}" for i in range(1, 1001)]),
        ("uniform", [t for i in range(1, 501) for t in (f"u{i}", f"n{2 * i - 1}", f"n{2 * i}")]),
    ],
)
def test_sequences_are_the_printed_ones(noise, expected):
    written, count = [], 0
    for value in vary(_counting(500, 1000), "sequential", noise, _rng()).train.inputs[0, :, 0]:
        count += value < 10
        written.append(f"n{count}" if value < 10 else f"u{int(value) - 9}")
    assert written == expected


@pytest.mark.parametrize("noise", NOISES)
def test_the_permutation_acts_on_the_inputs_alone(noise):
    data, own = _counting(500, 1000), {}
    for order in ORDERS:
        sequence = vary(data, order, noise, _rng()).train.inputs[0, :, 0]
        assert np.array_equal(sequence < 10, noise_places(500, 1000, noise))
        own[order] = sequence[sequence >= 10]
    assert not np.array_equal(own["permuted"], own["sequential"])
    assert np.array_equal(np.sort(own["permuted"]), own["sequential"])


def test_one_permutation_for_all_attempts_is_the_authors():
    author = np.random.RandomState(92916).permutation(50)
    for seed in (0, 1):
        task = vary(_counting(50, 3), "permuted", "none", _rng(seed), permutation="exprnn")
        assert np.array_equal(task.test.inputs[0, :, 0] - 10, author)
    assert np.array_equal(PERMUTATIONS["exprnn"](50), author)


@pytest.mark.parametrize(
    ("length", "noise_inputs"), [(1, 1), (1, 5), (7, 3), (64, 82), (784, 1000), (9, 9)]
)
def test_spread_noise_follows_either_rule(length, noise_inputs):
    own = np.flatnonzero(~noise_places(length, noise_inputs, "uniform"))
    after = np.diff([*own, length + noise_inputs]) - 1
    upto = [i * noise_inputs // length for i in range(length + 1)]
    assert after.tolist() == np.diff(upto).tolist()
    found = noise_places(length, noise_inputs, "uniform", "bresenham")
    assert found.tolist() == list(_interleaved(length, noise_inputs))


def _interleaved(length, noise_inputs):
    """Bresenham's rule step by step, as more_itertools.interleave_evenly has it: True for noise."""
    longer, shorter = max(length, noise_inputs), min(length, noise_inputs)
    error, noise_is_longer = longer // 2, noise_inputs > length
    for _ in range(longer):
        yield noise_is_longer
        error -= shorter
        if error < 0:
            yield not noise_is_longer
            error += longer


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("spread", SPREADS)
def test_no_noise_inputs_leave_no_noise_and_time_steps_is_the_length(noise, spread):
    data = _counting(5, 0)
    task = vary(data, "sequential", noise, _rng(), spread=spread)
    assert np.array_equal(task.train.inputs, data.train.inputs)
    assert time_steps(data, noise) == 5
    for length in (1, 6):
        data = _counting(length, 4, features=3)
        task = vary(data, "permuted", noise, _rng(), spread=spread)
        assert task.train.inputs.shape == (3, time_steps(data, noise), 3)
        assert task.test.inputs.shape == task.train.inputs.shape


def test_sequences_share_their_permutation_and_have_noise_of_their_own():
    task = vary(_counting(50, 10), "permuted", "post", _rng())
    rows = np.concatenate([task.train.inputs, task.test.inputs])[:, :, 0]
    assert (rows[:, :50] == rows[0, :50]).all()
    assert len(np.unique(rows[:, 50:], axis=0)) == len(rows)


def test_noise_of_pixels_covers_the_range_of_the_data():
    task = vary(_counting(1, 20_000, n=1, features=3), "sequential", "post", _rng())
    noise = task.train.inputs[0, 1:]
    assert noise.dtype == np.float32
    assert noise.min() >= 0
    assert noise.max() < 1
    shares = np.histogram(noise, bins=10, range=(0, 1))[0] / noise.size
    assert np.abs(shares - 0.1).max() < 0.01
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.05, "features share their noise"


def test_noise_of_tokens_is_any_word_and_nothing_else():
    data = _tokens(noise_inputs=5000)
    noise = vary(data, "sequential", "post", _rng()).train.inputs[:, 20:]
    assert noise.dtype == np.int64
    assert np.unique(noise).tolist() == list(range(FIRST_WORD, data.vocabulary_size))
    shares = np.bincount(noise.ravel())[FIRST_WORD:] / noise.size
    assert np.abs(shares - 1 / len(shares)).max() < 0.01


@BOTH
def test_a_generator_decides_everything_and_the_data_stay(data, monkeypatch):
    before = data.train.inputs.copy()
    first, again, other = (
        vary(data, "permuted", "uniform", _rng(seed)).test.inputs for seed in (1, 1, 2)
    )
    assert first.tobytes() == again.tobytes()
    assert not np.array_equal(first, other)
    monkeypatch.setattr(variations_module, "ROWS", 2)  # a few rows at a time change nothing
    assert np.array_equal(vary(data, "permuted", "uniform", _rng(1)).test.inputs, first)
    assert np.array_equal(data.train.inputs, before)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"order": "reversed"}, "unknown order 'reversed'; known: sequential, permuted"),
        ({"noise": "pre"}, "unknown noise 'pre'; known: none, post, uniform"),
        ({"permutation": "irnn"}, "unknown permutation 'irnn'; known: attempt, lem, cornn, exprnn"),
        ({"spread": "even"}, "unknown spread 'even'; known: floor, bresenham"),
    ],
)
def test_an_unknown_variation_is_refused(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        vary(_counting(3, 2), **({"order": "permuted", "noise": "uniform"} | wrong), rng=_rng())


# ------------------------------------------------------------------------------- settings of tasks


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"task": "adding", "time_steps": "20"}, "'adding': time_steps is '20'; .* integer"),
        ({"task": "adding", "time_steps": 20.5}, "time_steps is 20.5; .* integer"),
        ({"task": "adding", "time_steps": -3}, "time_steps is -3; .* than or equal to 2"),
        ({"task": "adding", "time_steps": True}, "time_steps is True; .* integer"),
        (
            {"task": "adding", "time_steps": 20, "test_size": 0},
            "no setting 'test_size'; it has time",
        ),
        ({"task": "adding", "time_steps": 20, "bogus": 1}, "no setting 'bogus'; it has time_steps"),
        ({"task": "adding", "time_steps": 20, "b" * 999: 1}, r"no setting 'b{59}\.\.\.; it has"),
        ({"task": "adding"}, "task 'adding' needs the setting 'time_steps'"),
        ({"task": "long_time_gap", "place": 30, "time_steps": 20}, "input among 1..20, got 30"),
        ({"task": "copying", "delay": 0}, "delay is 0; .* equal to 1"),
        ({"task": "fast_slow", "solver": "euler"}, "solver is 'euler'; .* 'author' or 'exact'"),
        ({"task": "fast_slow", "test_size": 0}, "test_size is 0; .* equal to 1"),
        ({"task": "series"}, "task 'series' needs the setting 'dataset'"),
        ({"task": "series", "dataset": ["x"]}, r"dataset is \['x'\]; .* string"),
        ({"task": "series", "dataset": "../x"}, "dataset is '../x'; string should match"),
        ({"task": "series", "dataset": "x", "keep": "first"}, "keep is 'first'; .* 'last' or 'ra"),
        ({"task": "series", "dataset": "x", "every": 0}, "every is 0; .* equal to 1"),
        ({"task": "series", "dataset": "x", "share": 0}, "share is 0; .* greater than 0"),
        ({"task": "series", "dataset": "x", "train_size": -1}, "train_size is -1; .* equal to 0"),
        ({"task": "pixels", "dataset": "x", "order": "irnn"}, "order is 'irnn'; .* 'exprnn'"),
        ({"task": "texts", "dataset": "x", "filling": "middle"}, "filling is 'middle'; .* 'behind"),
        ({"task": "rows_then_noise", "dataset": "x", "block": "none"}, "block is 'none'; .* 'fre"),
        ({"task": "rows_then_noise", "dataset": "x", "law": "cauchy"}, "law is 'cauchy'; .* 'uni"),
        ({"task": "summing"}, "unknown task 'summing'; known: adding, copying"),
        ({"task": {"series": 1}}, "expected a task's name and its settings, .* got {'task': {'"),
        ({"task": ["x"]}, "expected a task's name and its settings"),
        (["x"], r"expected a task's name and its settings, .* got \['x'\]"),
        (None, "expected a task's name and its settings"),
    ],
)
def test_a_task_that_cannot_be_made_is_refused_in_a_sentence(spec, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        check_task(spec)
    assert "\n" not in str(error.value)


def test_settings_and_whether_sequences_are_drawn_are_known_without_data():
    shared = ("dataset", "train_size", "validation_size", "test_size")
    assert task_settings("padded_rows") == (*shared, "padding")
    assert task_settings("language") == (*shared, "time_steps")
    assert task_settings("long_time_gap") == ("place", "time_steps")
    spec = {"task": "long_time_gap", "place": 2, "time_steps": 5}
    assert task_draws(spec) and not task_draws({"task": "fast_slow"})
    made = make_task(spec, None, _rng())
    assert (made.name, made.train, made.test, made.classifies) == ("LTG2", None, None, True)
    assert made.draw(7, _rng()).inputs.shape == (7, 5, 1)


# ------------------------------------------------------------------------------- prepared files


def _pixels(counts=(30, 10), n_test=8, **changes):
    """A data set whose class k has counts[k] sequences, sorted by class as some publishers do."""
    labels = np.repeat(np.arange(len(counts)), counts)
    inputs = _rng().integers(0, 17, (len(labels), 4, 1))
    inputs[0, 0], inputs[0, 1] = 0, 16
    settings = {"kind": "pixels", "source": "made up", "outputs": len(counts), "valid_max": 16}
    test = (inputs[:n_test], np.arange(n_test) % len(counts))
    return prepared_dataset("made_up", (inputs, labels), test, **(settings | changes))


def test_pixels_are_scaled_and_each_is_kept_once(tmp_path):
    ds = _pixels()
    data = load_prepared(save_prepared(ds, tmp_path))
    assert data.train.inputs.dtype == np.float32
    assert (data.train.inputs.min(), data.train.inputs.max()) == (0, 1)
    assert (data.features, data.outputs, data.vocabulary_size, data.noise_inputs) == (1, 2, 0, 1000)
    assert data.train.targets.dtype == np.int64
    stored = ds["inputs"].values[ds["split"].values == 0] / np.float32(16)
    assert sorted(map(bytes, data.train.inputs)) == sorted(map(bytes, stored.astype(np.float32)))


def test_tokens_stay_numbers(tmp_path):
    part = (np.array([[0, 1, 5], [1, 2, 9]]), np.array([0, 1]))
    about = {"kind": "tokens", "source": "made up", "outputs": 2}
    ds = prepared_dataset("texts", part, part, **about, valid_max=9, vocabulary_size=10)
    data = load_prepared(save_prepared(ds, tmp_path))
    assert data.train.inputs.dtype == np.int64
    assert sorted(map(tuple, data.train.inputs.tolist())) == [(0, 1, 5), (1, 2, 9)]
    assert (data.features, data.vocabulary_size) == (0, 10)
    spec = {"task": "dataset", "dataset": "texts"}
    assert make_task(spec | {"sigmoid": True}, tmp_path, _rng()).outputs == 1
    assert make_task(spec, tmp_path, _rng()).outputs == 2


@pytest.mark.parametrize("size", [0, 4, 20, 40])
def test_a_part_and_its_prefixes_keep_the_proportions(tmp_path, size):
    data = load_prepared(save_prepared(_pixels((30, 10)), tmp_path), size, 0)
    labels = data.train.targets
    assert len(labels) == (size or 40)
    for end in range(1, len(labels) + 1):
        assert abs((labels[:end] == 0).sum() - 0.75 * end) <= 1


def test_a_sequence_keeps_its_label(tmp_path):
    labels = np.arange(20) % 5
    part = np.tile(labels[:, None, None], (1, 3, 1)), labels
    about = {"kind": "pixels", "source": "made up", "outputs": 5, "valid_max": 4}
    data = load_prepared(save_prepared(prepared_dataset("a", part, part, **about), tmp_path), 7, 0)
    for part in (data.train, data.test):
        assert np.array_equal(part.inputs[:, 0, 0] * 4, part.targets)


def test_all_attempts_see_the_same_part(tmp_path):
    path = save_prepared(_pixels(), tmp_path)
    first, second = (load_prepared(path, 12, 4) for _ in range(2))
    assert np.array_equal(first.train.inputs, second.train.inputs)
    assert np.array_equal(load_prepared(path, 6, 4).train.inputs, first.train.inputs[:6])
    with pytest.raises(ValueError, match=r"made_up train: 41 .* there are 40; use 0 for all"):
        load_prepared(path, 41, 0)


def test_saving_gives_the_same_bytes_twice(tmp_path):
    paths = [save_prepared(_pixels(), tmp_path / name) for name in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["made_up.nc"]


def test_files_that_are_missing_cut_or_of_another_schema_are_refused(tmp_path):
    with pytest.raises(ResultsError, match=r"no prepared data set at .*digits.nc; run notebook 00"):
        load_prepared(tmp_path / "digits.nc")
    path = save_prepared(_pixels((300, 100)), tmp_path)
    content = path.read_bytes()
    for share in (0.0, 0.5, 0.95):
        path.write_bytes(content[: int(share * len(content))])
        with pytest.raises(ResultsError, match=r"made_up.nc is not a readable netCDF file"):
            load_file(path)
    xr.Dataset({"x": ("t", [1.0])}).to_netcdf(tmp_path / "other.nc")
    with pytest.raises(ResultsError, match=r"'prepared/2', got None; run notebook 00 again"):
        load_file(tmp_path / "other.nc")


def _without(name):
    return lambda ds: ds.drop_vars(name)


def _with(name, change):
    return lambda ds: ds.assign({name: change(ds[name])})


def _attribute(name, value):
    return lambda ds: ds.assign_attrs({name: value})


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_attribute("schema", "prepared/0"), "expected prepared data of schema 'prepared/2'"),
        (_attribute("kind", "sounds"), "the kind 'pixels', 'tokens' or 'series', got 'sounds'"),
        (_attribute("target", "word"), "the target 'class', 'steps' or 'value', got 'word'"),
        (_attribute("target", "value"), "a value cannot be of a type such as 'i'"),
        (_attribute("source", None), "the attribute 'source' is missing"),
        (_attribute("outputs", 1), "expected classes 0..0, got 0..1"),
        (_without("target"), "variable 'target' is missing"),
        (_with("inputs", lambda v: v.astype("f8")), "inputs: expected uint8 .* got float64"),
        (_with("inputs", lambda v: v.isel(feature=0)), r"inputs: expected .* over \('sample', 't"),
        (_with("inputs", lambda v: v.drop_attrs()), "expected the attributes 'long_name' and"),
        (_with("inputs", lambda v: v.assign_attrs(valid_max=15)), "expected inputs 0..15, got 0."),
        (_with("split", lambda v: v * 0), "the test part is empty"),
        (_with("split", lambda v: v + 1), "the train part is empty"),
        (_with("split", lambda v: v * 3), "the test part is empty"),
        (_with("split", lambda v: v.where(v.sample > 0, 9).astype("i1")), "the split to be 0"),
        (lambda ds: ds.isel(sample=[]), "the train part is empty"),
    ],
)
def test_what_does_not_follow_the_schema_is_neither_read_nor_written(spoil, sentence, tmp_path):
    with xr.set_options(keep_attrs=True):
        spoiled = spoil(_pixels().assign_coords(sample=np.arange(48)))
    for use in (validate_prepared, lambda ds: save_prepared(ds, tmp_path)):
        with pytest.raises(ResultsError, match=sentence):
            use(spoiled)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("inputs", "targets", "sentence"),
    [
        (np.inf, 0.0, "made_up: expected finite inputs, got 8 that are not"),
        (0.0, np.nan, "made_up: expected finite targets, got 4 that are not"),
        (0.0, 0.0, "made_up: expected 3 numbers a target, got 2"),
    ],
)
def test_values_that_are_not_finite_or_too_few_are_refused(inputs, targets, sentence):
    part = np.full((2, 2, 1), inputs), np.full((2, 2), targets)
    other = np.zeros((1, 2, 1)), np.zeros((1, 2))
    outputs = 3 if "numbers" in sentence else 2
    with pytest.raises(ResultsError, match=sentence):
        prepared_dataset(
            *("made_up", part, part if np.isinf(inputs) else other),
            kind="series",
            target="value",
            source="",
            outputs=outputs,
        )
