"""Files of figures and tables: equal content gives equal bytes."""

from functools import partial
from html import escape
from pathlib import Path
from string import ascii_lowercase

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from pandas.io.formats.style import Styler

from study.pipeline.files import write_whole
from study.results.names import NAMED_COLUMNS, column_words, label
from study.results.number_format import holds_p_values, number_text, p_text, truth_text

DPI = 300
"""Dots per inch of a stored picture."""
_LABELS = "row"
"""Column name of row labels without a name."""


def _letter_panels(figure: Figure) -> None:
    """Write a, b, c … above the left corner of each panel, if there are several.

    Twin axes share the letter of their panel. Color bars and insets have no letter.
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
        The figure. Its panels get letters, and it loses its layout engine.
    path
        The PNG.
    """
    _letter_panels(figure)
    dpi = figure.dpi
    with mpl.rc_context({"svg.hashsalt": path.stem}):
        figure.set_dpi(DPI)
        draw = partial(FigureCanvasAgg(figure).print_png, metadata={"Software": None})
        write_whole(path, draw)
        figure.set_layout_engine("none")
        draw = partial(FigureCanvasSVG(figure).print_svg, metadata={"Date": None})
        write_whole(path.with_suffix(".svg"), draw)
    figure.set_dpi(dpi)


def has_labels(frame: pd.DataFrame) -> bool:
    """Return whether the rows of a table have labels, not only row numbers.

    Parameters
    ----------
    frame
        A table.

    Returns
    -------
    bool
        False for an index of whole numbers without a name, even if it has gaps.

    Examples
    --------
    >>> has_labels(pd.DataFrame({"x": [1, 2]})), has_labels(pd.DataFrame({"x": [1, 2]}).describe())
    (False, True)
    """
    index = frame.index
    if any(name is not None for name in index.names):
        return True
    return index.nlevels > 1 or not pd.api.types.is_integer_dtype(index)


def _is_float(column: pd.Series | pd.DataFrame) -> bool:
    """Return whether a column holds floating-point numbers; False for columns of equal names."""
    return isinstance(column, pd.Series) and pd.api.types.is_float_dtype(column)


def _escaped_p(value: float) -> str:
    """Return a p-value as HTML."""
    return escape(p_text(value))


def _cell_text(value: object, precision: int) -> object:
    """Return the text of a truth value or a number; anything else stays as it is."""
    if isinstance(value, bool | np.bool_):
        return truth_text(bool(value))
    return number_text(value, precision)


def _in_words(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with headings in words and names as in the papers; its numbers are the same.

    Names are in columns, row labels or column labels that are called, say, ``architecture``.
    """
    shown = frame.copy()
    for name in NAMED_COLUMNS:
        if name in shown:
            shown[name] = shown[name].map(label)
        if name in shown.index.names:
            shown = shown.rename(index=label, level=name)
        if name in shown.columns.names:
            shown = shown.rename(columns=label, level=name)
    shown = shown.rename(columns=column_words)
    return shown.rename_axis(index=column_words, columns=column_words)


def style_table(frame: pd.DataFrame, *, precision: int = 3) -> Styler:
    """Return a table as notebooks display it.

    Headings, names and truth values are those of the report: ``p value`` for ``p_value``, names of
    architectures and data sets as the papers write them, and ``yes`` or ``no``. Labels that are
    numbers, such as learning rates, have as many digits as they need. P-values (columns with the
    word ``p`` in their name) have two significant digits, and small ones are written as
    ``< 0.0001``. Row numbers are hidden.

    Parameters
    ----------
    frame
        A table.
    precision
        Decimals of the numbers in its cells.

    Returns
    -------
    pandas.io.formats.style.Styler
        The table, with a dash for each missing value.
    """
    frame = _in_words(frame)
    style = frame.style.format(partial(_cell_text, precision=precision), na_rep="–")
    p_columns = [name for name in frame.columns if holds_p_values(name) and _is_float(frame[name])]
    if p_columns:
        style = style.format(_escaped_p, subset=p_columns, na_rep="–")
    for axis, labels in (("index", frame.index), ("columns", frame.columns)):
        for level in range(labels.nlevels):
            if pd.api.types.is_float_dtype(labels.get_level_values(level)):
                style = style.format_index("{:g}", axis=axis, level=level, na_rep="–")
    if not has_labels(frame):
        style = style.hide(axis="index")
    return style


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
    labeled = has_labels(frame)
    labels = None
    if labeled:
        labels = _names_of_labels(frame.index)
    write_whole(
        path,
        lambda target: frame.to_csv(target, index=labeled, index_label=labels, lineterminator="\n"),
    )


def _names_of_labels(index: pd.Index) -> list[str]:
    """Return the column names of row labels; those without a name are called row, row_2, ..."""
    names = []
    for level, name in enumerate(index.names, start=1):
        if name is not None:
            names.append(name)
        elif level == 1:
            names.append(_LABELS)
        else:
            names.append(f"{_LABELS}_{level}")
    return names
