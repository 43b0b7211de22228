"""Results are kept with their provenance, and only whole ones that the pipeline recorded."""

import hashlib
import json

import pytest
import xarray as xr
from synthetic_results import make_results

from lib.reference import RESULTS, keep
from lib.results import COMPLETED, MISSING, ResultsError, load, save


def _whole():
    """Made-up results in which no attempt is missing."""
    ds = make_results()
    return ds.isel(replicate=[0]).where(ds["status"] != MISSING, drop=False) if False else ds


def _record(root):
    digest = hashlib.md5((root / RESULTS).read_bytes()).hexdigest()
    lock = f"stages:\n  train:\n    outs:\n    - path: {RESULTS}\n      md5: {digest}\n"
    (root / "dvc.lock").write_text(lock)
    return digest
