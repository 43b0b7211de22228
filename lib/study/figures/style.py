"""The style of all figures: Matplotlib's defaults, labels of tasks and axes, and legends.

Each architecture has the same color and marker in all figures (`study.results.names`). The markers
distinguish architectures in grayscale print.
"""

import matplotlib as mpl
from matplotlib.figure import Figure

from study.results.names import LOOKS, label

ADJOINT_METRIC = r"adjoint metric  $\log_{10}\,\|\lambda_1\|_2\,/\,\|\lambda_T\|_2$"
"""Axis label of the dissertation's equation 3.6."""


def use_style() -> None:
    """Set Matplotlib's defaults for every figure of the project."""
    mpl.rcParams.update(
        {
            "figure.figsize": (7.0, 4.2),
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "svg.hashsalt": "study.figures",
            "font.size": 11,
            "axes.titlesize": 11,
            "axes.labelsize": 11,
            "legend.fontsize": 10,
            "legend.frameon": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#DDDDDD",
            "grid.linewidth": 0.6,
            "lines.linewidth": 1.8,
            "lines.markersize": 7,
            "axes.prop_cycle": mpl.cycler(color=[color for color, _ in LOOKS.values()]),
            "image.cmap": "viridis",
        }
    )


def task_label(dataset: str, order: str, noise: str) -> str:
    """Return a task as the dissertation writes it.

    Parameters
    ----------
    dataset, order, noise : str
        Levels of the factors of a task (`study.results.factorial`).

    Returns
    -------
    str

    Examples
    --------
    >>> task_label("mnist", "permuted", "uniform")
    'MNIST, permuted × uniform'
    """
    name = f"{label(dataset)}, {order}"
    if noise == "none":
        return name
    return f"{name} × {noise}"


def legend_below(figure: Figure, *, ncols: int = 4) -> None:
    """Give all panels of a figure one legend below them.

    Parameters
    ----------
    figure : Figure
        A name that several of its panels share appears once.
    ncols : int
        Most columns of the legend.
    """
    entries = {}
    for ax in figure.axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    if entries:
        columns = min(ncols, len(entries))
        figure.legend([*entries.values()], [*entries], loc="outside lower center", ncols=columns)
