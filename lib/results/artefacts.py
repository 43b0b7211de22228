"""Write the figures and tables of a notebook, each with a manifest that says what it is.

Files go to ``tables/`` and ``figures/`` of the folder ``<out>/made/<notebook>/<result set>/``, named by
the artefact's id in `data/published/artefacts.csv`. The report and the coverage table read the manifests, and
a manifest is written last: where one exists, its files are whole.
"""

import difflib
import json
import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import xarray as xr
from IPython.display import Markdown, display
from matplotlib.figure import Figure
from pandas.io.formats.style import Styler

from lib.paths import ROOT, resolve
from lib.results.claims import sentences
from lib.results.learned import networks_learned, stands_in
from lib.results.published import artefacts
from lib.results.schema import attempts_that_ran
from lib.run.files import write_whole

OWN = "own-"
"""Prefix of artefacts that no text publishes."""

CLAIMS = f"{OWN}claims"
"""Name of a notebook's judged claims; the report collects them."""

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Artefacts:
    """The figures and tables that one notebook makes from one set of results: shown, and kept.

    Parameters
    ----------
    out
        Folder that receives ``made/``; relative paths count from the repository root.
    notebook
        The notebook's name without suffix, such as ``"22_numerical_errors"``.
    result_set
        Label of the results in file names: ``rebuilt``, ``reference`` or ``simulated``.
    ds
        The results that all of it is made of: its profile, and how many attempts ran, stand beside every table. Without
        one, `profile` and `runs` say so.
    profile
        Profile that the data come from; the dataset's by default.
    runs
        Number of training attempts that entered; the dataset's by default, 0 where none is needed.
    published_scale
        Whether the experiment has the size that the text prints: sequences, their length, width and training.
    """

    def __init__(
        self,
        out: str | Path,
        *,
        notebook: str,
        result_set: str,
        ds: xr.Dataset | None = None,
        profile: str | None = None,
        runs: int | None = None,
        published_scale: bool = False,
    ) -> None:
        for what, name in (("notebook", notebook), ("result_set", result_set)):
            if not _SLUG.fullmatch(name):
                raise ValueError(f"{what} is {name!r}; expected letters, digits, '_', '-' or '.'")
        if ds is None and profile is None:
            raise ValueError(
                "expected the results that the notebook reads, or their profile, got neither"
            )
        runs = runs if runs is not None else 0 if ds is None else attempts_that_ran(ds)
        if runs < 0:
            raise ValueError(f"runs is {runs}; expected a count of attempts, 0 or more")
        self.profile = str(profile if profile is not None else ds.attrs["profile"])
        self.runs = int(runs)
        self.learned = None if ds is None else networks_learned(ds)
        self.stand_in = ds is not None and stands_in(ds)
        self.published_scale = published_scale
        made = resolve(out) / "made" / notebook / result_set
        self.tables, self.figures = made / "tables", made / "figures"
        self.tables.mkdir(parents=True, exist_ok=True)
        self.figures.mkdir(parents=True, exist_ok=True)

    def show_table(
        self,
        frame: pd.DataFrame,
        artefact: str,
        *,
        caption: str,
        part: str = "",
        explore: bool = False,
        shown: pd.DataFrame | Styler | None = None,
        precision: int = 3,
    ) -> None:
        """Keep `frame` as `save_table` does, and display it.

        Parameters
        ----------
        shown
            What is displayed in its place, such as `lib.results.published.layout` of it; a `Styler` keeps its own format.
        precision
            Digits after the point of displayed numbers.
        """
        self.save_table(frame, artefact, caption=caption, part=part, explore=explore)
        shown = frame if shown is None else shown
        if isinstance(shown, pd.DataFrame):
            numbered = all(name is None for name in shown.index.names)
            shown = shown.style.format(precision=precision, na_rep="–", thousands=",")
            if numbered:
                shown = shown.hide(axis="index")
        display(shown.set_uuid(_stem(artefact, part)).set_caption(caption))

    def show_figure(
        self, figure: Figure, artefact: str, *, data: pd.DataFrame, caption: str, part: str = ""
    ) -> None:
        """Keep `figure` and its `data` as `save_figure` does, and display it."""
        self.save_figure(figure, artefact, data=data, caption=caption, part=part)
        display(figure)
        plt.close(figure)  # Jupyter shows open figures once more at the end of a cell

    def show_claims(self, judged: pd.DataFrame) -> None:
        """Keep what `lib.results.claims.Judges` found for the report, and display one sentence a claim."""
        self.save_claims(judged)
        display(Markdown("\n".join(f"- {sentence}" for sentence in sentences(judged))))

    def save_claims(self, judged: pd.DataFrame) -> Path:
        """Write judged claims as CSV and return its path."""
        path = self.tables / f"{CLAIMS}.csv"
        manifest = self._begin(self.tables, CLAIMS)
        _write_csv(judged, path)
        self._finish(manifest, CLAIMS, "", "claims", path, "The text's claims, judged.")
        return path

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
                write_whole(
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
            **({} if self.learned is None else {"learned": self.learned}),
            **({"stand_in": True} if self.stand_in else {}),
            **({"published_scale": True} if self.published_scale else {}),
            "file": _from_root(path),
            "caption": caption,
            **{name: value for name, value in more.items() if value},
        }
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        write_whole(manifest, lambda partial: partial.write_text(text, encoding="utf-8"))


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
    write_whole(path, lambda partial: frame.to_csv(partial, index=named, lineterminator="\n"))


def _from_root(path: Path) -> str:
    inside = path.is_relative_to(ROOT)
    return (path.relative_to(ROOT) if inside else path).as_posix()
