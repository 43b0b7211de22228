"""Prepared data in memory and the six variations that Table 1.3 and Figure 1.1 make of them."""

import numpy as np
import pytest
import xarray as xr

from lib.tasks import Part, Task, load_prepared
from lib.tasks import variations as variations_module
from lib.tasks.prepared import (
    FIRST_WORD,
    PreparedError,
    load_file,
    prepared_dataset,
    save_prepared,
    validate_prepared,
)
from lib.tasks.variations import noise_places, time_steps, vary

ORDERS, NOISES = ("sequential", "permuted"), ("none", "post", "uniform")


def _rng(seed=0):
    return np.random.default_rng(seed)


def _counting(length, noise_inputs, n=3, features=1):
    """Pixels whose value tells their place: 10, 11, 12, ... lie outside the noise's range."""
    places = np.arange(10, 10 + length, dtype=np.float32)
    inputs = np.tile(places[None, :, None], (n, 1, features))
    part = Part(inputs, np.zeros(n, int))
    return Task(
        name="counting",
        kind="pixels",
        target="class",
        outputs=1,
        vocabulary_size=0,
        noise_inputs=noise_inputs,
        train=part,
        test=part,
    )


def _tokens(length=20, noise_inputs=500, vocabulary=12, n=4):
    part = Part(np.full((n, length), 7), np.zeros(n, int))
    return Task(
        name="words",
        kind="tokens",
        target="class",
        outputs=1,
        vocabulary_size=vocabulary,
        noise_inputs=noise_inputs,
        train=part,
        test=part,
    )


def _symbols(sequence):
    """Write a sequence as Table 1.3 does: u1, n1, n2, u2, ..."""
    written, noise = [], 0
    for value in sequence:
        noise += value < 10
        written.append(f"n{noise}" if value < 10 else f"u{int(value) - 9}")
    return written


# ------------------------------------------------------------------------------- Table 1.3


def test_sequential_without_noise_is_the_data_itself():
    data = _counting(500, 1000)
    assert np.array_equal(vary(data, "sequential", "none", _rng()).train.inputs, data.train.inputs)


def test_post_noise_follows_all_inputs():
    task = vary(_counting(500, 1000), "sequential", "post", _rng())
    expected = [f"u{i}" for i in range(1, 501)] + [f"n{i}" for i in range(1, 1001)]
    assert _symbols(task.train.inputs[0, :, 0]) == expected


def test_uniform_noise_is_the_printed_sequence():
    task = vary(_counting(500, 1000), "sequential", "uniform", _rng())
    written = _symbols(task.train.inputs[0, :, 0])
    assert written[:6] == ["u1", "n1", "n2", "u2", "n3", "n4"]
    assert written[-6:] == ["u499", "n997", "n998", "u500", "n999", "n1000"]
    expected = [term for i in range(1, 501) for term in (f"u{i}", f"n{2 * i - 1}", f"n{2 * i}")]
    assert written == expected


@pytest.mark.parametrize("noise", NOISES)
def test_the_permutation_acts_on_the_inputs_alone(noise):
    data = _counting(500, 1000)
    own = {}
    for order in ORDERS:
        sequence = vary(data, order, noise, _rng()).train.inputs[0, :, 0]
        assert np.array_equal(sequence < 10, noise_places(500, 1000, noise))
        own[order] = sequence[sequence >= 10]
    assert not np.array_equal(own["permuted"], own["sequential"])
    assert np.array_equal(np.sort(own["permuted"]), own["sequential"])


# ------------------------------------------------------------------------------- placing noise


@pytest.mark.parametrize(
    ("length", "noise_inputs"), [(1, 1), (1, 5), (7, 3), (64, 82), (784, 1000)]
)
def test_spread_noise_follows_the_rule(length, noise_inputs):
    places = noise_places(length, noise_inputs, "uniform")
    own = np.flatnonzero(~places)
    after = np.diff([*own, len(places)]) - 1
    rule = [
        i * noise_inputs // length - (i - 1) * noise_inputs // length for i in range(1, length + 1)
    ]
    assert after.tolist() == rule
    assert own[0] == 0
    assert after.sum() == noise_inputs
    assert after.max() - after.min() <= 1


@pytest.mark.parametrize("noise", NOISES)
def test_no_noise_inputs_leave_no_noise(noise):
    data = _counting(5, 0)
    task = vary(data, "sequential", noise, _rng())
    assert np.array_equal(task.train.inputs, data.train.inputs)
    assert time_steps(data, noise) == 5


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("length", [1, 6])
def test_time_steps_is_the_length(order, noise, length):
    data = _counting(length, 4, features=3)
    task = vary(data, order, noise, _rng())
    assert task.train.inputs.shape == (3, time_steps(data, noise), 3)
    assert task.test.inputs.shape == task.train.inputs.shape


# ------------------------------------------------------------------------------- what is drawn


def test_one_permutation_is_shared_by_all_sequences_of_both_splits():
    task = vary(_counting(50, 10), "permuted", "post", _rng())
    rows = np.concatenate([task.train.inputs, task.test.inputs])[:, :50, 0]
    assert (rows == rows[0]).all()


def test_every_sequence_has_noise_of_its_own():
    task = vary(_counting(50, 10), "permuted", "post", _rng())
    noise = np.concatenate([task.train.inputs, task.test.inputs])[:, 50:, 0]
    assert len(np.unique(noise, axis=0)) == len(noise)


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
    task = vary(data, "sequential", "post", _rng())
    noise = task.train.inputs[:, 20:]
    assert noise.dtype == np.int64
    assert np.unique(noise).tolist() == list(range(FIRST_WORD, data.vocabulary_size))
    shares = np.bincount(noise.ravel())[FIRST_WORD:] / noise.size
    assert np.abs(shares - 1 / len(shares)).max() < 0.01


@pytest.mark.parametrize("data", [_counting(6, 9), _tokens()], ids=["pixels", "tokens"])
def test_a_generator_decides_everything(data):
    first, again, other = (
        vary(data, "permuted", "uniform", _rng(seed)).test.inputs for seed in (1, 1, 2)
    )
    assert first.tobytes() == again.tobytes()
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("data", [_counting(6, 9, n=5), _tokens(n=5)], ids=["pixels", "tokens"])
def test_rows_at_a_time_change_nothing(data, monkeypatch):
    whole = vary(data, "permuted", "uniform", _rng()).test.inputs
    monkeypatch.setattr(variations_module, "ROWS", 2)
    assert np.array_equal(vary(data, "permuted", "uniform", _rng()).test.inputs, whole)


def test_varying_leaves_the_data_alone():
    data = _counting(6, 9)
    before = data.train.inputs.copy()
    vary(data, "permuted", "uniform", _rng())
    assert np.array_equal(data.train.inputs, before)


@pytest.mark.parametrize(
    ("order", "noise", "sentence"),
    [
        ("reversed", "none", "unknown order 'reversed'; known: sequential, permuted"),
        ("permuted", "pre", "unknown noise 'pre'; known: none, post, uniform"),
    ],
)
def test_an_unknown_variation_is_refused(order, noise, sentence):
    with pytest.raises(ValueError, match=sentence):
        vary(_counting(3, 2), order, noise, _rng())


# ------------------------------------------------------------------------------- prepared files


def _pixels(counts=(30, 10), n_test=8, **changes):
    """A data set whose class k has counts[k] sequences, sorted by class as some publishers do."""
    labels = np.repeat(np.arange(len(counts)), counts)
    inputs = _rng().integers(0, 17, (len(labels), 4, 1))
    inputs[0, 0], inputs[0, 1] = 0, 16
    settings = {"kind": "pixels", "source": "made up", "outputs": len(counts), "valid_max": 16}
    test = (inputs[:n_test], np.arange(n_test) % len(counts))
    return prepared_dataset("made_up", (inputs, labels), test, **(settings | changes))


def test_pixels_are_scaled_by_the_range_of_the_data(tmp_path):
    data = load_prepared(save_prepared(_pixels(), tmp_path))
    assert data.train.inputs.dtype == np.float32
    assert (data.train.inputs.min(), data.train.inputs.max()) == (0, 1)
    assert (data.features, data.outputs, data.vocabulary_size, data.noise_inputs) == (1, 2, 0, 1000)
    assert data.train.targets.dtype == np.int64


def test_tokens_stay_numbers(tmp_path):
    part = (np.array([[0, 1, 5], [1, 2, 9]]), np.array([0, 1]))
    ds = prepared_dataset(
        "texts",
        part,
        part,
        kind="tokens",
        source="made up",
        outputs=2,
        valid_max=9,
        vocabulary_size=10,
    )
    data = load_prepared(save_prepared(ds, tmp_path))
    assert data.train.inputs.dtype == np.int64
    assert sorted(map(tuple, data.train.inputs.tolist())) == [(0, 1, 5), (1, 2, 9)]
    assert (data.features, data.vocabulary_size) == (0, 10)


@pytest.mark.parametrize("size", [0, 4, 20, 40])
def test_a_part_and_its_prefixes_keep_the_proportions(tmp_path, size):
    data = load_prepared(save_prepared(_pixels((30, 10)), tmp_path), size, 0)
    labels = data.train.targets
    assert len(labels) == (size or 40)
    for end in range(1, len(labels) + 1):
        assert abs((labels[:end] == 0).sum() - 0.75 * end) <= 1


def test_everything_is_everything_once(tmp_path):
    ds = _pixels()
    data = load_prepared(save_prepared(ds, tmp_path))
    stored = ds["inputs"].values[ds["split"].values == 0] / np.float32(16)
    assert sorted(map(bytes, data.train.inputs)) == sorted(map(bytes, stored.astype(np.float32)))


def test_a_sequence_keeps_its_label(tmp_path):
    labels = np.arange(20) % 5
    inputs = np.tile(labels[:, None, None], (1, 3, 1))
    ds = prepared_dataset(
        "marked",
        (inputs, labels),
        (inputs, labels),
        kind="pixels",
        source="made up",
        outputs=5,
        valid_max=4,
    )
    data = load_prepared(save_prepared(ds, tmp_path), 7, 0)
    for part in (data.train, data.test):
        assert np.array_equal(part.inputs[:, 0, 0] * 4, part.targets)


def test_all_attempts_see_the_same_part(tmp_path):
    path = save_prepared(_pixels(), tmp_path)
    first, second = (load_prepared(path, 12, 4) for _ in range(2))
    assert np.array_equal(first.train.inputs, second.train.inputs)
    assert np.array_equal(load_prepared(path, 6, 4).train.inputs, first.train.inputs[:6])


def test_more_than_there_is_is_refused(tmp_path):
    path = save_prepared(_pixels(), tmp_path)
    with pytest.raises(ValueError, match=r"made_up train: 41 .* there are 40; use 0 for all"):
        load_prepared(path, 41, 0)


def test_saving_gives_the_same_bytes_twice(tmp_path):
    paths = [save_prepared(_pixels(), tmp_path / name) for name in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["made_up.nc"]


def test_a_missing_file_says_what_to_run(tmp_path):
    with pytest.raises(
        PreparedError, match=r"no prepared data set at .*digits.nc; run notebook 00"
    ):
        load_prepared(tmp_path / "digits.nc")


@pytest.mark.parametrize("share", [0.0, 0.5, 0.95])
def test_a_truncated_file_is_refused(tmp_path, share):
    path = save_prepared(_pixels((300, 100)), tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(PreparedError, match=r"made_up.nc is not a readable netCDF file"):
        load_file(path)


def test_a_file_of_another_schema_is_refused(tmp_path):
    path = tmp_path / "other.nc"
    xr.Dataset({"x": ("t", [1.0])}).to_netcdf(path)
    with pytest.raises(
        PreparedError, match=r"schema 'prepared/2', got None; run notebook 00 again"
    ):
        load_file(path)


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
        (
            _attribute("kind", "sounds"),
            "expected the kind 'pixels', 'tokens' or 'series', got 'sounds'",
        ),
        (_attribute("outputs", 1), "expected classes 0..0, got 0..1"),
        (_without("target"), "the variable 'target' is missing"),
        (_with("inputs", lambda v: v.astype("f8")), "expected inputs as uint8 .* got float64"),
        (_with("inputs", lambda v: v.isel(feature=0)), r"expected inputs .* over \('sample', 't"),
        (_with("inputs", lambda v: v.drop_attrs()), "inputs lacks 'long_name' or 'units'"),
        (_with("split", lambda v: v * 0), "the test part is empty"),
        (_with("split", lambda v: v * 2), "the test part is empty"),
        (lambda ds: ds.isel(sample=[]), "the train part is empty"),
    ],
)
def test_what_does_not_follow_the_schema_is_refused(spoil, sentence):
    with xr.set_options(keep_attrs=True):
        spoiled = spoil(_pixels())
    with pytest.raises(PreparedError, match=sentence):
        validate_prepared(spoiled)


def test_values_out_of_range_are_refused():
    with pytest.raises(PreparedError, match=r"expected inputs 0..15, got 0..16"):
        _pixels(valid_max=15)


def test_what_is_not_valid_is_not_written(tmp_path):
    with pytest.raises(PreparedError, match=r"classes"):
        save_prepared(_pixels().assign_attrs(outputs=1), tmp_path)
    assert list(tmp_path.iterdir()) == []
