"""What the padded images (sections 2.7 and 2.8, Table 2.2) say of the text's claims, at the largest width that was run."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import xarray as xr

from lib.analysis.padding import SWEEP, attempts, of_table
from lib.results.claims import (
    Finding,
    Judges,
    Scale,
    correlation,
    difference,
    largest,
    magnitude,
    mean,
    smallest,
    unable,
)
from lib.results.schema import COMPLETED

RNN = ("adjoint", "coadjoint", "constrained", "reservoir")
"""The methods that train a basic RNN; "linear" is a comparison of ours."""
ALL = (*RNN, "lstm")
TEXT = ("mnist", "fashion_mnist")
"""The text's data sets: what stands in for them in short runs judges nothing."""

judges = Judges("padding")


class _Results:
    """The accuracies of one width, the largest, after the last epoch."""

    def __init__(self, ds: xr.Dataset) -> None:
        rows = of_table(attempts(ds))
        self.width = int(rows["width"].max())
        self.rows = rows[rows["width"] == self.width]
        self.datasets = [name for name in pd.unique(rows["dataset"]) if name in TEXT]
        self.guess = dict(zip(ds["dataset"].values, ds["guess_metric"].values, strict=True))
        self.ds = ds

    def accuracy(self, dataset: str, padding: int, method: str) -> np.ndarray:
        """Return the accuracies of the replicates; one that diverged has learned nothing."""
        rows = self.rows
        rows = rows[(rows["dataset"] == dataset) & (rows["padding"] == padding)]
        rows = rows[(rows["method"] == method) & (rows["status"] != "missing")]
        return rows["accuracy"].fillna(self.guess.get(dataset, np.nan)).to_numpy()

    @property
    def scale(self) -> Scale:
        return Scale(
            sequences=int(self.ds["sequences"].max()),
            epochs=self.ds.sizes["record"],
            width=self.width,
            replicates=self.ds.sizes["replicate"],
            test_size=int(self.ds["test_sequences"].max()),
        )

    def over_guess(self, dataset: str, padding: int, method: str) -> Finding:
        guess = self.guess.get(dataset, np.nan)
        return mean(self.accuracy(dataset, padding, method) - guess, self.scale)

    def lead(self, dataset: str, padding: int, method: str, over: str) -> Finding:
        pair = (self.accuracy(dataset, padding, name) for name in (method, over))
        return difference(*pair, self.scale)


def _drawn(**means: float):
    """Return how to draw results in which the named methods have these mean accuracies, and 0.5 all others."""

    def draw(rng: np.random.Generator, replicates: int = 4, together: bool = False) -> xr.Dataset:
        table = list(product(TEXT, (0, 4, 8, 12), ALL, [""]))
        sweep = [(TEXT[1], padding, SWEEP, str(k)) for padding in (0, 3) for k in range(12)]
        dataset, padding, method, _ = (list(level) for level in zip(*table, *sweep, strict=True))
        levels = np.array([means.get(name, 0.5) for name in method])[:, None]
        shape = (len(method), replicates)
        metric = 5 * rng.standard_normal(shape)
        accuracy = levels + rng.uniform(0.002, 0.05) * rng.standard_normal(shape)
        accuracy = accuracy - abs(metric) if together else accuracy
        once = ("run", np.ones(len(method), int))
        training, stage = ("run", "replicate"), ("run", "replicate", "stage")
        return xr.Dataset(
            {
                "network": ("run", method),
                "status": (training, np.full(shape, COMPLETED)),
                "records": (training, np.ones(shape, int)),
                "test_metric": ((*training, "record"), accuracy[..., None]),
                "adjoint_norm_first": (stage, metric[..., None]),
                "adjoint_norm_last": (stage, np.zeros((*shape, 1))),
                "guess_metric": ("run", np.full(len(method), 0.1)),
                **dict.fromkeys(("width", "sequences", "test_sequences"), once),
            },
            {"run": range(len(method)), "replicate": range(replicates), "stage": ["trained"]}
            | {"record": [0], "dataset": ("run", dataset), "padding": ("run", padding)}
            | {"input_scale": ("run", ["1/T"] * len(method))},
        )

    return draw


@judges.judge("diss-2.7-pad0-similar", false=_drawn(adjoint=0.6, reservoir=0.58))
def rnn_methods_alike(ds: xr.Dataset) -> Finding:
    results = _Results(ds)
    pairs = product(results.datasets, combinations(RNN, 2))
    return largest(magnitude(results.lead(name, 0, *pair)) for name, pair in pairs)


@judges.judge("diss-2.7-pad0-lstm", false=_drawn(constrained=0.52))
def lstm_leads(ds: xr.Dataset) -> Finding:
    results = _Results(ds)
    return smallest(results.lead(name, 0, "lstm", m) for name, m in product(results.datasets, RNN))


@judges.judge("diss-2.7-padded-lstm", false=_drawn(lstm=0.51))
def lstm_last(ds: xr.Dataset) -> Finding:
    """Paddings with a single LSTM give no interval and are left out, and named."""
    results = _Results(ds)
    found, left_out = [], set()
    for name, padding in product(
        results.datasets, sorted(results.rows["padding"][results.rows["padding"] > 0].unique())
    ):
        if len(results.accuracy(name, padding, "lstm")) < 2:
            left_out.add(f"{padding}x")
            continue
        found += [results.lead(name, padding, method, "lstm") for method in RNN]
    note = f"without {', '.join(sorted(left_out))}, where one LSTM was trained" if left_out else ""
    worst = smallest(found)
    return Finding(worst.value, worst.low, worst.high, worst.scale, note=worst.note or note)


@judges.judge("diss-2.7-pad8-mnist-coadjoint", false=_drawn(coadjoint=0.11))
def coadjoint_learns(ds: xr.Dataset) -> Finding:
    return _Results(ds).over_guess("mnist", 8, "coadjoint")


def _best_other(ds: xr.Dataset, datasets: list[str], padding: int) -> Finding:
    results = _Results(ds)
    others = [name for name in ALL if name != "coadjoint"]
    several = [
        (dataset, method)
        for dataset, method in product(datasets, others)
        if len(results.accuracy(dataset, padding, method)) > 1
    ]
    return largest(results.over_guess(dataset, padding, method) for dataset, method in several)


@judges.judge(
    "diss-2.7-pad8-mnist-only", false=_drawn(adjoint=0.13, constrained=0.1, reservoir=0.1, lstm=0.1)
)
def only_coadjoint_at_8(ds: xr.Dataset) -> Finding:
    return _best_other(ds, ["mnist"], 8)


@judges.judge("diss-2.7-pad8-fashion", false=_drawn(reservoir=0.11))
def all_learn_fashion(ds: xr.Dataset) -> Finding:
    results = _Results(ds)
    return smallest(results.over_guess("fashion_mnist", 8, method) for method in RNN)


@judges.judge("diss-2.7-pad12-coadjoint", false=_drawn(coadjoint=0.11))
def coadjoint_learns_at_12(ds: xr.Dataset) -> Finding:
    results = _Results(ds)
    return smallest(results.over_guess(name, 12, "coadjoint") for name in results.datasets)


@judges.judge(
    "diss-2.7-pad12-only", false=_drawn(adjoint=0.13, constrained=0.1, reservoir=0.1, lstm=0.1)
)
def only_coadjoint_at_12(ds: xr.Dataset) -> Finding:
    return _best_other(ds, _Results(ds).datasets, 12)


@judges.judge("diss-2.7-pad12-lead", false=_drawn(coadjoint=0.49))
def coadjoint_leads(ds: xr.Dataset) -> Finding:
    results = _Results(ds)
    return smallest(results.lead(name, 12, "coadjoint", "adjoint") for name in results.datasets)


def _nearness(ds: xr.Dataset, padding: int) -> Finding:
    rows = attempts(ds)
    rows = rows[(rows["method"] == SWEEP) & (rows["padding"] == padding)]
    if instead := set(rows["dataset"]) - set(TEXT):
        return unable(f"the sweep is over {min(instead)}, which is no data set of the text")
    rows = rows[np.isfinite(rows["metric"])].dropna(subset=["accuracy"])
    if rows.empty:
        return unable("no attempt of the sweep has a metric")
    return correlation(rows["accuracy"], -rows["metric"].abs(), _Results(ds).scale)


@judges.judge("diss-2.8-no-relation", false=lambda rng: _drawn()(rng, together=True))
def no_relation_without_padding(ds: xr.Dataset) -> Finding:
    return _nearness(ds, 0)


@judges.judge("diss-2.8-relation", false=_drawn())
def relation_with_padding(ds: xr.Dataset) -> Finding:
    return _nearness(ds, int(ds["padding"].where(ds["network"] == SWEEP).max()))
