"""Files with damaged bytes, of formats that state no hash of their own: each is refused in a sentence, or holds what it may."""

import json
import zipfile

import pytest
from archives import packed, tarred, zipped
from plain import plain_notebook
from study.config.file import read_params
from study.config.section import ParameterError
from study.pipeline.notebooks import NotebookError, read_parameters
from study.results.datasets import load
from study.results.factorial import FACTORIAL
from study.results.netcdf import ResultsError
from study.tasks.formats import FormatError, archives
from study.tasks.sources._fetch import ChecksumError, unpacked
from synthetic_results import make_results
from trials.faults import damaged

pytestmark = pytest.mark.trials

CONTENT, LARGEST = b"what is packed " * 50, 5_000
FILES = dict.fromkeys(("a.txt", "b/c.txt", "./d.txt"), CONTENT)
ZIPS = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA


def _small(found):
    """Which archive it is, its hash says before it is opened: here no member may be larger than it may be."""
    return all(len(content) <= LARGEST for content in found.values())


def _packed(found):
    """Nothing is packed in an empty file: what the reader of the file expects, its hash says."""
    return found in (CONTENT, b"")


def _plain(found):
    return json.loads(json.dumps(found, allow_nan=False)) == found


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


@pytest.mark.parametrize(
    ("wholes", "read", "error", "right"),
    [
        (ARCHIVES, lambda path: dict(archives.members(path, ".*")), FormatError, _small),
        ([packed(CONTENT)], unpacked, ChecksumError, _packed),
        ([YAML], read_params, ParameterError, _plain),
        ([NOTEBOOK], read_parameters, NotebookError, _plain),
    ],
    ids=["archives", "gzip", "params.yaml", "notebook"],
)
def test_damaged_files_are_refused_in_sentences_or_hold_what_they_may(
    trials, draw, tmp_path, monkeypatch, wholes, read, error, right
):
    monkeypatch.setattr(archives, "LARGEST", LARGEST)
    path = tmp_path / "file"
    for whole in wholes:
        path.write_bytes(whole)
        trials.accept("whole", lambda: read(path), right)
    for i in trials.some(1000):
        path.write_bytes(damaged(draw, wholes[i % len(wholes)]))
        trials.refuse(f"damaged {i}", lambda: read(path), error, right=right, lines=8)


def test_damaged_results_are_refused_or_equal(trials, draw, tmp_path):
    path = FACTORIAL.save(make_results(), tmp_path / "factorial.nc")
    whole, results = path.read_bytes(), load(path)
    for i in trials.some(500):
        path.write_bytes(damaged(draw, whole))
        trials.refuse(
            f"damaged {i}", lambda: load(path), ResultsError, right=results.identical, lines=1
        )
