"""What the vital signs (UnICORNN's Table 4, LEM's Table 3) say of the texts' claims."""

import xarray as xr

from lib.analysis.network_claims import Networks, drawn
from lib.results.claims import Finding, Judges, smallest

HEART, BREATH, PATIENT = "heart rate", "respiratory rate", "heart rate by patient"
OTHERS = ("LSTM", "expRNN", "IndRNN", "coRNN")
LEM_OTHERS = (*OTHERS, "chrono-LSTM", "UnICORNN")

judges = Judges("vitals")


def _drawn(unicornn: float, lem: float = 4.0, lstm: float = 3.0):
    """Draw errors in which the LSTM's is `lstm`, all others' but the two texts' networks are 3."""
    names = dict.fromkeys(LEM_OTHERS, 3.0) | {"UnICORNN": unicornn, "LEM": lem, "LSTM": lstm}
    scores = {(name, task): value for task in (HEART, BREATH) for name, value in names.items()}
    return drawn(scores, spread=0.1, measure="error", guess=13.0)


def _over_all(ds: xr.Dataset, label: str, others: tuple[str, ...], task: str) -> Finding:
    networks = Networks(ds, task)
    return smallest(networks.ratio(other, label) for other in others)


@judges.judge("unicornn-vitals-rr", false=_drawn(4.0), true=_drawn(1.5))
def unicornn_leads_breath(ds: xr.Dataset) -> Finding:
    return _over_all(ds, "UnICORNN", OTHERS, BREATH)


@judges.judge("unicornn-vitals-hr", false=_drawn(4.0), true=_drawn(1.5))
def unicornn_leads_heart(ds: xr.Dataset) -> Finding:
    return _over_all(ds, "UnICORNN", OTHERS, HEART)


@judges.judge("unicornn-vitals-lstm", false=_drawn(2.0), true=_drawn(0.8))
def lstm_is_poor(ds: xr.Dataset) -> Finding:
    return Networks(ds, HEART).ratio("LSTM", "UnICORNN")


@judges.judge("lem-heartrate-best", false=_drawn(3.0, 4.0), true=_drawn(3.0, 1.5))
def lem_leads(ds: xr.Dataset) -> Finding:
    return _over_all(ds, "LEM", LEM_OTHERS, HEART)


@judges.judge("lem-heartrate-unicornn", false=_drawn(3.0, 3.0), true=_drawn(3.0, 1.5))
def lem_far_below_unicornn(ds: xr.Dataset) -> Finding:
    return Networks(ds, HEART).ratio("LEM", "UnICORNN")
