"""What the very long series (UnICORNN's Table 3, LEM's Tables 2, 10 and 11, both sensitivity figures) say of the texts' claims."""

import pandas as pd
import xarray as xr

from lib.analysis.network_claims import Networks, drawn
from lib.analysis.networks import chosen_rates, outcomes, tuned
from lib.results.claims import Finding, Judges, correlation, smallest, unable

WHOLE, EVERY = "whole series", "every step"
V1, V2 = "dt-LSTM v1", "dt-LSTM v2"
CUT = ("t-BPTT LSTM", "sub-samp. LSTM")
TABLE = ("expRNN", "IndRNN", "coRNN", *CUT)
"""The networks of UnICORNN's Table 3 beside its own."""
LEM_TABLE = ("expRNN", "IndRNN", "LSTM", "chrono-LSTM", "coRNN", "UnICORNN")
FULL = 17_984
"""Steps of the whole series in the texts."""

judges = Judges("worms")


def with_tuned(ds: xr.Dataset) -> xr.Dataset:
    """Return `ds` with LEM and both dt-LSTMs as the texts have them: at the time step that validates best."""
    prefixes = {label: f"{label}, dt=" for label in ("LEM", V1, V2)}
    names = ds["label"].values
    return tuned(ds, {k: p for k, p in prefixes.items() if any(n.startswith(p) for n in names)})


def rates(ds: xr.Dataset) -> pd.DataFrame:
    """Return the accuracy of LEM at each time step: the columns of `outcomes`, and ``dt``."""
    table = outcomes(chosen_rates(ds))
    table = table[table["label"].str.match(r"LEM, dt=") & (table["task_label"] == WHOLE)]
    return table.assign(dt=table["label"].str.split("=").str[1].astype(float)).sort_values("dt")


def subsampled(ds: xr.Dataset) -> pd.DataFrame:
    """Return UnICORNN's accuracy by the steps it reads: the columns of `outcomes`, ``keep`` and ``entries``, counted as in the text."""
    table = outcomes(chosen_rates(ds))
    table = table[(table["label"] == "UnICORNN") & (table["task_label"] != EVERY)]
    found = table["task_label"].str.extract(r"(last|random) ([\d,]+)")
    entries = found[1].str.replace(",", "").astype(float).fillna(FULL)
    table = table.assign(keep=found[0], entries=entries.astype(int))
    whole = table[table["keep"].isna()]
    both = pd.concat([table.dropna(subset="keep"), whole.assign(keep="last")])
    return pd.concat([both, whole.assign(keep="random")]).sort_values(["keep", "entries"])


def _drawn(**accuracy: float):
    """Draw results in which the named networks have these accuracies and all others 60 %."""
    names = (*TABLE, "LSTM", "chrono-LSTM", "UnICORNN", "LEM, dt=1", "LEM, dt=0.01")
    names += ("LEM, dt=0.003", "chrono-LEM, dt=1", f"{V1}, dt=0.1", f"{V2}, dt=0.1")
    scores = {(name, WHOLE): 60 for name in names}
    scores |= {
        ("UnICORNN", f"{keep} {n}"): 60 for keep in ("last", "random") for n in ("1,000", "5,000")
    }
    scores |= {(name.replace("_", " "), WHOLE): value for name, value in accuracy.items()}
    return drawn(scores, spread=2, guess=40)


def _networks(ds: xr.Dataset) -> Networks:
    return Networks(with_tuned(ds), WHOLE)


@judges.judge("unicornn-worms-best", false=_drawn(UnICORNN=50), true=_drawn(UnICORNN=80))
def unicornn_leads(ds: xr.Dataset) -> Finding:
    return _networks(ds).leads("UnICORNN", TABLE)


@judges.judge("unicornn-worms-subsampled", false=_drawn(UnICORNN=50), true=_drawn(UnICORNN=80))
def part_is_not_enough(ds: xr.Dataset) -> Finding:
    return _networks(ds).leads("UnICORNN", CUT)


@judges.judge("unicornn-worms-random", false=_drawn())
def random_steps_lead(ds: xr.Dataset) -> Finding:
    rows = subsampled(ds)
    numbers = sorted(set(rows.loc[rows["entries"] < FULL, "entries"]))
    if not numbers:
        return unable("UnICORNN was not trained on parts of the series")
    found = []
    for n in numbers:
        labels = [f"{keep} {n:,}" for keep in ("random", "last")]
        pair = ds.sel(run=(ds["label"] == "UnICORNN") & ds["task_label"].isin(labels))
        pair = pair.assign(
            label=pair["task_label"], task_label=("run", [WHOLE] * pair.sizes["run"])
        )
        found.append(Networks(pair, WHOLE).lead(*labels))
    return smallest(found)


@judges.judge("unicornn-worms-monotone", false=_drawn())
def more_steps_help(ds: xr.Dataset) -> Finding:
    whole = Networks(ds, WHOLE)
    if refused := whole.refusal("UnICORNN"):
        return refused
    found = []
    for _, rows in subsampled(ds).groupby("keep"):
        entries, scores = [], []
        for row in rows.itertuples():
            values = Networks(ds, row.task_label).scores("UnICORNN")
            scores += values.tolist()
            entries += [row.entries] * len(values)
        found.append(correlation(entries, scores, whole.scale("UnICORNN")))
    return smallest(found)


@judges.judge(
    "lem-worms-best",
    false=_drawn(**{"LEM, dt=0.01": 50, "LEM, dt=0.003": 50, "LEM, dt=1": 50}),
    true=_drawn(**{"LEM, dt=0.01": 80}),
)
def lem_leads(ds: xr.Dataset) -> Finding:
    return _networks(ds).leads("LEM", LEM_TABLE)


@judges.judge("lem-worms-lstm", false=_drawn(LSTM=50), true=_drawn(**{"LEM, dt=0.01": 90}))
def lem_far_above_lstm(ds: xr.Dataset) -> Finding:
    return _networks(ds).lead("LEM", "LSTM")


@judges.judge("lem-worms-chrono-lstm", false=_drawn(), true=_drawn(**{"chrono-LSTM": 75}))
def chrono_helps_lstm(ds: xr.Dataset) -> Finding:
    return _networks(ds).lead("chrono-LSTM", "LSTM")


@judges.judge("lem-worms-chrono-lem", false=_drawn(), true=_drawn(**{"chrono-LEM, dt=1": 75}))
def chrono_helps_lem(ds: xr.Dataset) -> Finding:
    return _networks(ds).lead("chrono-LEM, dt=1", "LEM, dt=1")


@judges.judge(
    "lem-worms-tuned", false=_drawn(**{"chrono-LEM, dt=1": 70}), true=_drawn(**{"LEM, dt=0.01": 80})
)
def tuning_beats_chrono(ds: xr.Dataset) -> Finding:
    return _networks(ds).lead("LEM", "chrono-LEM, dt=1")


@judges.judge("lem-worms-dt", false=_drawn(), true=_drawn(**{"LEM, dt=0.01": 90}))
def small_steps_lead(ds: xr.Dataset) -> Finding:
    return _networks(ds).lead("LEM, dt=0.01", "LEM, dt=1")


@judges.judge("lem-worms-dt-flat", false=_drawn(**{"LEM, dt=0.003": 90}), true=_drawn())
def then_flat(ds: xr.Dataset) -> Finding:
    return _networks(ds).lead("LEM, dt=0.01", rates(ds)["label"].iloc[0])


@judges.judge("lem-worms-dtlstm", false=_drawn(LSTM=70), true=_drawn(LSTM=45))
def scaled_gates_help(ds: xr.Dataset) -> Finding:
    networks = _networks(ds)
    return smallest(networks.lead(one, "LSTM") for one in (V1, V2))


@judges.judge("lem-worms-dtlstm-lem", false=_drawn(), true=_drawn(**{"LEM, dt=0.01": 80}))
def lem_leads_scaled_gates(ds: xr.Dataset) -> Finding:
    networks = _networks(ds)
    return smallest(networks.lead("LEM", one) for one in (V1, V2))


@judges.judge(
    "lem-worms-dtlstm-cut",
    false=_drawn(**{f"{V1}, dt=0.1": 70}),
    true=_drawn(**{f"{V1}, dt=0.1": 50, f"{V2}, dt=0.1": 50}),
)
def parts_lead_scaled_gates(ds: xr.Dataset) -> Finding:
    networks = _networks(ds)
    return smallest(networks.lead(cut, one) for cut in CUT for one in (V1, V2))
