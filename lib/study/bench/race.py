"""Time several entrants in turn, round after round, and write their times to a ledger.

Times on a shared machine drift, so entrants are timed side by side. A ratio compares two times of
the same round, and the median over rounds is reported. If an entrant fails, the failure is written
to the ledger as well, and the other entrants continue.
"""

from collections.abc import Collection, Mapping
from statistics import median

from study.bench.ledger import Ledger
from study.bench.timers import Timer

MEASUREMENT = "time"
"""Quantity of the rows of `race` that are single measurements."""
MEDIAN = "median time"
"""Quantity of the rows of `race` that are medians over rounds."""

Baselines = Collection[str] | Mapping[str, Collection[str]]
"""Names of entrants that all others are compared with, or such names for each entrant."""


def race(
    entrants: Mapping[str, Timer],
    ledger: Ledger,
    *,
    size: object,
    rounds: int,
    baselines: Baselines = (),
    warm_up: int = 1,
) -> list[dict]:
    """Run all entrants in turn, round after round.

    Parameters
    ----------
    entrants : mapping of str to Timer
        An entrant that fails is not run again.
    ledger : Ledger
        Gets every measurement, every failure, and the medians.
    size : object
        Size of the problem, for the column ``size``.
    rounds : int
        Number of rounds after the warm-up, at least 1.
    baselines : collection of str, or mapping from str to collection of str
        Names of entrants that all others are compared with, or such names for each entrant.
    warm_up : int
        Number of rounds before the timed ones, in which kernels are compiled.

    Returns
    -------
    list of dict
        A row of medians, in ms, for each entrant and each of its baselines.

    Raises
    ------
    ValueError
        `rounds` is less than 1.
    """
    if rounds < 1:
        raise ValueError(f"expected at least one round, got {rounds}")
    times = _run_rounds(entrants, ledger, size, rounds, warm_up)
    medians = []
    for what, milliseconds in times.items():
        names = baselines
        if isinstance(baselines, Mapping):
            names = baselines.get(what, ())
        row = {"size": size, "value": median(milliseconds), "unit": "ms", "rounds": rounds}
        if not names:
            medians.append(ledger.add(what, MEDIAN, **row))
        for name in names:
            ratios = _ratios(milliseconds, times.get(name))
            medians.append(ledger.add(what, MEDIAN, **row, baseline=name, **ratios))
    return medians


def _run_rounds(
    entrants: Mapping[str, Timer], ledger: Ledger, size: object, rounds: int, warm_up: int
) -> dict[str, list[float]]:
    """Return the times in ms of each entrant that did not fail, without the warm-up.

    In the ledger, rounds are numbered from 1; the last round of the warm-up has the number 0.
    """
    times: dict[str, list[float]] = {what: [] for what in entrants}
    for number in range(1 - warm_up, rounds + 1):
        for what in list(times):
            row = {"size": size, "round": number}
            try:
                milliseconds = entrants[what]()
            except Exception as error:  # a failure is a result; the other entrants continue
                ledger.add(what, MEASUREMENT, **row, failure=_first_line(error))
                del times[what]
                continue
            if number >= 1:
                times[what].append(milliseconds)
                ledger.add(what, MEASUREMENT, **row, value=milliseconds, unit="ms")
    return times


def _ratios(times: list[float], baseline: list[float] | None) -> dict[str, float]:
    """Return the median, smallest and largest ratio to the baseline over rounds.

    They are the ledger's columns of ratios; there are none if the baseline failed.
    """
    if baseline is None:
        return {}
    ratios = [time / other for time, other in zip(times, baseline, strict=True)]
    return {"ratio": median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}


def _first_line(error: BaseException) -> str:
    """Return the kind of an error and the first line of its message."""
    return f"{type(error).__name__}: {error}".split("\n")[0]
