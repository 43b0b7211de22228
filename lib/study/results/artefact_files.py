"""Files of figures and tables: equal content gives equal bytes."""

from functools import partial
from pathlib import Path
from string import ascii_lowercase

import matplotlib as mpl
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from study.pipeline.files import write_whole

_DPI = 300
"""Dots per inch of a stored picture."""
_LABELS = "row"
"""Name of row labels that have none."""


def _letter_panels(figure: Figure) -> None:
    """Write a, b, c … above the left corner of each panel, if there are several.

    Twins share their panel's letter; color bars and insets have none.
    """
    panels = {}
    for ax in figure.axes:
        spec = ax.get_subplotspec()
        if spec is not None and ax.axison and ax.get_label() != "<colorbar>":
            panels.setdefault((id(spec.get_gridspec()), spec.num1, spec.num2), ax)
    if not 1 < len(panels) <= len(ascii_lowercase):
        return
    for letter, ax in zip(ascii_lowercase, panels.values(), strict=False):
        ax.annotate(
            letter,
            xy=(0, 1),
            xytext=(-14, 6),  # above the uppermost tick label
            xycoords="axes fraction",
            textcoords="offset points",
            fontweight="bold",
        )


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, and next to it as SVG; several panels get letters.

    Each file is drawn once, with one layout for both: `Figure.savefig` draws twice, the first time
    for the layout alone.

    Parameters
    ----------
    figure
        The figure; panels and resolution are changed.
    path
        The PNG.
    """
    _letter_panels(figure)
    dpi = figure.dpi
    with mpl.rc_context({"svg.hashsalt": path.stem}):
        figure.set_dpi(_DPI)
        draw = partial(FigureCanvasAgg(figure).print_png, metadata={"Software": None})
        write_whole(path, draw)
        figure.set_layout_engine("none")
        draw = partial(FigureCanvasSVG(figure).print_svg, metadata={"Date": None})
        write_whole(path.with_suffix(".svg"), draw)
    figure.set_dpi(dpi)


def has_labels(frame: pd.DataFrame) -> bool:
    """Return whether the rows of a table have labels, and not just numbers.

    Parameters
    ----------
    frame
        A table.

    Returns
    -------
    bool
        Whole numbers without a name only number the rows, even with gaps.

    Examples
    --------
    >>> has_labels(pd.DataFrame({"x": [1, 2]})), has_labels(pd.DataFrame({"x": [1, 2]}).describe())
    (False, True)
    """
    index = frame.index
    if any(name is not None for name in index.names):
        return True
    return index.nlevels > 1 or not pd.api.types.is_integer_dtype(index)


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV, with its row labels as columns.

    Parameters
    ----------
    frame
        Row labels become columns, named ``row`` if they have no name. Row numbers are left out.
    path
        The file.

    Raises
    ------
    ValueError
        The table has nested columns, which CSV cannot hold.
    """
    if frame.columns.nlevels > 1:
        raise ValueError(f"{path.stem}: expected one row of column names, got nested columns")
    labelled = has_labels(frame)
    labels = []
    for level, name in enumerate(frame.index.names):
        unnamed = _LABELS if level == 0 else f"{_LABELS}_{level + 1}"
        labels.append(unnamed if name is None else name)
    write_whole(
        path,
        lambda target: frame.to_csv(
            target, index=labelled, index_label=labels if labelled else None, lineterminator="\n"
        ),
    )
