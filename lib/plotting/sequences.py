"""Figure 1.1: one image, and the sequences that networks read in its tasks."""

from collections.abc import Mapping
from math import isqrt

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

_NOISE = (1.0, 0.55, 0.1)
"""Orange: only the reader sees which inputs are noise."""


def plot_sequences(
    pixels: np.ndarray,
    sequences: Mapping[tuple[str, str], np.ndarray],
    is_noise: Mapping[str, np.ndarray],
    name: str,
) -> tuple[Figure, pd.DataFrame]:
    """Draw an image and, on one time axis, the sequence of each task.

    Parameters
    ----------
    pixels : (side * side,)
        The image, between 0 and 1.
    sequences
        Inputs (T,) by order and noise.
    is_noise
        Where the noise lies, (T,), by noise.
    name
        The data set's, for the image's title.

    Returns
    -------
    figure : Figure
    data : pandas.DataFrame
        ``order``, ``noise``, ``time_step``, ``value``, ``is_noise``, what is drawn.
    """
    figure = plt.figure(figsize=(11, 4.6))
    grid = figure.add_gridspec(len(sequences), 2, width_ratios=[1, 2.6])
    side, longest = isqrt(len(pixels)), max(map(len, sequences.values()))
    image = figure.add_subplot(grid[:, 0])
    image.imshow(pixels.reshape(side, side), cmap="gray", vmin=0, vmax=1)
    image.set(xlabel="column", ylabel="row", title=f"{name}, {side} × {side} pixels")
    image.grid(False)
    parts = []
    for row, ((order, noise), values) in enumerate(sequences.items()):
        ax, steps = figure.add_subplot(grid[row, 1]), len(values)
        tint = np.where(is_noise[noise][:, None], _NOISE, (1.0, 1.0, 1.0))
        ax.imshow((values[:, None] * tint)[None], aspect="auto", extent=(0.5, steps + 0.5, 0, 1))
        ax.set(xlim=(0.5, longest + 0.5), yticks=[])
        ax.set_title(f"{order} × {noise}, {steps:,} inputs", loc="left", fontsize=10)
        ax.grid(False)
        ax.spines[:].set_visible(False)
        last = row == len(sequences) - 1
        ax.tick_params(bottom=last, labelbottom=last)
        drawn = {"time_step": np.arange(1, steps + 1), "value": values, "is_noise": is_noise[noise]}
        parts.append(pd.DataFrame({"order": order, "noise": noise} | drawn))
    ax.set_xlabel("time step t")
    return figure, pd.concat(parts, ignore_index=True)
