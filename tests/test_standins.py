"""Stand-ins: their signals, and that the readers of the real data sets read them."""

import numpy as np
import pytest
from study.tasks.formats import sound, wav
from study.tasks.standins.beats import BREATH, HEART, beats
from study.tasks.standins.markov_text import language, reviews, text
from study.tasks.standins.switching import PRIORS, RATES, switching_series
from study.tasks.standins.tone_words import write_clips


def _rng(seed=0):
    return np.random.default_rng(seed)


def test_turns_shift_only_the_second_pair_of_channels():
    series = switching_series(200, 2000, _rng())
    means = np.array([series.inputs[series.targets == k].mean((0, 1)) for k in range(5)])
    means[:, 2:4] -= np.array(RATES)[:, None] / 1000 * 60 * 3 / np.sqrt(2)
    assert np.abs(means).max() < 0.2 and np.abs(means[:, 2:4]).max() < 0.1
    assert np.bincount(series.targets, minlength=5) / 200 == pytest.approx(PRIORS, abs=0.1)


def test_beats_have_their_target_rates():
    inputs, targets, patient = beats(4, 3, _rng())
    assert inputs.shape == (12, 4000, 2) and inputs.dtype == targets.dtype == np.float32
    assert len(np.unique(targets[:, 0])) == 12
    for values, (low, high) in zip(targets.T, (HEART, BREATH), strict=True):
        assert low / 1.05 < values.min() and values.max() < high * 1.05
    assert patient.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    for (ppg, ecg), (heart, breath) in zip(inputs.transpose(0, 2, 1), targets, strict=True):
        sharp = ecg - np.convolve(ecg, np.ones(25) / 25, "same")
        peaks = np.flatnonzero(np.diff((sharp > 0.5 * sharp[100:-100].max()).astype(int)) == 1)
        peaks = peaks[np.diff(peaks, prepend=-100) > 25]
        counted = 60 * (len(peaks) - 1) * 125 / (peaks[-1] - peaks[0])
        assert counted == pytest.approx(heart, rel=0.03)
        spectrum = np.abs(np.fft.rfft((ppg - ppg.mean()) * np.hanning(len(ppg)), 2**16))
        frequency = np.fft.rfftfreq(2**16, 1 / 125) * 60
        low = (frequency > 5) & (frequency < 36)
        assert frequency[low][spectrum[low].argmax()] == pytest.approx(breath, rel=0.06)


def test_words_differ_more_than_speakers():
    words = {"yes": [], "no": [], "bed": []}
    for name, content in write_clips(tuple(words), clips=20, speakers=10, seed=3):
        if (word := name.split("/")[0]) in words:
            words[word].append(sound.log_mel(wav.read_wav(content, name)).max(axis=0))
    profiles = np.array([*words.values()])
    apart = np.linalg.norm(profiles[:, :, None] - profiles.mean(axis=1), axis=-1)
    assert (apart.argmin(axis=-1) == np.arange(3)[:, None]).mean() > 0.8


def test_words_follow_zipf_and_followers():
    drawn_language = language(50, _rng())
    _, indices = np.nonzero(
        np.array(text(drawn_language, 40_000, _rng(1)))[:, None] == drawn_language.words
    )
    obeying = (drawn_language.followers[indices[:-1]] == indices[1:, None]).any(axis=1).mean()
    assert len(set(drawn_language.words)) == 50 and obeying > 0.7
    assert np.corrcoef(np.bincount(indices, minlength=50), drawn_language.frequency)[0, 1] > 0.5


def test_reviews_are_separable_by_words():
    drawn_language = language(200, _rng())
    texts, targets = reviews(drawn_language, 400, 2, _rng(1))
    assert np.bincount(targets).tolist() == [200, 200]
    counts = []
    for words in texts:
        counts.append([words.split().count(word) for word in drawn_language.words])
    counts = np.array(counts)
    ours, theirs = (counts[:200][targets[:200] == k].sum(axis=0) + 1 for k in (1, 0))
    odds = np.log(ours / theirs)
    odds[np.abs(odds) < np.log(3)] = 0  # frequent words differ by chance, and repeat within a text
    assert ((counts[200:] @ odds > 0) == targets[200:]).mean() > 0.8
