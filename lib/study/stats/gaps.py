"""Chapter 2 and section 3.6: networks on long time gaps, with padded images, and latching; their tables, and what they say of the text's claims.

That the states of latching networks stay bounded (Figure 3.7) is no claim: tanh bounds them whatever the weights.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import norm

from study.results import claims
from study.results.claims import Finding, Judges, Scale, mean, share, smallest, unable
from study.results.learned import above_chance, longest
from study.results.networks import about, by_training
from study.results.schema import COMPLETED, NOT_PLANNED, settings_of
from study.stats.attempts import STATUS
from study.stats.regimes import KAPPA

# the task itself: emphasis (Figures 2.2, A1) and how even adjoints are (Figure 2.3)

LEARNED = 0.99
"""Accuracy from which a network counts as one that learned the task."""


def emphasis_table(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return a row for each completed network of `linear_gaps`: how much weight the deciding input t* gets.

    ``rank`` of the input t* by the size of its emphasis, 1 for the largest; its ``share`` in the sum of the squared emphases;
    ``accuracy``, and the accuracy ``expected`` of a network with this emphasis; ``departure`` of W from orthogonality.

    The other T - 1 inputs are independent signs. Their weighted sum is nearly normal, so a network whose emphasis c
    has the right sign at t* is right with probability :math:`\Phi(c_{t^*} / \sqrt{\sum_{t \ne t^*} c_t^2})`.
    """
    at_place = ds["emphasis"].sel(time=ds["place"]).drop_vars("time")
    squares = (ds["emphasis"] ** 2).sum("time")
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = xr.apply_ufunc(norm.cdf, at_place / np.sqrt((squares - at_place**2).clip(0)))
    rank = 1 + (abs(ds["emphasis"]) > abs(at_place)).sum("time")
    measured = ds[["accuracy", "departure", "status"]]
    measured = measured.assign(rank=rank, share=at_place**2 / squares, expected=expected)
    run = ["place", "orthogonality", "replicate"]
    frame = measured.to_dataframe(dim_order=run).reset_index()
    columns = [*run, "rank", "share", "accuracy", "expected", "departure"]
    return frame.loc[frame["status"] == COMPLETED, columns].reset_index(drop=True)


def kept_accuracy(ds: xr.Dataset) -> xr.DataArray:
    """Return the accuracy of the networks that are followed: of the record that validates best, the latest of equals."""
    latest_first = ds["validation_metric"].fillna(-1).isel(record=slice(None, None, -1))
    best = latest_first.argmax("record")
    return ds["test_metric"].isel(record=ds.sizes["record"] - 1 - best).drop_vars("record")


def normalised_adjoints(ds: xr.Dataset) -> xr.DataArray:
    """Return each sequence's adjoint norms over their largest, between 0 and 1 (section 2.6.1); ``nan`` where all are zero."""
    with np.errstate(invalid="ignore"):  # -inf less -inf
        return 10 ** (ds["adjoint_norm"] - ds["adjoint_norm"].max("time"))


# latching: states and adjoint states over time, and how fast these decay (notebooks 46 to 48)


def trajectories(ds: xr.Dataset, horizon: int) -> pd.DataFrame:
    r"""Return the example's trajectories at one length: ``sequence``, ``time`` and three norms.

    ``state`` is :math:`\|x_t\|_2`, ``adjoint`` :math:`\log_{10} \|\lambda_t\|_2` and ``normalised``
    :math:`\|\lambda_t\|_2 / \|\Lambda\|_2` with the norm over all times of the sequence (the text's footnote 7).
    """
    part = ds[["state_norm", "adjoint"]].sel(horizon=horizon, time=slice(1, horizon))
    adjoint = part["adjoint"].astype("float64")
    # The logarithm is left after the largest is taken out: most norms are no floats.
    relative = 10 ** (adjoint - adjoint.max("time"))
    normalised = relative / np.sqrt((relative**2).sum("time"))
    whole = xr.Dataset({"state": part["state_norm"], "adjoint": adjoint, "normalised": normalised})
    return whole.drop_vars("horizon").to_dataframe().reset_index()


def adjoint_ratios(ds: xr.Dataset) -> pd.DataFrame:
    r"""Return how the adjoint state changes between the end and the deciding input: ``training``, ``horizon``, ``error`` and

    ``log10_ratio``, the median over sequences of :math:`\log_{10} \|\lambda_{t^*}\|_2` less that of
    :math:`\log_{10} \|\lambda_T\|_2`, and ``rate``, the mean change of the natural logarithm for a step back.
    """
    place = settings_of(ds)["place"]
    median = ds["adjoint_median"].astype("float64")
    last = median.sel(time=ds["horizon"]).drop_vars("time")
    ratio = median.sel(time=place, drop=True) - last
    rate = ratio * math.log(10) / (ds["horizon"] - place)
    whole = xr.Dataset({"error": ds["error"], "log10_ratio": ratio, "rate": rate})
    keys = ["training", "horizon"]
    return whole.to_dataframe().reset_index().sort_values(keys, ignore_index=True)


def others_above(frame: pd.DataFrame, place: int) -> tuple[float, int]:
    """Return at how many other times the normalised adjoint state exceeds that at `place`, mean over sequences, and how many there are."""
    each = frame.pivot(index="time", columns="sequence", values="normalised")
    return float((each > each.loc[place]).sum().mean()), len(each) - 1


# padded images (experiment 2.3)


class Look(NamedTuple):
    """How a method appears in tables and figures."""

    label: str
    colour: str
    marker: str


METHODS = {
    "adjoint": Look("RNN adjoint", "#000000", "o"),
    "coadjoint": Look("RNN coadjoint", "#0072B2", "s"),
    "constrained": Look("RNN constrained", "#009E73", "^"),
    "lstm": Look("LSTM", "#E69F00", "D"),
    "reservoir": Look("RNN RC", "#CC79A7", "v"),
    "fixed_w": Look("RNN, W fixed", "#D55E00", "<"),
    "linear": Look("Linear RNN adjoint", "#56B4E9", "P"),
}
"""The methods as Table 2.2 calls them; the last two are not in it, although its reservoir may be either."""
SWEEP = "sweep"
"""The network of the sweep over kappa (Figure A2)."""
AUTHOR_SCALE = "1/T"
"""Input weights of the author's public research code, of which the text's tables are; the LSTM's begin in a way of their own."""


def attempts(ds: xr.Dataset) -> pd.DataFrame:
    """Return a row for every planned training, with every factor as a column.

    ``method`` is the network's name, ``status`` text; ``accuracy`` on the test part after the last epoch and ``metric``,
    log10 of ||lambda_1|| / ||lambda_T|| (3.6), are undefined where the training did not complete.
    """
    trained = ds.sel(stage="trained", drop=True).variables
    status, last = trained["status"], trained["test_metric"].isel(record=trained["records"] - 1)
    metric = trained["adjoint_norm_first"] - trained["adjoint_norm_last"]
    done = {"accuracy": last, "metric": metric}
    done = {name: values.where(status == COMPLETED) for name, values in done.items()}
    rows = by_training(ds, {"status": status, **done}, status != NOT_PLANNED)
    known = about(ds).drop(columns="metric").rename(columns={"network": "method"})
    rows = rows.join(known, on="run")
    return rows.assign(status=rows["status"].map(STATUS), padding=rows["padding"].astype(int))


def of_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the `attempts` behind Table 2.2: no sweep, input weights as in the author's code."""
    begun = (rows["input_scale"] == AUTHOR_SCALE) | (rows["method"] == "lstm")
    return rows[begun & (rows["method"] != SWEEP)]


def summarise(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Count `attempts` by group, in order of appearance, with ``median`` and ``mad`` of the accuracy in percent.

    The median absolute deviation is the plain one, without a factor for normal data; both are over completed attempts.
    """
    ends = [*STATUS.values()]
    counted = rows.assign(**{name: rows["status"] == name for name in ends})
    groups = counted.groupby(list(by), sort=False)
    table = groups.size().rename("planned").to_frame().join(groups[ends].sum())
    table["median"] = 100 * groups["accuracy"].median()
    table["mad"] = 100 * groups["accuracy"].agg(lambda one: (one - one.median()).abs().median())
    return table.reset_index()


# claims

TEXT = ("mnist", "fashion_mnist")
"""The data sets of the text's sweep: what stands in for them in short runs judges nothing."""
LARGEST, SWEPT = 1.1e4, 1.1e3
"""Bounds of the weights of Figures 2.3 and A2, in the author's units: ours of 10 and 1 are 10,240 and 1,024, the text's 10,000 and 1,000."""
STEADY = 3.0
"""Orders of magnitude within which an adjoint neither vanishes nor explodes."""
STANDS_OUT = 0.04
"""log10 of the factor, a tenth, by which an adjoint that is emphasised exceeds all others."""


def _scale(ds: xr.Dataset, replicates: int) -> Scale:
    settings = settings_of(ds)
    steps = settings["steps"] if "steps" in settings else settings["training_steps"]
    return Scale(
        sequences=steps * settings["batch_size"],
        width=settings["width"],
        replicates=replicates,
        test_size=settings["test_size"],
        time_steps=longest(ds),
    )


# linear networks


def deciding_input_first(ds: xr.Dataset) -> Finding:
    """Return how often the input at 50 has the largest emphasis, of the networks that are better than a coin.

    None can be by much: of width four the best is right in 63 % (notebook 41), and the text says "some degree of learning".
    """
    table = emphasis_table(ds)
    place = 50 if 50 in ds["place"] else int(ds["place"][0])
    free = table["orthogonality"] == table["orthogonality"].min()
    table = table[free & (table["place"] == place)]
    learned = above_chance(table["accuracy"], 0.5, settings_of(ds)["test_size"], len(table))
    rank = table.loc[learned, "rank"]
    if rank.empty:
        return unable("no network is better than a coin", _scale(ds, len(table)))
    found = share(int((rank == 1).sum()), len(rank), _scale(ds, len(rank)))
    above, others = rank.median() - 1, ds.sizes["time"] - 1
    return replace(found, note=f"in the median network {above:g} of {others} others weigh more")


def orthogonality_costs(ds: xr.Dataset) -> Finding:
    """Return what the penalty adds to accuracy: a start's mean over places, with and without it, is one value."""
    accuracy = ds["accuracy"].where(ds["status"] == COMPLETED)
    weights = ds["orthogonality"]
    change = accuracy.sel(orthogonality=weights.max()) - accuracy.sel(orthogonality=weights.min())
    starts = change.mean("place", skipna=False).values
    starts = starts[np.isfinite(starts)]
    return mean(starts, _scale(ds, len(starts)))


# the coadjoint penalty


def _scale_of_rows(ds: xr.Dataset) -> Scale:
    return Scale(
        width=int(ds["width"][0]),
        replicates=ds.sizes["replicate"],
        test_size=int(ds["test_sequences"][0]),
        time_steps=longest(ds),
    )


def penalty_evens(ds: xr.Dataset) -> Finding:
    """Return the rank correlation of the penalty's weight, up to the largest of Figure 2.3, with how even the adjoints are.

    The mean over replicates: the networks of one start alike and read the same sequences, whatever their weights.
    """
    ds = _inside_figure(ds)
    evenness = normalised_adjoints(ds).mean(["sequence", "time"]).to_dataframe("evenness")
    rows = evenness.dropna(subset="evenness")
    of = rows.groupby("replicate")[["kappa", "evenness"]]
    each = of.apply(lambda own: own["kappa"].corr(own["evenness"], method="spearman"))
    return mean(each, _scale_of_rows(ds))


def every_weight_learns(ds: xr.Dataset) -> Finding:
    """Return the smallest share, over the weights of Figure 2.3, of networks that learned, each at its best record by validation."""
    inside = _inside_figure(ds)
    planned = (inside["status"] != NOT_PLANNED).sum("replicate")
    ends = kept_accuracy(inside), inside["test_metric"].isel(record=-1)
    kept, last = ((of >= LEARNED).sum("replicate") for of in ends)
    scale = replace(_scale_of_rows(ds), replicates=int(planned.min()))
    found = smallest(share(*map(int, of), scale) for of in zip(kept, planned, strict=True))
    note = f"within {int(inside['step'].max()):,} training steps; at the last record {float((last / planned).min()):.0%}"
    return replace(found, note=note)


def _inside_figure(ds: xr.Dataset) -> xr.Dataset:
    return ds.isel(run=np.flatnonzero(ds["kappa"] * KAPPA <= LARGEST))


def nearness(ds: xr.Dataset, padding: int) -> list[Finding]:
    """Return the correlation of accuracy with how near the metric is to zero, at one padding of the sweep, for each way to begin.

    It is over the settings, each the mean of its trainings, up to the largest weight of Figure A2. Over both ways to begin at once it would
    tell which of them is better.
    """
    swept = ds.isel(run=np.flatnonzero((ds["network"] == SWEEP) & (ds["padding"] == padding)))
    rows = attempts(swept).query("kappa * @KAPPA < @SWEPT")
    if instead := set(rows["dataset"]) - set(TEXT):
        return [unable(f"the sweep is over {min(instead)}, which is no data set of the text")]
    rows = rows[np.isfinite(rows["metric"])].dropna(subset=["accuracy"])
    size = {"sequences": int(ds["sequences"].max()), "epochs": ds.sizes["record"]}
    found = []
    for _, of in rows.assign(near=-rows["metric"].abs()).groupby("initialisation"):
        # Seeds of a setting are nearly alike: more of them are no more evidence of what settings do.
        settings, fewest = of.groupby("run")[["accuracy", "near"]].mean(), of.groupby("run").size()
        scale = replace(_scale_of_rows(swept), **size, replicates=int(fewest.min()))
        found.append(claims.correlation(settings["accuracy"], settings["near"], scale))
    return found


# latching


def latched(ds: xr.Dataset, horizon: int | None = None) -> np.ndarray:
    """Return which trainings reached the tolerance at the shortest horizon, those the text goes on with, and at `horizon`."""
    settings = settings_of(ds)
    asked = [settings["horizon"], horizon or settings["horizon"]]
    return (ds["error"].sel(horizon=asked) < settings["tolerance"]).all("horizon").values


def _share(ds: xr.Dataset, fulfilled: np.ndarray, of: np.ndarray) -> Finding:
    scale = _scale(ds, int(of.sum()))
    if not of.any():
        return unable("no training reaches the tolerance where this claim asks for it", scale)
    return share(int((fulfilled & of).sum()), int(of.sum()), scale)


def latch_longer(ds: xr.Dataset) -> Finding:
    """Return how many of these latch at every longer horizon."""
    settings = settings_of(ds)
    longer = ds["error"].sel(horizon=settings["longer"]) < settings["tolerance"]
    return _share(ds, longer.all("horizon").values, latched(ds))


def _at_longest(ds: xr.Dataset, fulfilled: Callable[..., xr.DataArray]) -> Finding:
    """Return in how many a condition is met at the longest horizon, on log10 of the median adjoint norm at the deciding input, at the end, and at most elsewhere."""
    settings = settings_of(ds)
    end, place = settings["longer"][-1], settings["place"]
    median = ds["adjoint_median"].sel(horizon=end).astype(float)
    here, others = median.sel(time=place), median.sel(time=median["time"] != place)
    met = fulfilled(here, median.sel(time=end), others.max("time"))
    return _share(ds, met.values, latched(ds, end))


linear = Judges(
    {"diss-2.5-emphasis": deciding_input_first, "diss-2.5-orthogonality": orthogonality_costs}
)
coadjoint = Judges({"diss-2.6-uniform": penalty_evens, "diss-2.6-accuracy": every_weight_learns})
padding = Judges(
    {
        "diss-2.8-no-relation": lambda ds: claims.largest(map(claims.magnitude, nearness(ds, 0))),
        "diss-2.8-relation": lambda ds: smallest(
            nearness(ds, int(ds["padding"].where(ds["network"] == SWEEP).max()))
        ),
    }
)
latching = Judges(
    {
        "diss-3.6-latch": lambda ds: _share(ds, latched(ds), np.ones(ds.sizes["training"], bool)),
        "diss-3.6-longer": latch_longer,
        "diss-3.6-adjoints": lambda ds: _at_longest(ds, lambda at, end, _: abs(at - end) < STEADY),
        "diss-3.6-place": lambda ds: _at_longest(ds, lambda at, _, most: at > most + STANDS_OUT),
    }
)
