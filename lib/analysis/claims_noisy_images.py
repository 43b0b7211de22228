"""What noise-padded images (UnICORNN's Tables 2 and 7, Figures 3 and 4; LEM's Table 1) say of the texts' claims."""

import xarray as xr

from lib.analysis.network_claims import Networks, drawn
from lib.results.claims import Finding, Judges, smallest

TASK = "nCIFAR-10"
OTHERS = ("LSTM", "Lipschitz", "FastRNN", "antisymmetric", "gated antisymmetric", "coRNN")
"""Networks of UnICORNN's Table 2."""
OF_LEM = ("GRU", "LSTM", "chrono-LSTM", "antisymmetric", "Lipschitz", "expRNN", "coRNN", "LEM")
LAYERS = (3, 4, 5, 6)
DT = ("UnICORNN, dt=0.04", "UnICORNN", "UnICORNN, dt=0.4")
ALPHA = ("UnICORNN, alpha=1.3", "UnICORNN, alpha=4", "UnICORNN")
KINDS = ("UnICORNN", "residual UnICORNN", "single-scale UnICORNN")

judges = Judges("noisy_images")


def stack(kind: str, layers: int) -> str:
    """Return the name of a stack of layers: standard, residual, or with all time steps alike."""
    return kind if (kind, layers) == ("UnICORNN", 3) else f"{kind}, L={layers}"


def _drawn(spread: float = 1.0, **scores: float):
    """Return how to draw all networks: those named by the word they begin with or contain, 40 % otherwise."""
    names = {*OTHERS, *OF_LEM, *DT, *ALPHA, *(stack(kind, n) for kind in KINDS for n in LAYERS)}
    levels = {
        (name, TASK): next(
            (v for word, v in scores.items() if word in name.replace("=", "").replace(".", "")),
            40.0,
        )
        for name in sorted(names)
    }
    return drawn(levels, spread=spread)


@judges.judge("unicornn-4-ncifar-lead", false=_drawn(coRNN=43), true=_drawn(UnICORNN=60))
def unicornn_leads(ds: xr.Dataset) -> Finding:
    return Networks(ds, TASK).leads("UnICORNN", OTHERS)


@judges.judge("unicornn-4-ncifar-lstm", false=_drawn(LSTM=40.5), true=_drawn(LSTM=12))
def unicornn_beats_the_lstm(ds: xr.Dataset) -> Finding:
    return Networks(ds, TASK).lead("UnICORNN", "LSTM")


@judges.judge("unicornn-E-spread-ncifar", false=_drawn(spread=6.0), true=_drawn(spread=0.2))
def unicornn_varies_little(ds: xr.Dataset) -> Finding:
    return Networks(ds, TASK).deviation("UnICORNN")


def _stacks(networks: Networks, one: str, over: str, layers: tuple[int, ...]) -> Finding:
    return smallest(networks.lead(stack(one, n), stack(over, n)) for n in layers)


@judges.judge("unicornn-E-residual-deep", false=_drawn(residual=39), true=_drawn(residual=50))
def residual_wins_deep(ds: xr.Dataset) -> Finding:
    return _stacks(Networks(ds, TASK), KINDS[1], KINDS[0], (5, 6))


@judges.judge("unicornn-E-residual-shallow", false=_drawn(residual=44))
def residual_equals_shallow(ds: xr.Dataset) -> Finding:
    pairs = [(stack("residual UnICORNN", n), stack("UnICORNN", n)) for n in (3, 4)]
    return Networks(ds, TASK).apart(pairs)


@judges.judge("unicornn-E-multiscale", false=_drawn(), true=_drawn(single=30))
def scales_help(ds: xr.Dataset) -> Finding:
    networks = Networks(ds, TASK)
    return smallest(_stacks(networks, kind, KINDS[2], LAYERS) for kind in KINDS[:2])


@judges.judge("unicornn-4-ablation-dt", false=_drawn(), true=_drawn(dt004=20))
def accuracy_depends_on_dt(ds: xr.Dataset) -> Finding:
    return Networks(ds, TASK).apart([(DT[0], DT[1]), (DT[0], DT[2]), (DT[1], DT[2])])


@judges.judge("unicornn-4-ablation-alpha", false=_drawn(alpha1=52), true=_drawn(spread=0.2))
def accuracy_hardly_depends_on_alpha(ds: xr.Dataset) -> Finding:
    pairs = [(ALPHA[0], ALPHA[1]), (ALPHA[0], ALPHA[2]), (ALPHA[1], ALPHA[2])]
    return Networks(ds, TASK).apart(pairs)


@judges.judge("lem-5-ncifar-lead", false=_drawn(coRNN=43), true=_drawn(LEM=60))
def lem_leads(ds: xr.Dataset) -> Finding:
    return Networks(ds, TASK).leads("LEM", OF_LEM)


@judges.judge("lem-5-ncifar-chrono", false=_drawn(chrono=40), true=_drawn(chrono=60, LSTM=30))
def chrono_beats_the_lstm(ds: xr.Dataset) -> Finding:
    return Networks(ds, TASK).lead("chrono-LSTM", "LSTM")
