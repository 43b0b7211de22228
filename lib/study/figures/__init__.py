"""Figures: their style, and drawings that several notebooks share.

What most notebooks need is imported from here: `style` and `study.results.names`. `networks` has
curves over training and histograms of time steps.
"""

from study.figures.style import ADJOINT_METRIC as ADJOINT_METRIC
from study.figures.style import legend_below as legend_below
from study.figures.style import task_label as task_label
from study.figures.style import use_style as use_style
from study.results.names import color_of as color_of
from study.results.names import label as label
from study.results.names import marker_of as marker_of
