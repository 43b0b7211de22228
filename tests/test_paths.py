"""Paths that users type."""

from pathlib import Path

import pytest
from study.paths import NOTEBOOKS, ROOT, resolve


@pytest.mark.parametrize(
    ("folder", "path", "expected"),
    [
        (NOTEBOOKS, "data/results/a.nc", ROOT / "data/results/a.nc"),
        (NOTEBOOKS, "../data/results/a.nc", ROOT / "data/results/a.nc"),
        (ROOT, "../a.nc", ROOT.parent / "a.nc"),
        (ROOT, "/tmp/a.nc", Path("/tmp/a.nc")),
        (ROOT, "~/a.nc", Path("/home/somebody/a.nc")),
    ],
)
def test_paths_count_from_root_folder_or_home(monkeypatch, folder, path, expected):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert resolve(path) == expected
