"""Files with damaged bytes: each is refused in one sentence, or read as something it may hold."""

import json
import zipfile

import numpy as np
import pytest
from archives import packed, tarred, zipped
from small_notebooks import plain_notebook
from study.config.file import read_params
from study.config.section import ParameterError
from study.pipeline.notebooks import NotebookError, read_parameters
from study.results.datasets import load
from study.results.factorial import FACTORIAL
from study.results.netcdf import ResultsError
from study.tasks.formats import FormatError, archives
from study.tasks.formats.idx import read_idx
from study.tasks.formats.series import Series, read_ts, read_tsv, ts_lines
from study.tasks.formats.wav import read_wav, wav_bytes
from study.tasks.sources._fetch import ChecksumError, unpacked
from synthetic_results import make_results
from trials.faults import damaged

pytestmark = pytest.mark.trials

CONTENT = b"what is packed " * 50
LARGEST = 5_000
FILES = dict.fromkeys(("a.txt", "b/c.txt", "./d.txt"), CONTENT)
ZIPS = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA
ARCHIVES = [zipped(FILES, how) for how in ZIPS]
ARCHIVES += [tarred(FILES, how) for how in ("", "gz", "bz2", "xz")]
YAML = b"""
profile: quick
base: {data: {datasets: [digits, "mnist"]}, one: {width: [16, 32], rate: 1e-3}}
profiles:
  smoke:
  quick:
    one: {width: 8}
"""
NOTEBOOK = json.dumps(plain_notebook("count = 1\nrate = 0.1"), indent=1).encode()


def _read_archive(path):
    return dict(archives.members(path, ".*"))


def _members_are_small(contents):
    """Return whether no member is larger than allowed; an archive's hash is checked before."""
    return all(len(content) <= LARGEST for content in contents.values())


def _is_packed_content(content):
    """Return whether the content is right; that of an empty file is empty."""
    return content in (CONTENT, b"")


def _is_plain(values):
    return json.loads(json.dumps(values, allow_nan=False)) == values


@pytest.mark.parametrize(
    ("wholes", "read", "error", "right"),
    [
        (ARCHIVES, _read_archive, FormatError, _members_are_small),
        ([packed(CONTENT)], unpacked, ChecksumError, _is_packed_content),
        ([YAML], read_params, ParameterError, _is_plain),
        ([NOTEBOOK], read_parameters, NotebookError, _is_plain),
    ],
    ids=["archives", "gzip", "params.yaml", "notebook"],
)
def test_damaged_files_are_refused(trials, draw, tmp_path, monkeypatch, wholes, read, error, right):
    monkeypatch.setattr(archives, "LARGEST", LARGEST)
    path = tmp_path / "file"
    for whole in wholes:
        path.write_bytes(whole)
        trials.accept("whole", lambda: read(path), right)
    for i in trials.some(1000):
        path.write_bytes(damaged(draw, wholes[i % len(wholes)]))
        trials.refuse(f"damaged {i}", lambda: read(path), error, right=right, lines=8)


_RNG = np.random.default_rng(0)
_TWO_CLASSES = ("a", "b")
WAV = wav_bytes(_RNG.integers(-(2**15), 2**15, 300).astype(np.int16))
IDX = b"\0\0\x08\x03" + np.array([3, 4, 5], ">u4").tobytes() + bytes(range(60))
TS = "\n".join(ts_lines(Series(_RNG.normal(size=(4, 6, 2)), np.array([0, 1, 1, 0]), _TWO_CLASSES)))
TSV = "\n".join(["1\t0.5\t-2\t1e-3", "2\t4\t5\t6", "1\t7\t8\t9"])


def _read_wav(content):
    return read_wav(content, "a.wav")


def _read_idx(content):
    return read_idx(content, "a.idx")


def _read_ts(content):
    return read_ts({"a.ts": content.decode("latin-1").splitlines()})


def _read_tsv(content):
    return read_tsv(content.decode("latin-1"), "a.tsv")


def _are_samples(samples):
    return samples.dtype == np.int16 and samples.ndim == 1


def _are_bytes(elements):
    return elements.dtype == np.uint8


def _are_labelled_series(series):
    finite = np.isfinite(series.inputs).all()
    one_target_each = series.targets.shape == series.inputs.shape[:1]
    known = set(series.targets.tolist()) <= set(range(len(series.labels)))
    return bool(finite) and series.inputs.ndim == 3 and one_target_each and known


def _are_series_and_classes(result):
    inputs, classes = result
    return bool(np.isfinite(inputs).all()) and inputs.shape[0] == len(classes)


@pytest.mark.parametrize(
    ("whole", "read", "right"),
    [
        (WAV, _read_wav, _are_samples),
        (IDX, _read_idx, _are_bytes),
        (TS.encode(), _read_ts, _are_labelled_series),
        (TSV.encode(), _read_tsv, _are_series_and_classes),
    ],
    ids=["wav", "idx", "ts", "tsv"],
)
def test_damaged_data_files_are_refused(trials, draw, whole, read, right):
    trials.accept("whole", lambda: read(whole), right)
    for i in trials.some(600):
        content = damaged(draw, whole)
        trials.refuse(
            f"damaged {i}", lambda content=content: read(content), FormatError, right=right
        )


def test_damaged_results_are_refused_or_equal(trials, draw, tmp_path):
    path = FACTORIAL.save(make_results(), tmp_path / "factorial.nc")
    whole = path.read_bytes()
    results = load(path)
    for i in trials.some(500):
        path.write_bytes(damaged(draw, whole))
        trials.refuse(f"damaged {i}", lambda: load(path), ResultsError, right=results.identical)
