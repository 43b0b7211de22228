"""Padded images (experiment 2.3): medians and spreads, who learned, and failures that look like results."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import binom, median_abs_deviation, spearmanr

from lib.results.schema import NOT_PLANNED

STATUS = ("completed", "diverged", "missing")

CONFIDENCE = 0.999
"""How sure it must be that an accuracy is no guess."""

PUBLISHED_EXAMPLES = 10_000
"""Test images of MNIST and of Fashion MNIST, on which the text's accuracies are measured."""

_PRINTED = 0.001
"""Shares closer than this are printed alike in the text's table, in percent with one decimal."""


def attempts(ds: xr.Dataset) -> pd.DataFrame:
    """Return one row per planned attempt of Table 2.2.

    Parameters
    ----------
    ds
        Schema of `lib.experiments.padding.results`.

    Returns
    -------
    pandas.DataFrame
        ``dataset``, ``padding``, ``method``, ``width``, ``replicate``, ``status`` (text), ``accuracy`` and
        ``train_accuracy`` after the last epoch, and ``metric``, log10 of ||lambda_1|| / ||lambda_T|| (3.6); the last
        three are undefined where the attempt did not complete.
    """
    last = ds["accuracy"].isel(epoch=-1)
    frame = xr.Dataset(
        {
            "status": ds["status"],
            "accuracy": last.sel(split="test", drop=True),
            "train_accuracy": last.sel(split="train", drop=True),
            "metric": ds["adjoint_first"] - ds["adjoint_last"],
        }
    )
    rows = frame.drop_vars("epoch", errors="ignore").to_dataframe().reset_index()
    return _completed_only(rows[rows["status"] != NOT_PLANNED].reset_index(drop=True))


def sweep_attempts(ds: xr.Dataset) -> pd.DataFrame:
    """Return one row per attempt of the sweep over kappa.

    Returns
    -------
    pandas.DataFrame
        ``padding``, ``initialisation``, ``kappa``, ``replicate``, and ``status``, ``accuracy``, ``metric`` as in `attempts`.
    """
    frame = xr.Dataset(
        {
            "status": ds["sweep_status"],
            "accuracy": ds["sweep_accuracy"].isel(epoch=-1).sel(split="test", drop=True),
            "metric": ds["sweep_adjoint_first"] - ds["sweep_adjoint_last"],
        }
    )
    rows = frame.drop_vars("epoch", errors="ignore").to_dataframe().reset_index()
    return _completed_only(rows.rename(columns=lambda name: name.removeprefix("sweep_")))


def _completed_only(rows: pd.DataFrame) -> pd.DataFrame:
    rows["status"] = rows["status"].map(dict(enumerate(STATUS)))
    measured = [name for name in rows if name in ("accuracy", "train_accuracy", "metric")]
    rows.loc[rows["status"] != "completed", measured] = np.nan
    return rows


def summarise(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the median accuracy and its spread for each group of attempts, as Table 2.2 does.

    Parameters
    ----------
    rows
        As `attempts` or `sweep_attempts` returns them.
    by
        Columns that form the groups; they keep their order of appearance.

    Returns
    -------
    pandas.DataFrame
        `by`, then ``planned``, ``completed``, ``diverged``, ``missing`` (counts), ``median`` and ``mad``, in percent, over the
        completed attempts. The median absolute deviation is the plain one, without a factor for normal data.
    """
    counted = rows.assign(**{name: rows["status"] == name for name in STATUS})
    groups = counted.groupby(list(by), sort=False)
    table = groups.size().rename("planned").to_frame().join(groups[list(STATUS)].sum())
    table["median"] = 100 * groups["accuracy"].median()
    table["mad"] = 100 * groups["accuracy"].agg(_mad)
    return table.reset_index()


def _mad(values: pd.Series) -> float:
    known = values.dropna()
    return median_abs_deviation(known) if len(known) else np.nan


def learning_bound(largest_class: float, examples: int) -> float:
    """Return the accuracy, in percent, beyond which a network does better than naming the largest class.

    Parameters
    ----------
    largest_class
        Share of the largest class in the test part: the text's "baseline".
    examples
        Test sequences.

    Notes
    -----
    The upper `CONFIDENCE` quantile of the binomial distribution. The text gives no rule for "better than baseline".

    >>> round(learning_bound(0.1, 10_000), 2)
    10.94
    """
    return 100 * binom.ppf(CONFIDENCE, examples, largest_class) / examples


def constant_answers(published: pd.DataFrame, first_class: dict[str, float]) -> pd.DataFrame:
    """Return the published cells that look like networks which always name the first class.

    A network whose weights are no longer numbers predicts NaN for every class, and the largest of equal
    NaNs is the first: its accuracy is that class's share, the same in every replicate.

    Parameters
    ----------
    published
        Table 2.2: ``dataset``, ``median`` and ``mad`` in percent, and more.
    first_class
        Share of the first class in each data set's test part.
    """
    share = published["dataset"].map(first_class)
    alike = (published["median"] / 100 - share).abs() < _PRINTED
    return published[alike & (published["mad"] == 0)].reset_index(drop=True)


def learners(
    summary: pd.DataFrame, published: pd.DataFrame, ds: xr.Dataset, *, width: int
) -> pd.DataFrame:
    """Say for each data set, padding and method whether the median network learned, here and in the text.

    Parameters
    ----------
    summary
        Our medians by data set, padding, method and width, as `summarise` returns them.
    published
        Table 2.2.
    ds
        The results, for the shares of classes and the numbers of examples.
    width
        Our recurrent dimension; the text's is its largest.

    Returns
    -------
    pandas.DataFrame
        ``dataset``, ``padding``, ``method``, ``median``, ``bound`` (`learning_bound`), ``learned``; ``published`` and
        ``published_learned``, empty where the text has no such cell. Where every attempt failed, nothing was learned.
    """
    examples = ds["examples"].sel(split="test").to_series()
    largest = ds["largest_class"].to_series()
    keys = ["dataset", "padding", "method"]
    table = summary.loc[summary["width"] == width, [*keys, "median"]].reset_index(drop=True)
    bound = {name: learning_bound(largest[name], examples[name]) for name in largest.index}
    table["bound"] = table["dataset"].map(bound)
    table["learned"] = table["median"] > table["bound"]
    theirs = published[published["width"] == published["width"].max()]
    table = table.merge(
        theirs[[*keys, "median"]].rename(columns={"median": "published"}), on=keys, how="left"
    )
    limit = {name: learning_bound(largest[name], PUBLISHED_EXAMPLES) for name in largest.index}
    beyond = table["published"] > table["dataset"].map(limit)
    table["published_learned"] = beyond.astype(object).where(table["published"].notna(), None)
    return table


def balance(ds: xr.Dataset, dataset: str, width: int, kappa: float) -> pd.DataFrame:
    """Return the completed attempts of one data set and width, those of the sweep with them.

    The sweep adds paddings that the table has not: its networks at weight 0 were trained by the adjoint
    method, those at the table's own `kappa` by the coadjoint method.

    Returns
    -------
    pandas.DataFrame
        ``padding``, ``method``, ``replicate``, ``metric``, ``accuracy``.
    """
    rows = attempts(ds)
    rows = rows[(rows["dataset"] == dataset) & (rows["width"] == width)]
    more = sweep_attempts(ds)
    more = more[(more["initialisation"] == "orthogonal") & ~more["padding"].isin(rows["padding"])]
    more = more.assign(method=more["kappa"].map({0.0: "adjoint", kappa: "coadjoint"}))
    columns = ["padding", "method", "replicate", "status", "metric", "accuracy"]
    both = pd.concat([rows[columns], more[columns].dropna(subset="method")], ignore_index=True)
    done = both[both["status"] == "completed"].drop(columns="status")
    return done.sort_values("padding", kind="stable").reset_index(drop=True)


def balance_by_padding(rows: pd.DataFrame, bound: float) -> pd.DataFrame:
    """Say for each padding how balanced adjoints go with accuracy.

    Parameters
    ----------
    rows
        As `balance` returns them, of the methods to be compared.
    bound
        Accuracy, in percent, beyond which a network learned (`learning_bound`).

    Returns
    -------
    pandas.DataFrame
        ``padding``; ``networks``; for each method the median ``metric``; ``rho``, Spearman's rank correlation of accuracy
        with the distance of the metric from 0, and its probability ``p`` (empty where either does not vary); how many
        networks are balanced, within a factor of ten, and of those how many did not learn.
    """
    lines = []
    for padding, part in rows.groupby("padding", sort=True):
        distance = part["metric"].abs()
        varies = distance.nunique() > 1 and part["accuracy"].nunique() > 1
        rho, p = spearmanr(distance, part["accuracy"]) if varies else (np.nan, np.nan)
        even = distance < 1
        lines.append(
            {
                "padding": padding,
                "networks": len(part),
                **{
                    f"metric_{name}": group.median()
                    for name, group in part.groupby("method")["metric"]
                },
                "rho": rho,
                "p": p,
                "balanced": int(even.sum()),
                "balanced_not_learned": int((even & (100 * part["accuracy"] <= bound)).sum()),
            }
        )
    return pd.DataFrame(lines)


def kappa_effect(summary: pd.DataFrame, bound: float, examples: int | None = None) -> pd.DataFrame:
    """Compare each weight of the penalty with none, for each padding and initialisation.

    Parameters
    ----------
    summary
        The sweep's medians by ``padding``, ``initialisation`` and ``kappa``, as `summarise` returns them.
    bound
        Accuracy, in percent, beyond which a network learned.
    examples
        Test sequences. A weight is no worse than none if it falls short by at most two standard errors of an accuracy
        measured on so many; if None, if it does not fall short at all.

    Returns
    -------
    pandas.DataFrame
        ``padding``, ``initialisation``; ``without``, the median at weight 0; ``best_kappa`` among the positive weights and its
        median ``best``; ``no_worse``, how many of the ``weights`` positive ones are no worse than none, and
        ``harmless_to``, the largest of them below which all are (0 if there is none); whether backpropagation
        ``learned``, and ``learned_with``, how many positive weights did.
    """
    lines = []
    for (padding, initialisation), part in summary.groupby(
        ["padding", "initialisation"], sort=False
    ):
        median = part.set_index("kappa")["median"]
        without, others = median.get(0.0, np.nan), median[median.index > 0]
        known = others.dropna()
        share = without / 100
        slack = 200 * np.sqrt(share * (1 - share) / examples) if examples else 0.0
        no_worse = (others >= without - slack).sort_index()
        lines.append(
            {
                "padding": padding,
                "initialisation": initialisation,
                "without": without,
                "best_kappa": known.idxmax() if len(known) else np.nan,
                "best": known.max() if len(known) else np.nan,
                "weights": len(others),
                "no_worse": int(no_worse.sum()),
                "harmless_to": float(no_worse.index[no_worse.cummin()].max())
                if len(no_worse) and no_worse.iloc[0]
                else 0.0,
                "learned": bool(without > bound),
                "learned_with": int((others > bound).sum()),
            }
        )
    return pd.DataFrame(lines)
