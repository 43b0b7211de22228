"""Write the figures and tables of a notebook, each with a manifest that says what it is.

Files go to ``tables/`` and ``figures/`` of the folder ``<out>/made/<notebook>/<result set>/``, named by
the artefact's id in `data/published/artefacts.csv`. The report and the coverage table read the manifests, and
a manifest is written last: where one exists, its files are whole.
"""

from functools import partial
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import xarray as xr
from IPython.display import Image, Markdown, display
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from pandas.io.formats.style import Styler

from study.paths import ROOT, resolve
from study.pipeline.files import write_whole
from study.results.claims import sentences
from study.results.learned import data_and_length, networks_learned, stands_in
from study.results.manifest import Manifest, check_name
from study.results.published import artefacts
from study.results.schema import COMPLETED, DIVERGED

OWN = "own-"
"""Prefix of artefacts that no text publishes."""

CLAIMS = f"{OWN}claims"
"""Name of a notebook's judged claims; the report collects them."""

_DPI = 160
"""Dots per inch of a kept picture."""


class Artefacts:
    """The figures and tables that one notebook makes from one set of results: shown, and kept.

    `out` receives ``made/``; relative paths count from the repository root. `result_set` is ``rebuilt``, ``reference`` or
    ``simulated``. Profile and number of attempts stand beside every table: those of the results `ds`, unless `profile` and
    `runs` say others. `published_scale` says whether the experiment has the size that the text prints.
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
            check_name(what, name)
        if runs is None:
            runs = 0 if ds is None else ds["status"].isin((COMPLETED, DIVERGED)).sum()
        self.profile = str(profile if profile is not None else ds.attrs["profile"])
        self.runs = int(runs)
        self.trained_on = "" if ds is None else data_and_length(ds)
        self.learned = ds is not None and networks_learned(ds) is True
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
        shown: pd.DataFrame | Styler | None = None,
        precision: int = 3,
    ) -> None:
        """Keep `frame` as `save_table` does, and display it, or in its place `shown`; a `Styler` keeps its own format."""
        self.save_table(frame, artefact, caption=caption, part=part)
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
        """Write `figure` as PNG and SVG and its `data` as CSV, and display the PNG: drawing is what takes time.

        Equal figures are equal files: no dates, and ids in the SVG that do not change from run to run.
        """
        path = self.figures / f"{_stem(artefact, part)}.png"
        said = {"artefact": artefact, "part": part, "kind": "figure", "caption": caption}
        self._save(data, path, figure, **said)
        width, height = figure.canvas.get_width_height()
        display(Image(path.read_bytes(), width=width, height=height))
        plt.close(figure)  # Jupyter shows open figures once more at the end of a cell

    def show_claims(self, judged: pd.DataFrame) -> None:
        """Keep what `study.results.claims.Judges` found for the report, and display one sentence a claim."""
        path, caption = self.tables / f"{CLAIMS}.csv", "The text's claims, judged."
        self._save(judged, path, artefact=CLAIMS, kind="claims", caption=caption)
        display(Markdown("\n".join(f"- {sentence}" for sentence in sentences(judged))))

    def save_table(
        self, frame: pd.DataFrame, artefact: str, *, caption: str, part: str = ""
    ) -> Path:
        """Write `frame` as CSV and return its path.

        A named index becomes columns, a mere numbering is left out. With `part` the table is a
        companion of the artefact (``diss-tab-1.7-by-task.csv``), beside its main file. A ValueError says that the artefact is
        unknown, or that `frame` has nested columns, which CSV cannot hold.
        """
        path = self.tables / f"{_stem(artefact, part)}.csv"
        return self._save(frame, path, artefact=artefact, part=part, kind="table", caption=caption)

    def _save(
        self, data: pd.DataFrame, path: Path, figure: Figure | None = None, **said: str
    ) -> Path:
        """Write what is to be kept, and last its manifest, of which fields are `said`."""
        manifest = path.with_suffix(".json")
        manifest.unlink(missing_ok=True)
        _write_csv(data, path.with_suffix(".csv"))
        if figure:
            _draw(figure, path)
        content = Manifest(
            profile=self.profile,
            runs=self.runs,
            trained_on=self.trained_on,
            learned=self.learned,
            stand_in=self.stand_in,
            published_scale=self.published_scale,
            file=(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path).as_posix(),
            **said,
        )
        text = content.model_dump_json(indent=2, exclude_defaults=True) + "\n"
        write_whole(manifest, lambda target: target.write_text(text, encoding="utf-8"))
        return path


def _draw(figure: Figure, path: Path) -> None:
    """Write `figure` at `path` as PNG, and beside it as SVG.

    Each is drawn once, and laid out once for both: `Figure.savefig` draws twice, the first time for the layout alone.
    """
    shown = figure.dpi
    with mpl.rc_context({"svg.hashsalt": path.stem}):
        figure.set_dpi(_DPI)
        draw = partial(FigureCanvasAgg(figure).print_png, metadata={"Software": None})
        write_whole(path, draw)
        figure.set_layout_engine("none")
        draw = partial(FigureCanvasSVG(figure).print_svg, metadata={"Date": None})
        write_whole(path.with_suffix(".svg"), draw)
    figure.set_dpi(shown)


def _stem(artefact: str, part: str) -> str:
    if not artefact.startswith(OWN) and artefact not in set(artefacts()["id"]):
        raise ValueError(
            f"unknown artefact {artefact!r}; expected an id of data/published/artefacts.csv, "
            f"or a name that begins with {OWN!r}"
        )
    stem = f"{artefact}-{part}" if part else artefact
    check_name("the file", stem)
    return stem


def _write_csv(frame: pd.DataFrame, path: Path) -> None:
    if frame.columns.nlevels > 1:
        raise ValueError(f"{path.stem}: expected one row of column names, got nested columns")
    named = any(name is not None for name in frame.index.names)
    write_whole(path, lambda target: frame.to_csv(target, index=named, lineterminator="\n"))
