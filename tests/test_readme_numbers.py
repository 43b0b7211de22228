"""The numbers behind README.md, stored from what the pipeline made, and the one figure."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from study.claims.estimates import Estimate
from study.claims.judging import judged_row, show_claims
from study.report.intervention import EFFECTS
from study.report.readme import STORED
from study.report.readme_numbers import (
    CELLS,
    SLOPE_CLAIM,
    SLOPES,
    draw_slopes,
    read_stored,
    store_numbers,
)
from study.results.artifacts import Artifacts
from study.stats.power import Z


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The numbers stored from a small `data` folder."""
    folder = tmp_path_factory.mktemp("readme")
    data = folder / "data"
    about = {"result_set": "reference", "profile": "real", "runs": 9}
    tenet = Artifacts(data, notebook="30_tenet", **about)
    slopes = {
        "variances": ["as they are, robust", "the paper", "single precision, robust"],
        "estimate": [0.001, 0.003, 0.0025],
        "error": [0.0001, 0.0005, 0.0002],
    }
    tenet.save_table(pd.DataFrame(slopes), SLOPES, caption="Slopes.")
    judged = judged_row(SLOPE_CLAIM, Estimate(0.002, 0.0015, 0.0025))
    show_claims(tenet, pd.DataFrame([judged]))
    experiment = Artifacts(data, notebook="31_adjoint_interventions", **about)
    effects = pd.read_csv(STORED / "intervention.csv")
    experiment.save_table(effects, EFFECTS, caption="Effects.")
    cells = pd.DataFrame({"cell": ["LEM"], "engines": ["reference, numba-cpu"], "year": [2021]})
    about = {"result_set": "rebuilt", "profile": "none", "runs": 0}
    Artifacts(data, notebook="50_cells", **about).save_table(cells, CELLS, caption="Cells.")
    store_numbers(data, folder / "stored")
    return folder / "stored"


def test_slopes_are_in_points_with_their_intervals(stored):
    slopes = pd.read_csv(stored / "slopes.csv")
    assert slopes["gradients"].is_unique
    assert slopes["slope"].tolist() == pytest.approx([0.3, 0.25, 0.2, 0.1])
    assert slopes["low"].tolist() == pytest.approx(
        [0.3 - 0.05 * Z, 0.25 - 0.02 * Z, 0.15, 0.1 - 0.01 * Z]
    )
    assert slopes["high"].tolist() == pytest.approx(
        [0.3 + 0.05 * Z, 0.25 + 0.02 * Z, 0.25, 0.1 + 0.01 * Z]
    )


def test_every_claim_has_a_stored_verdict(stored):
    judged = read_stored(stored).set_index("id")
    assert judged.loc[SLOPE_CLAIM, ["verdict", "low"]].tolist() == ["agrees", 0.0015]
    assert set(judged["verdict"]) == {"agrees", "not judged yet"}


def test_cells_and_effects_are_stored(stored):
    assert (stored / "cells.csv").read_text() == 'cell,engines\nLEM,"reference, numba-cpu"\n'
    assert (stored / "intervention.csv").read_text() == (STORED / "intervention.csv").read_text()
    assert (stored / "slopes.png").read_bytes().startswith(b"\x89PNG")


def test_the_figure_distinguishes_the_paper(stored):
    slopes = pd.read_csv(stored / "slopes.csv")
    figure = draw_slopes(slopes)
    (ax,) = figure.axes
    colors = []
    for bar, row in zip(ax.containers, slopes.itertuples(), strict=True):
        point, _, (interval,) = bar
        assert point.get_xdata().item() == row.slope
        (segment,) = interval.get_segments()
        assert segment[:, 0].tolist() == pytest.approx([row.low, row.high])
        colors.append(point.get_color())
    assert [label.get_text() for label in ax.get_yticklabels()] == slopes["gradients"].tolist()
    assert colors[0] != colors[1] == colors[2] == colors[3]
    plt.close(figure)
