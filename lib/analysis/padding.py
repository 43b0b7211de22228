"""Padded images (experiment 2.3): medians and spreads, who learned, and failures that look like results (Table 2.2)."""

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binom, median_abs_deviation

from lib.plotting import legend_below
from lib.results.schema import NOT_PLANNED


class Look(NamedTuple):
    """How a method appears in tables and figures."""

    label: str
    colour: str
    marker: str


METHODS = {
    "adjoint": Look("RNN adjoint", "#000000", "o"),
    "coadjoint": Look("RNN coadjoint", "#0072B2", "s"),
    "constrained": Look("RNN constrained", "#009E73", "^"),
    "lstm": Look("LSTM", "#E69F00", "D"),
    "reservoir": Look("RNN RC", "#CC79A7", "v"),
    "fixed_w": Look("RNN, W fixed", "#D55E00", "<"),
    "linear": Look("Linear RNN adjoint", "#56B4E9", "P"),
}
"""The methods as Table 2.2 calls them; the last two are not in it, although its reservoir may be either."""
FIXED = ("reservoir", "fixed_w")
"""Networks whose recurrent weights stay as they were drawn: all but the output layer, or W alone."""
AUTHOR_SCALE = "1/T"
"""Input weights of the author's public research code, of which the tables and figures of the text are."""
STATUS = ("completed", "diverged", "missing")

CONFIDENCE = 0.999
"""How sure it must be that an accuracy is no guess."""

PUBLISHED_EXAMPLES = 10_000
"""Test images of MNIST and of Fashion MNIST, on which the text's accuracies are measured."""

_PRINTED = 0.001
"""Shares closer than this are printed alike in the text's table, in percent with one decimal."""


def of_scale(ds: xr.Dataset, input_scale: str = AUTHOR_SCALE) -> xr.Dataset:
    """Return the results of the networks whose input weights begin so; older results know one way only.

    The LSTM's begin in one way, whatever the others' do.
    """
    if "input_scale" not in ds.dims:
        return ds
    return ds.sel(input_scale=input_scale).drop_vars("input_scale")


def attempts(ds: xr.Dataset, input_scale: str = AUTHOR_SCALE) -> pd.DataFrame:
    """Return one row per planned attempt of Table 2.2.

    Parameters
    ----------
    ds
        Results of the experiment `padding`.
    input_scale
        Of whose input weights, where there are several.

    Returns
    -------
    pandas.DataFrame
        ``dataset``, ``padding``, ``method``, ``width``, ``replicate``, ``status`` (text), ``accuracy`` and
        ``train_accuracy`` after the last epoch, and ``metric``, log10 of ||lambda_1|| / ||lambda_T|| (3.6); the last
        three are undefined where the attempt did not complete.
    """
    ds = of_scale(ds, input_scale)
    last = ds["accuracy"].isel(epoch=-1)
    frame = xr.Dataset(
        {
            "status": ds["status"],
            "accuracy": last.sel(split="test", drop=True),
            "train_accuracy": last.sel(split="train", drop=True),
            "metric": ds["adjoint_first"] - ds["adjoint_last"],
        }
    )
    rows = frame.drop_vars("epoch", errors="ignore").to_dataframe().reset_index()
    return _completed_only(rows[rows["status"] != NOT_PLANNED].reset_index(drop=True))


def scale_attempts(ds: xr.Dataset) -> pd.DataFrame:
    """Return the `attempts` of networks that begin with input weights of several sizes, with ``input_scale``."""
    if "input_scale" not in ds.dims:
        return attempts(ds).assign(input_scale="").iloc[:0]
    levels = ds["input_scale"].values.tolist()
    rows = pd.concat([attempts(ds, level).assign(input_scale=level) for level in levels])
    several = rows.groupby(["dataset", "padding", "method", "width"])["input_scale"]
    return rows[several.transform("nunique") > 1].reset_index(drop=True)


def sweep_attempts(ds: xr.Dataset) -> pd.DataFrame:
    """Return one row per attempt of the sweep over kappa.

    Returns
    -------
    pandas.DataFrame
        ``padding``, ``initialisation``, ``kappa``, ``replicate``, and ``status``, ``accuracy``, ``metric`` as in `attempts`.
    """
    frame = xr.Dataset(
        {
            "status": ds["sweep_status"],
            "accuracy": ds["sweep_accuracy"].isel(epoch=-1).sel(split="test", drop=True),
            "metric": ds["sweep_adjoint_first"] - ds["sweep_adjoint_last"],
        }
    )
    rows = frame.drop_vars("epoch", errors="ignore").to_dataframe().reset_index()
    return _completed_only(rows.rename(columns=lambda name: name.removeprefix("sweep_")))


def _completed_only(rows: pd.DataFrame) -> pd.DataFrame:
    rows["status"] = rows["status"].map(dict(enumerate(STATUS)))
    measured = [name for name in rows if name in ("accuracy", "train_accuracy", "metric")]
    rows.loc[rows["status"] != "completed", measured] = np.nan
    return rows


def summarise(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the median accuracy and its spread for each group of attempts, as Table 2.2 does.

    Parameters
    ----------
    rows
        As `attempts` or `sweep_attempts` returns them.
    by
        Columns that form the groups; they keep their order of appearance.

    Returns
    -------
    pandas.DataFrame
        `by`, then ``planned``, ``completed``, ``diverged``, ``missing`` (counts), ``median`` and ``mad``, in percent, over the
        completed attempts. The median absolute deviation is the plain one, without a factor for normal data.
    """
    counted = rows.assign(**{name: rows["status"] == name for name in STATUS})
    groups = counted.groupby(list(by), sort=False)
    table = groups.size().rename("planned").to_frame().join(groups[list(STATUS)].sum())
    table["median"] = 100 * groups["accuracy"].median()
    table["mad"] = 100 * groups["accuracy"].agg(_mad)
    return table.reset_index()


def _mad(values: pd.Series) -> float:
    known = values.dropna()
    return median_abs_deviation(known) if len(known) else np.nan


def learning_bound(largest_class: float, examples: int) -> float:
    """Return the accuracy, in percent, beyond which a network does better than naming the largest class.

    Parameters
    ----------
    largest_class
        Share of the largest class in the test part: the text's "baseline".
    examples
        Test sequences.

    Notes
    -----
    The upper `CONFIDENCE` quantile of the binomial distribution. The text gives no rule for "better than baseline".

    >>> round(learning_bound(0.1, 10_000), 2)
    10.94
    """
    return 100 * binom.ppf(CONFIDENCE, examples, largest_class) / examples


def constant_answers(published: pd.DataFrame, first_class: dict[str, float]) -> pd.DataFrame:
    """Return the published cells that look like networks which always name the first class.

    A network whose weights are no longer numbers predicts NaN for every class, and the largest of equal
    NaNs is the first: its accuracy is that class's share, the same in every replicate.

    Parameters
    ----------
    published
        Table 2.2: ``dataset``, ``median`` and ``mad`` in percent, and more.
    first_class
        Share of the first class in each data set's test part.
    """
    share = published["dataset"].map(first_class)
    alike = (published["median"] / 100 - share).abs() < _PRINTED
    return published[alike & (published["mad"] == 0)].reset_index(drop=True)


def learners(
    summary: pd.DataFrame, published: pd.DataFrame, ds: xr.Dataset, *, width: int
) -> pd.DataFrame:
    """Say for each data set, padding and method whether the median network learned, here and in the text.

    Parameters
    ----------
    summary
        Our medians by data set, padding, method and width, as `summarise` returns them.
    published
        Table 2.2.
    ds
        The results, for the shares of classes and the numbers of examples.
    width
        Our recurrent dimension; the text's is its largest.

    Returns
    -------
    pandas.DataFrame
        ``dataset``, ``padding``, ``method``, ``median``, ``bound`` (`learning_bound`), ``learned``; ``published`` and
        ``published_learned``, empty where the text has no such cell. Where every attempt failed, nothing was learned.
    """
    examples = ds["examples"].sel(split="test").to_series()
    largest = ds["largest_class"].to_series()
    keys = ["dataset", "padding", "method"]
    table = summary.loc[summary["width"] == width, [*keys, "median"]].reset_index(drop=True)
    bound = {name: learning_bound(largest[name], examples[name]) for name in largest.index}
    table["bound"] = table["dataset"].map(bound)
    table["learned"] = table["median"] > table["bound"]
    theirs = published[published["width"] == published["width"].max()]
    table = table.merge(
        theirs[[*keys, "median"]].rename(columns={"median": "published"}), on=keys, how="left"
    )
    limit = {name: learning_bound(largest[name], PUBLISHED_EXAMPLES) for name in largest.index}
    beyond = table["published"] > table["dataset"].map(limit)
    table["published_learned"] = beyond.astype(object).where(table["published"].notna(), None)
    return table


def method_label(method: str) -> str:
    """Return how Table 2.2 calls a method."""
    return METHODS[method].label


def table_cells(table: pd.DataFrame) -> pd.DataFrame:
    """Return Table 2.2 for the eye: ours, failures in brackets, and the published cell behind a bar.

    Parameters
    ----------
    table
        Our medians with ``ours``, ``mad``, ``completed``, ``diverged``, ``published`` and ``published_mad``.

    Returns
    -------
    pandas.DataFrame
        Text, by ``dataset``, ``padding`` and ``method``, a column a width.
    """

    def cell(row: tuple) -> str:
        spread = f"± {row.mad:.1f}" if row.completed > 1 else "(one)"
        ours = "–" if pd.isna(row.ours) else f"{row.ours:.1f} {spread}"
        failed = f" ({row.diverged} failed)" if row.diverged else ""
        theirs = "–" if pd.isna(row.published) else f"{row.published:.1f} ± {row.published_mad:.1f}"
        return f"{ours}{failed} | {theirs}"

    shown = table.assign(
        text=[cell(row) for row in table.itertuples()], method=table["method"].map(method_label)
    )
    keys = ["dataset", "padding", "method"]
    order = pd.MultiIndex.from_frame(shown[keys].drop_duplicates())
    return shown.pivot(index=keys, columns="width", values="text").reindex(order).fillna("–")


def coadjoint_gain(rows: pd.DataFrame, width: int) -> pd.DataFrame:
    """Compare the coadjoint RNN with the adjoint one start by start: both share noise, batches and initial weights.

    Parameters
    ----------
    rows
        As `attempts` returns them.
    width
        Recurrent dimension.

    Returns
    -------
    pandas.DataFrame
        ``dataset``, ``padding``; ``median``, ``min`` and ``max`` of the gain in accuracy, in points; ``pairs``, and in how many of
        them the coadjoint RNN is ``better``.
    """
    both = rows[(rows["width"] == width) & rows["method"].isin(("adjoint", "coadjoint"))]
    keys = ["dataset", "padding", "replicate"]
    pairs = both.pivot(index=keys, columns="method", values="accuracy").dropna()
    gain = 100 * (pairs["coadjoint"] - pairs["adjoint"])
    groups = gain.groupby(keys[:2])
    table = groups.agg(["median", "min", "max", "count"]).rename(columns={"count": "pairs"})
    table["better"] = (gain > 0).groupby(keys[:2]).sum()
    return table.reindex(rows["dataset"].unique(), level="dataset").reset_index()


def ceiling(table: pd.DataFrame) -> pd.DataFrame:
    """Return the medians without padding of trained, linear and fixed networks, ours and published.

    Returns
    -------
    pandas.DataFrame
        ``dataset``, ``width``, and ``ours_<method>`` and ``published_<method>`` where there are any.
    """
    kept = table[(table["padding"] == 0) & table["method"].isin(("adjoint", *FIXED, "linear"))]
    wide = kept.pivot(index=["dataset", "width"], columns="method", values=["ours", "published"])
    wide.columns = [f"{whose}_{method}" for whose, method in wide.columns]
    return wide.dropna(how="all", axis=1).reset_index()


def plot_accuracy(
    curves: xr.DataArray, published: pd.DataFrame | None, guess: float
) -> tuple[Figure, pd.DataFrame]:
    """Draw the median test accuracy after every epoch, one panel a padding (Figures 2.4 and 2.5).

    Parameters
    ----------
    curves : (padding, method, replicate, epoch)
        Test accuracy; undefined where there was no attempt, or where it had ended.
    published
        Final medians in percent with ``padding``, ``method``, ``median``: short lines at the right edge; None, or no rows,
        where there are none.
    guess
        Accuracy of a network that always names the largest class.

    Returns
    -------
    figure : Figure
    data : pandas.DataFrame
        ``padding``, ``method``, ``epoch``, ``median``, ``lowest``, ``highest`` in percent, what is drawn.
    """
    groups = (100 * curves).to_series().dropna()
    data = groups.groupby(["padding", "method", "epoch"], sort=False).agg(["median", "min", "max"])
    data = data.set_axis(["median", "lowest", "highest"], axis=1).reset_index()
    paddings, epochs = curves["padding"].values.tolist(), curves["epoch"].values
    size = (2.6 * len(paddings) + 1.2, 4.2)
    figure, axes = plt.subplots(1, len(paddings), figsize=size, sharey=True, squeeze=False)
    for ax, padding in zip(axes[0], paddings, strict=True):
        for method, rows in data[data["padding"] == padding].groupby("method", sort=False):
            name, tint, shape = METHODS[method]
            low, high = rows["lowest"], rows["highest"]
            ax.fill_between(rows["epoch"], low, high, color=tint, alpha=0.15, linewidth=0)
            line = {"color": tint, "marker": shape, "markersize": 5, "label": name}
            ax.plot(rows["epoch"], rows["median"], **line)
        _mark_published(ax, published, padding, epochs)
        ax.axhline(100 * guess, color="0.4", linestyle=":", linewidth=1.2, label="largest class")
        ax.set(title=f"padding {padding}x", xlabel="epoch", ylim=(0, 100))
        ax.xaxis.get_major_locator().set_params(integer=True)
    axes[0, 0].set_ylabel("test accuracy (%)")
    legend_below(figure)
    return figure, data


def _mark_published(
    ax: Axes, published: pd.DataFrame | None, padding: int, epochs: np.ndarray
) -> None:
    if published is None or published.empty:
        return
    reach = max(np.ptp(epochs), 1)
    ends = epochs.max() + 0.08 * reach, epochs.max() + 0.2 * reach
    for row in published[published["padding"] == padding].itertuples():
        style = {"color": METHODS[row.method].colour, "solid_capstyle": "butt"}
        ax.plot(ends, [row.median] * 2, linewidth=3, **style)
    ax.plot([], [], color="0.4", linewidth=3, label="published, at the right")
