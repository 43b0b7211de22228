"""Write the figures and tables of a notebook, each with a manifest that says what it is.

Files go to ``<out>/tables/<result set>/<notebook>/`` and ``<out>/figures/<result set>/<notebook>/``, named by
the artefact's id in `data/published/artefacts.csv`. The report and the coverage table read the manifests, and
a manifest is written last: where one exists, its files are whole.
"""

import difflib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from lib.paths import ROOT, resolve
from lib.results.published import artefacts

OWN = "own-"
"""Prefix of artefacts that no text publishes."""

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Artefacts:
    """The figures and tables that one notebook makes from one set of results.

    Parameters
    ----------
    out
        Folder that receives ``tables/`` and ``figures/``; relative paths count from the repository root.
    notebook
        The notebook's name without suffix, such as ``"22_numerical_errors"``.
    result_set
        Label of the results in file names: ``rebuilt`` or ``reference``.
    profile
        Profile that the data come from.
    runs
        Number of training attempts that entered; 0 where none is needed.
    """

    def __init__(
        self, out: str | Path, *, notebook: str, result_set: str, profile: str, runs: int
    ) -> None:
        for what, name in (("notebook", notebook), ("result_set", result_set)):
            if not _SLUG.fullmatch(name):
                raise ValueError(f"{what} is {name!r}; expected letters, digits, '_', '-' or '.'")
        if runs < 0:
            raise ValueError(f"runs is {runs}; expected a count of attempts, 0 or more")
        self.profile = str(profile)
        self.runs = int(runs)
        self.tables = resolve(out) / "tables" / result_set / notebook
        self.figures = resolve(out) / "figures" / result_set / notebook
        # Both folders are outputs of the notebook's stage, so both exist even when one stays empty.
        self.tables.mkdir(parents=True, exist_ok=True)
        self.figures.mkdir(parents=True, exist_ok=True)

    def save_table(
        self,
        frame: pd.DataFrame,
        artefact: str,
        *,
        caption: str,
        part: str = "",
        explore: bool = False,
    ) -> Path:
        """Write `frame` as CSV and return its path.

        A named index becomes columns, a mere numbering is left out. With `part` the table is a
        companion of the artefact (``diss-tab-1.7-by-task.csv``), beside its main file. With `explore` the
        report also shows it on the page on which readers sort and filter.

        Raises
        ------
        ValueError
            The artefact is unknown, or `frame` has nested columns, which CSV cannot hold.
        """
        stem = _stem(artefact, part)
        path = self.tables / f"{stem}.csv"
        manifest = self._begin(self.tables, stem)
        _write_csv(frame, path)
        self._finish(manifest, artefact, part, "table", path, caption, explore=explore)
        return path

    def save_figure(
        self, figure: Figure, artefact: str, *, data: pd.DataFrame, caption: str, part: str = ""
    ) -> Path:
        """Write `figure` as PNG and SVG, its `data` as CSV, and return the path of the PNG.

        Equal figures are equal files: no dates, and ids in the SVG that do not change from run to run.

        Raises
        ------
        ValueError
            The artefact is unknown, or `data` has nested columns.
        """
        stem = _stem(artefact, part)
        path = self.figures / f"{stem}.png"
        manifest = self._begin(self.figures, stem)
        _write_csv(data, path.with_suffix(".csv"))
        with mpl.rc_context({"svg.hashsalt": stem}):
            for suffix, metadata in ((".svg", {"Date": None}), (".png", {"Software": None})):
                _whole(
                    path.with_suffix(suffix),
                    lambda partial, kind=suffix, meta=metadata: figure.savefig(
                        partial, format=kind[1:], metadata=meta
                    ),
                )
        self._finish(manifest, artefact, part, "figure", path, caption)
        return path

    def _begin(self, folder: Path, stem: str) -> Path:
        manifest = folder / f"{stem}.json"
        manifest.unlink(missing_ok=True)
        return manifest

    def _finish(
        self,
        manifest: Path,
        artefact: str,
        part: str,
        kind: str,
        path: Path,
        caption: str,
        **more: bool,
    ) -> None:
        content = {
            "artefact": artefact,
            "part": part,
            "kind": kind,
            "profile": self.profile,
            "runs": self.runs,
            "file": _from_root(path),
            "caption": caption,
            **{name: value for name, value in more.items() if value},
        }
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        _whole(manifest, lambda partial: partial.write_text(text, encoding="utf-8"))


def _stem(artefact: str, part: str) -> str:
    known = list(artefacts()["id"])
    if artefact not in known and not artefact.startswith(OWN):
        near = difflib.get_close_matches(artefact, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(
            f"unknown artefact {artefact!r}; {hint}expected an id of data/published/artefacts.csv, "
            f"or a name that begins with {OWN!r}"
        )
    stem = f"{artefact}-{part}" if part else artefact
    if not _SLUG.fullmatch(stem):
        raise ValueError(f"{stem!r} is no file name; use letters, digits, '_', '-' or '.'")
    return stem


def _write_csv(frame: pd.DataFrame, path: Path) -> None:
    if frame.columns.nlevels > 1:
        raise ValueError(f"{path.stem}: expected one row of column names, got nested columns")
    named = any(name is not None for name in frame.index.names)
    _whole(path, lambda partial: frame.to_csv(partial, index=named, lineterminator="\n"))


def _whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file and put it in place of `path`, whole or not at all."""
    partial = path.with_name(f".{path.name}.partial{os.getpid()}")
    try:
        write(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _from_root(path: Path) -> str:
    inside = path.is_relative_to(ROOT)
    return (path.relative_to(ROOT) if inside else path).as_posix()
