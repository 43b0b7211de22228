"""Caveats to a verdict on networks that stands: what a reader must know before quoting it.

Pages mark a verdict with caveats by a dagger (†). Objections, which change the verdict, are in
`study.claims.undecided`, `study.claims.tuning` and `study.claims.short_runs`. Four caveats are
written here:

- the verdict goes against a network that was tuned over fewer settings than the one it is compared
  with, or against networks that were each trained at a single setting;
- the claim is that an error comes close to zero, and training stopped once it was small;
- the claim is that several networks fail, and only some of them learn;
- the interval leaves out the error of the finite test set (`study.claims.sampling`).

`study.claims.judging` adds four others: a lead in short runs, a best learning rate at the edge of
the grid, networks at chance, and a verdict that another threshold reverses.
"""

from study.claims.claim import Claim, NetworkRef
from study.claims.estimates import SEPARATOR, ByVerdict, Estimate, Reasons, gather, write_reasons
from study.claims.kinds import ClaimKind, claim_kind
from study.claims.networks import Networks
from study.claims.search import rates_tried, settings_tried
from study.claims.tuning import losers
from study.results.runs import first_records
from study.results.schema import COMPLETED, settings_of

TRIED_ONCE = "trained at a single setting"
"""Words of the caveat that no network of a claim was tuned."""
NOT_ROBUST = "not robust:"
"""How a notebook begins a caveat about a verdict that other choices change."""
TEST_SET_LEFT_OUT = "the interval leaves out the error of the finite test set"


def find_caveats(
    networks: Networks,
    claim: Claim,
    pair: tuple[NetworkRef, ...],
    ahead: tuple[NetworkRef, ...],
    estimate: Estimate,
) -> ByVerdict:
    """Return the caveats of each verdict on a claim.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    claim
        A claim with a comparison.
    pair
        The network that it is about, or the two that it compares.
    ahead
        Those of `pair` that are ahead if the claim is true.
    estimate
        The quantity of the claim for this pair.

    Returns
    -------
    ByVerdict
    """
    unequal = find_unequal(networks, claim, pair, ahead)
    left_out = ""
    if estimate.test_set_left_out:
        left_out = TEST_SET_LEFT_OUT
    to_agree = [left_out, *unequal.to_agree]
    if claim_kind(claim.comparison.estimator, claim.region) is ClaimKind.LEARNS:
        to_agree.extend(stopped_at_target(networks, name) for name in pair)
    to_differ = gather(left_out, unequal.to_differ)
    return ByVerdict(to_agree=gather(*to_agree), to_differ=to_differ)


def find_unequal(
    networks: Networks, claim: Claim, pair: tuple[NetworkRef, ...], ahead: tuple[NetworkRef, ...]
) -> ByVerdict:
    """Return the caveats that a verdict goes against a network that was tuned less, or not at all.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    claim
        A claim with a comparison.
    pair
        The network that it is about, or the two that it compares.
    ahead
        Those of `pair` that are ahead if the claim is true.

    Returns
    -------
    ByVerdict
        Numbers of settings in words; empty if the verdict goes against the network that was tuned
        over more settings, or if both were tuned over equally many.
    """
    against = losers(claim, pair, ahead)
    counts = {name: settings_tried(networks, name) for name in pair}
    most = max(counts.values())
    fewest = min(counts.values())
    if most == 1:
        text = f"{pair[0]} was {TRIED_ONCE}"
        if len(pair) > 1:
            text = f"{pair[0]} and {pair[1]} were each {TRIED_ONCE}"
        disadvantaged = pair
    elif fewest < most:
        tuned_more = max(pair, key=counts.__getitem__)
        tuned_less = min(pair, key=counts.__getitem__)
        text = f"{tuned_more} was tuned over {most} settings, {tuned_less} over {fewest}"
        disadvantaged = (tuned_less,)
    else:
        return ByVerdict()
    to_agree = ()
    if set(disadvantaged) & set(against.agrees):
        to_agree = (text,)
    to_differ = ()
    if set(disadvantaged) & set(against.differs):
        to_differ = (text,)
    return ByVerdict(to_agree, to_differ)


def stopped_at_target(networks: Networks, name: NetworkRef) -> str:
    """Explain that runs of a network stopped once their validation error was small.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        One of them.

    Returns
    -------
    str
        The caveat; empty if no run was stopped.
    """
    settings = settings_of(networks.ds)
    goal = settings.get("stop_below", 0.0)
    if not goal:
        return ""
    rows = networks.runs(name)
    ds = networks.ds.sel(run=rows["run"].unique())
    recorded = first_records(ds, ds.variables["records"])
    losses = ds.variables["validation_loss"].where(recorded)
    reached = (losses < goal).any("record") & (ds.variables["status"] == COMPLETED)
    count = int(reached.sum())
    if not count:
        return ""
    return (
        f"training stops once the validation error is below {goal:g}, as in {count} of "
        f"{len(rows)} runs of {name}, so it is unknown how much smaller their errors would become"
    )


def runs_at_chance(networks: Networks, name: NetworkRef) -> str:
    """Count the runs of a network that stay at chance, at all its learning rates.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    name
        A network that was trained.

    Returns
    -------
    str
        Such as "15 of 15 runs of RNN on T=100, at 3 learning rates, stay at chance".
    """
    rows = networks.at_all_rates(name)
    rates = len(rates_tried(networks, name))
    at_rates = ""
    if rates > 1:
        at_rates = f", at {rates} learning rates,"
    return f"{networks.at_chance_in_words(name, rows)}{at_rates} stay at chance"


def networks_that_fail(networks: Networks, names: list[NetworkRef]) -> Reasons:
    """Name the networks that stay at chance although others of the claim learn.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    names
        The networks that fail according to a claim.

    Returns
    -------
    tuple of str
        `runs_at_chance` of each; empty if all networks learn, or none does.
    """
    trained = [name for name in names if not networks.runs(name).empty]
    failing = [name for name in trained if not networks.learned(name)]
    if len(failing) == len(trained):
        return ()
    return gather(*(runs_at_chance(networks, name) for name in failing))


def write_caveats(caveats: Reasons) -> str:
    """Write caveats as the text that tables store.

    Parameters
    ----------
    caveats
        The caveats of one claim.

    Returns
    -------
    str
        Separated by semicolons; `read_caveats` returns the same caveats.

    Raises
    ------
    ValueError
        A caveat contains the separator.
    """
    for caveat in caveats:
        if SEPARATOR in caveat:
            raise ValueError(
                f"the caveat {caveat!r} contains a semicolon, which separates caveats in tables; "
                "use a comma, or make it two caveats"
            )
    return write_reasons(caveats)


def read_caveats(text: str) -> Reasons:
    """Read caveats from the text that tables store.

    Parameters
    ----------
    text
        As of `write_caveats`.

    Returns
    -------
    tuple of str
    """
    if not text:
        return ()
    return tuple(text.split(SEPARATOR))
