"""The residuals of linear models fitted task by task, for the notebooks of first and second order."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from lib.plotting import colour, label, legend_below, marker


def plot_residuals(residuals: pd.DataFrame) -> tuple[Figure, pd.DataFrame]:
    """Draw `lib.analysis.task_models.TaskFits.residuals` against fitted values and normal quantiles, and the spread of each architecture.

    The table has ``architecture``, ``attempts``, ``spread`` (standard deviation) and ``outliers`` (share of standardised residuals beyond 3; 0.3% of normal ones are).
    """
    groups = residuals.groupby("architecture", sort=False)
    table = groups.agg(
        attempts=("residual", "size"),
        spread=("residual", "std"),
        outliers=("standardised", lambda part: (part.dropna().abs() > 3).mean()),
    ).reset_index()
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.9))
    left.axhline(0, color="black", linewidth=0.8, linestyle="--")
    for name, rows in groups:
        look = {"color": colour(name), "label": label(name), "markersize": 3, "alpha": 0.5}
        left.plot(rows["fitted"], rows["residual"], marker(name), rasterized=True, **look)
    values = np.sort(residuals["standardised"].dropna())
    if len(values):
        quantiles = stats.norm.ppf((np.arange(len(values)) + 0.5) / len(values))
        middle.plot(quantiles, values, ".", color="#4C78A8", markersize=3, rasterized=True)
        middle.axline((0, 0), slope=1, color="black", linewidth=0.8, linestyle="--")
    else:
        middle.text(0.5, 0.5, "no degree of freedom left", ha="center", transform=middle.transAxes)
    tints = [colour(name) for name in table["architecture"]]
    right.barh(table["architecture"].map(label), table["spread"], color=tints)
    right.invert_yaxis()
    left.set(xlabel="fitted task accuracy", ylabel="residual")
    middle.set(xlabel="normal quantile", ylabel="standardised residual")
    right.set_xlabel("standard deviation of residuals")
    legend_below(figure, ncols=7)
    return figure, table
