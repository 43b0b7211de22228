"""What pixels read one by one (UnICORNN's Tables 1 and 7 and Figure 5, LEM's Table 1 and Figure 7) say of the texts' claims."""

from dataclasses import replace

import numpy as np
import xarray as xr

from lib.analysis.network_claims import Networks, drawn, on_task
from lib.analysis.networks import chosen_rates, hyper_parameter
from lib.analysis.scales import CLASS, decays, histograms, reach
from lib.results.claims import Finding, Judges, geometric_mean, largest, mean, smallest, unable

SEQUENTIAL, PERMUTED = "sMNIST", "psMNIST"
NETWORKS = (
    "LSTM",
    "GRU",
    "chrono-LSTM",
    "antisymmetric",
    "Lipschitz",
    "expRNN",
    "coRNN",
    "LEM",
    "IndRNN",
    "UnICORNN",
    "wide UnICORNN",
)
OF_LEM, OF_UNICORNN = NETWORKS[:8], ("LSTM", "GRU", "expRNN", "coRNN", "IndRNN")
"""Networks of LEM's table, and those that UnICORNN's compares with."""

judges = Judges("pixels")


def _drawn(spread: float = 1.0, **scores: float):
    names = {"wide": "wide UnICORNN"}
    given = {names.get(name, name): score for name, score in scores.items()}
    levels = {name: given.get(name, 90.0) for name in NETWORKS}
    return drawn(on_task(levels, SEQUENTIAL, PERMUTED), spread=spread)


@judges.judge("unicornn-4-psmnist-lead", false=_drawn(wide=91, GRU=92), true=_drawn(wide=98))
def unicornn_leads(ds: xr.Dataset) -> Finding:
    return Networks(ds, PERMUTED).leads("wide UnICORNN", OF_UNICORNN)


@judges.judge("unicornn-4-psmnist-gated", false=_drawn(wide=89), true=_drawn(wide=98))
def unicornn_beats_the_gated(ds: xr.Dataset) -> Finding:
    return Networks(ds, PERMUTED).leads("wide UnICORNN", ("LSTM", "GRU"))


@judges.judge("unicornn-E-spread-psmnist", false=_drawn(spread=6.0), true=_drawn(spread=0.2))
def unicornn_varies_little(ds: xr.Dataset) -> Finding:
    networks = Networks(ds, PERMUTED)
    return largest(networks.deviation(name) for name in ("UnICORNN", "wide UnICORNN"))


@judges.judge("lem-5-smnist-lead", false=_drawn(LEM=91, coRNN=92), true=_drawn(LEM=98))
def lem_leads(ds: xr.Dataset) -> Finding:
    return Networks(ds, SEQUENTIAL).leads("LEM", OF_LEM)


@judges.judge("lem-5-smnist-lstm", false=_drawn(LEM=88), true=_drawn(LEM=98))
def lem_beats_the_lstm(ds: xr.Dataset) -> Finding:
    return smallest(Networks(ds, task).lead("LEM", "LSTM") for task in (SEQUENTIAL, PERMUTED))


@judges.judge("lem-5-psmnist-cornn", false=_drawn(LEM=84))
def lem_equals_cornn(ds: xr.Dataset) -> Finding:
    networks = Networks(ds, PERMUTED)
    return networks.refusal("LEM", "coRNN") or networks.lead("LEM", "coRNN")


def _steps(ds: xr.Dataset, label: str, task: str) -> tuple[Networks, xr.Dataset]:
    """Return the networks of a task, and the results of one of them, at its best learning rate."""
    best = chosen_rates(ds)
    chosen = (best["label"] == label) & (best["task_label"] == task)
    return Networks(ds, task), best.isel(run=np.flatnonzero(chosen))


def _with_steps(law):
    """Return how to draw a table in which the networks' time steps are shared out by `law`, of their decade's lower end."""

    def draw(rng: np.random.Generator, replicates: int = 6) -> xr.Dataset:
        ds = _drawn()(rng, replicates)
        decade = np.round(np.arange(-3, 0, 0.1), 1)
        shape = (ds.sizes["run"], replicates, 2, 3, len(decade))
        shares = law(decade) * rng.uniform(0.9, 1.1, shape)
        dims = ("run", "replicate", "stage", "scale", "decade")
        return ds.assign(
            time_step_share=(dims, shares / shares.sum(-1, keepdims=True))
        ).assign_coords(stage=["untrained", "trained"], scale=[0, 1, 2], decade=decade)

    return draw


@judges.judge(
    "unicornn-4-timesteps", false=_with_steps(lambda decade: (decade > -1.4) & (decade < -0.7))
)
def unicornn_learns_small_steps(ds: xr.Dataset) -> Finding:
    networks, chosen = _steps(ds, "wide UnICORNN", PERMUTED)
    if refused := networks.refusal("wide UnICORNN"):
        return refused
    low = reach(histograms(chosen)).query("stage == 'trained'")["low"]
    found = geometric_mean(largest_step(chosen) / low, networks.scale("wide UnICORNN"))
    half = 10 ** (CLASS / 2)  # where in its class the smallest step lies is not known
    return replace(found, low=found.low / half, high=found.high * half)


def largest_step(ds: xr.Dataset) -> float:
    """Return the largest time step that UnICORNN may take: dt, of which the logistic function leaves a share."""
    given = hyper_parameter(ds, "dt").iloc[0]
    return 10**-0.7 if given is None else float(np.max(given))


@judges.judge(
    "lem-B2-smnist-power", false=_with_steps(lambda decade: 10**decade * np.exp(-30 * 10**decade))
)
def steps_decay_by_a_power(ds: xr.Dataset) -> Finding:
    networks, chosen = _steps(ds, "LEM", SEQUENTIAL)
    if refused := networks.refusal("LEM"):
        return refused
    fits = decays(histograms(chosen)).query("stage == 'trained'").dropna(subset="power")
    if fits.empty:
        return unable("too few sizes of time steps to fit")
    scale = networks.scale("LEM")
    better = fits["power"] - fits["exponential"]
    return smallest(mean(of_kind, scale) for _, of_kind in better.groupby(fits["scale"]))
