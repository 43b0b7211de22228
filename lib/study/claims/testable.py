"""Whether a claim about networks can be tested: were they trained on the paper's data, and did they
learn?

A network at chance is not evidence that another one is better, and results on stand-in data are not
evidence about the paper.
"""

from collections.abc import Iterable, Sequence

from study.claims.claim import Comparison, NetworkRef
from study.claims.estimates import Cause, Estimate, not_testable
from study.claims.experiment_sizes import scale_of_networks
from study.claims.networks import Networks
from study.results.data_used import describe_stand_in


def refuse_claim(
    networks: Networks, names: Sequence[NetworkRef], learners: Iterable[NetworkRef]
) -> Estimate | None:
    """Refuse claims about networks that were not trained, read other data, or did not learn.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    names
        All of them must have been trained, and on the paper's data.
    learners
        All of them must do better than chance.

    Returns
    -------
    Estimate or None
        An estimate without a value that gives the reason; None if the claim can be tested.
    """
    missing = [str(name) for name in names if networks.runs(name).empty]
    if missing:
        return not_testable(f"not trained: {', '.join(missing)}", Cause.NO_DATA)
    first = networks.runs(names[0]).iloc[0]
    replaced = describe_stand_in(first["task_settings"], first["substitute"])
    if replaced:
        return not_testable(replaced, Cause.NO_DATA, scale_of_networks(networks, *names))
    at_chance = [name for name in learners if not networks.learned(name)]
    if at_chance:
        counts = [networks.at_chance_in_words(name, networks.runs(name)) for name in at_chance]
        reason = f"no better than chance: {', '.join(counts)}"
        return not_testable(reason, Cause.PREMISE, scale_of_networks(networks, *names))
    return None


def refuse_without_control(networks: Networks, comparison: Comparison) -> Estimate | None:
    """Refuse a claim if its control did not learn the task.

    That a network is at chance says nothing about it if the control is at chance, too.

    Parameters
    ----------
    networks
        The networks on the claim's task.
    comparison
        The comparison that names the control.

    Returns
    -------
    Estimate or None
        An estimate without a value that gives the reason; None if the control learned, or if there
        is none.
    """
    if comparison.control == "any":
        if networks.at_chance() == networks.labels():
            return not_testable(f"no network learns {networks.task}", Cause.PREMISE)
        return None
    if comparison.control:
        return refuse_claim(networks, [comparison.control], [comparison.control])
    return None
