"""Figures of the linear models: every number is drawn, and empty ones are said."""

import chapter1_data
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from lib import plotting
from lib.analysis import comparisons, variance
from lib.analysis import task_models as models
from lib.analysis.accuracy import at_best as keep_best
from lib.analysis.accuracy import entered, grade
from lib.plotting import task_models


@pytest.fixture(scope="module")
def ds():
    return chapter1_data.dataset(chapter1_data.read())


@pytest.fixture(scope="module")
def frame(ds):
    return grade(ds)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def drawn(ax):
    """Return how many points of error bars, lines and markers an axis shows."""
    return sum(
        len(line.get_xdata()) for line in ax.lines if line.get_marker() not in ("None", "_", "")
    )


def test_effects_have_a_panel_for_each_architecture_and_data_set(frame):
    effects = models.fit_first_order(frame).coefficients.query("term == 'architecture'")
    figure = task_models.plot_effects(effects, ["rnn", "lipschitz"], reference="antisymmetric")
    axes = np.reshape(figure.axes, (2, 2))
    assert [ax.get_title() for ax in axes[0]] == ["Digits", "IMDB"]
    assert [ax.get_ylabel() for ax in axes[:, 0]] == ["Basic\nRNN", "Lipschitz\nRNN"]
    points = [[drawn(ax) for ax in row] for row in axes]
    assert points == [[2, 2], [2, 1]], "the inestimable effect of one task has no point"
    assert "Antisymmetric RNN" in figure.get_supylabel()


def test_effects_without_errors_have_no_bars(frame):
    alone = models.fit_first_order(frame[frame["replicate"] == 0])
    effects = alone.coefficients.query("term == 'architecture'")
    figure = task_models.plot_effects(effects, ["rnn"], reference="antisymmetric")
    assert (
        sum(drawn(ax) for ax in figure.axes)
        == effects.query("architecture == 'rnn'")["estimate"].count()
    )


def test_times_show_every_attempt(ds, frame):
    at_best = keep_best(frame)
    times = comparisons.convergence_times(ds, at_best)
    figure = task_models.plot_times(times, frame, window=3)
    assert len(figure.axes) == 2 * 4
    assert sum(drawn(ax) for ax in figure.axes) == len(entered(at_best))
    assert figure.axes[0].get_ylim()[1] > 3


def test_rejections_say_where_no_test_was_made(frame):
    few = models.fit_second_order(frame[frame["width"] == 8])
    counts = comparisons.count_rejections(
        few.coefficients, comparisons.compare_tasks(few.coefficients)
    )
    ax = task_models.plot_rejections(counts).axes[0]
    words = {text.get_position()[1]: text.get_text() for text in ax.texts}
    terms = [text.get_text() for text in ax.get_yticklabels()]
    assert words == {terms.index("recurrent dimension"): "no test could be made"}
    assert drawn(ax) == counts["share"].notna().sum()


def test_spreads_leave_out_groups_of_equal_attempts(frame):
    spreads = variance.spreads(keep_best(frame))
    spreads.loc[0, "deviation"] = 0.0
    figure = task_models.plot_spreads(spreads)
    assert drawn(figure.axes[0]) == len(spreads) - 1


def test_residuals_are_summed_up_by_architecture(frame):
    fits = models.fit_second_order(frame)
    figure, table = task_models.plot_residuals(fits.residuals)
    assert table["attempts"].sum() == len(fits.residuals)
    own = fits.residuals.query("architecture == 'gru'")
    row = table.set_index("architecture").loc["gru"]
    assert row["spread"] == pytest.approx(own["residual"].std())
    assert row["outliers"] == pytest.approx((own["standardised"].abs() > 3).mean())
    assert to_hex(figure.axes[2].patches[0].get_facecolor()) == to_hex(plotting.colour("rnn"))


def test_residuals_of_an_exact_fit_say_so(frame):
    fits = models.fit_first_order(frame[frame["replicate"] == 0])
    figure, table = task_models.plot_residuals(fits.residuals)
    assert [text.get_text() for text in figure.axes[1].texts] == ["no degree of freedom left"]
    assert table["outliers"].isna().all()
