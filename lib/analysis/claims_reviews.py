"""What film reviews (UnICORNN's Tables 5 and 7) say of the text's claims."""

import xarray as xr

from lib.analysis.network_claims import Networks, drawn
from lib.results.claims import Finding, Judges

TASK = "IMDB"
NETWORKS = ("LSTM", "GRU", "coRNN", "UnICORNN")

judges = Judges("reviews")


def _drawn(spread: float = 1.0, **scores: float):
    levels = {(name, TASK): scores.get(name, 85.0) for name in NETWORKS}
    return drawn(levels, spread=spread, guess=50.0)


@judges.judge("unicornn-4-imdb-lead", false=_drawn(), true=_drawn(UnICORNN=92))
def unicornn_leads(ds: xr.Dataset) -> Finding:
    return Networks(ds, TASK).leads("UnICORNN", NETWORKS)


@judges.judge("unicornn-4-imdb-gated", false=_drawn(LSTM=90), true=_drawn(UnICORNN=90))
def unicornn_needs_fewer_parameters(ds: xr.Dataset) -> Finding:
    return Networks(ds, TASK).leads("UnICORNN", ("LSTM", "GRU"))


@judges.judge("unicornn-E-spread-imdb", false=_drawn(spread=6.0), true=_drawn(spread=0.2))
def unicornn_varies_little(ds: xr.Dataset) -> Finding:
    return Networks(ds, TASK).deviation("UnICORNN")
