"""Write the figures and tables of a notebook, each with a manifest that says what it is.

Files go to ``tables/`` and ``figures/`` of the folder ``<out>/made/<notebook>/<result set>/``,
named by the artifact's id in ``data/published/artifacts.csv``. The report and the coverage table
read the manifests. A manifest is written last: if one exists, its files are whole.
"""

from copy import copy
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import xarray as xr
from IPython.display import Image, display
from matplotlib.figure import Figure
from pandas.io.formats.style import Styler

from study.paths import ROOT, resolve
from study.pipeline.files import write_text
from study.results.artifact_files import style_table, write_csv, write_figure
from study.results.data_used import data_and_length, has_stand_ins
from study.results.learned import networks_learned
from study.results.manifest import Manifest, check_name
from study.results.published import artifacts
from study.results.schema import COMPLETED, DIVERGED

OWN = "own-"
"""Prefix of artifacts that no paper publishes."""

CLAIMS = f"{OWN}claims"
"""Name of a notebook's judged claims; the report collects them."""


class Artifacts:
    """The figures and tables that one notebook makes from one set of results.

    Each is stored with the profile and the number of runs. Both are those of the results `ds`,
    unless `profile` and `runs` are given.

    Parameters
    ----------
    out : path
        Folder that receives ``made/``; relative paths start at the repository's root.
    notebook : str
        The notebook's name, such as ``22_numerical_errors``.
    result_set : str
        ``rebuilt``, ``reference`` or ``simulated``.
    ds : xarray.Dataset, optional
        The results that the artifacts are made from.
    profile : str, optional
        Profile of the results.
    runs : int, optional
        Number of runs that the artifacts are made from.
    published_scale : bool
        Whether the experiment has the size that the paper prints.

    Raises
    ------
    ValueError
        A name cannot be part of a path.
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
        check_name("notebook", notebook)
        check_name("result_set", result_set)
        if runs is None:
            runs = _count_runs(ds)
        if profile is None:
            profile = ds.attrs["profile"]
        self.profile = str(profile)
        self.runs = int(runs)
        self._describe(ds)
        self.published_scale = published_scale
        folder = resolve(out) / "made" / notebook / result_set
        self.tables = folder / "tables"
        self.figures = folder / "figures"
        self.tables.mkdir(parents=True, exist_ok=True)
        self.figures.mkdir(parents=True, exist_ok=True)

    def _describe(self, ds: xr.Dataset | None) -> None:
        """Set the fields of the manifests that depend on the results."""
        self.trained_on = ""
        self.learned = False
        self.stand_in = False
        if ds is not None:
            self.trained_on = data_and_length(ds)
            self.learned = networks_learned(ds) is True
            self.stand_in = has_stand_ins(ds)

    def of_runs(self, ds: xr.Dataset) -> "Artifacts":
        """Return the artifacts of some of the runs, for figures and tables that show no others.

        Only these runs decide whether networks learned, and on which data.

        Parameters
        ----------
        ds : xarray.Dataset
            The runs, a part of the results.

        Returns
        -------
        Artifacts
            A copy that writes to the same folders.
        """
        part = copy(self)
        part.runs = _count_runs(ds)
        part._describe(ds)
        return part

    def show_table(
        self,
        frame: pd.DataFrame,
        artifact: str,
        *,
        caption: str,
        part: str = "",
        shown: pd.DataFrame | Styler | None = None,
        precision: int = 3,
    ) -> None:
        """Store a table as `save_table` does, and display it.

        Parameters
        ----------
        frame, artifact, caption, part
            As for `save_table`.
        shown : DataFrame or Styler, optional
            Displayed instead of `frame`; a Styler keeps its own format.
        precision : int
            Decimals of the displayed numbers.
        """
        self.save_table(frame, artifact, caption=caption, part=part)
        if shown is None:
            shown = frame
        if isinstance(shown, pd.DataFrame):
            shown = style_table(shown, precision=precision)
        display(shown.set_uuid(_stem(artifact, part)).set_caption(caption))

    def show_figure(
        self, figure: Figure, artifact: str, *, data: pd.DataFrame, caption: str, part: str = ""
    ) -> None:
        """Store a figure as PNG and SVG and its data as CSV, and display the PNG.

        Equal figures are equal files: no dates, and ids in the SVG that do not change from run to
        run. The stored PNG is displayed because drawing is what takes time.

        Parameters
        ----------
        figure : Figure
        artifact : str
            Id in ``data/published/artifacts.csv``, or a name that begins with ``own-``.
        data : DataFrame
            What the figure draws.
        caption : str
        part : str
            Name of a companion of the artifact; empty for its main figure.
        """
        path = self.figures / f"{_stem(artifact, part)}.png"
        fields = {"artifact": artifact, "part": part, "kind": "figure", "caption": caption}
        self._save(data, path, figure, **fields)
        width, height = figure.canvas.get_width_height()
        display(Image(path.read_bytes(), width=width, height=height))
        plt.close(figure)  # Jupyter shows open figures once more at the end of a cell

    def save_claims(self, judged: pd.DataFrame) -> None:
        """Keep judged claims for the report.

        Parameters
        ----------
        judged
            A table of `study.claims.judging.judged_table`.
        """
        path = self.tables / f"{CLAIMS}.csv"
        caption = "The paper's claims, judged."
        self._save(judged, path, artifact=CLAIMS, kind="claims", caption=caption)

    def save_table(
        self, frame: pd.DataFrame, artifact: str, *, caption: str, part: str = ""
    ) -> Path:
        """Write a table as CSV.

        Row labels become columns, named ``row`` if they have no name. Row numbers are left out.

        Parameters
        ----------
        frame : DataFrame
        artifact : str
            Id in ``data/published/artifacts.csv``, or a name that begins with ``own-``.
        caption : str
        part : str
            Name of a companion of the artifact, such as ``by-task``; its file
            (``diss-tab-1.7-by-task.csv``) is stored next to the main one.

        Returns
        -------
        Path
            The CSV file.

        Raises
        ------
        ValueError
            The artifact is unknown, or `frame` has nested columns, which CSV cannot hold.
        """
        path = self.tables / f"{_stem(artifact, part)}.csv"
        return self._save(frame, path, artifact=artifact, part=part, kind="table", caption=caption)

    def _save(
        self, data: pd.DataFrame, path: Path, figure: Figure | None = None, **fields: str
    ) -> Path:
        """Write data and figure, and last the manifest with these fields."""
        manifest = path.with_suffix(".json")
        manifest.unlink(missing_ok=True)
        write_csv(data, path.with_suffix(".csv"))
        if figure:
            write_figure(figure, path)
        file = path
        if path.is_relative_to(ROOT):
            file = path.relative_to(ROOT)
        content = Manifest(
            profile=self.profile,
            runs=self.runs,
            trained_on=self.trained_on,
            learned=self.learned,
            stand_in=self.stand_in,
            published_scale=self.published_scale,
            file=file.as_posix(),
            **fields,
        )
        text = content.model_dump_json(indent=2, exclude_defaults=True) + "\n"
        write_text(manifest, text)
        return path


def _count_runs(ds: xr.Dataset | None) -> int:
    """Return the number of runs that completed or diverged; 0 without results."""
    if ds is None:
        return 0
    return int(ds["status"].isin((COMPLETED, DIVERGED)).sum())


def _stem(artifact: str, part: str) -> str:
    """Return the name of an artifact's files, without suffix."""
    if not artifact.startswith(OWN) and artifact not in set(artifacts()["id"]):
        raise ValueError(
            f"unknown artifact {artifact!r}; expected an id of data/published/artifacts.csv, "
            f"or a name that begins with {OWN!r}"
        )
    stem = artifact
    if part:
        stem = f"{artifact}-{part}"
    check_name("the file", stem)
    return stem
