"""Plan the jobs of each kind of design: titles, data sets, relative costs, vmapped passes.

This is the step from configuration (`study.config`) to jobs, which `study.training.jobs` runs.
`DESIGNS` lists the kinds of designs that have a section of their own in `params.yaml`.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from study.config.design import Design
from study.config.factorial import Factorial
from study.config.latching import Latching
from study.config.linear_gaps import LinearGaps
from study.config.run import RunConfig
from study.tasks import find_maker
from study.training.experiments import FACTORIAL, INTERVENTIONS, LATCHING, LINEAR_GAPS, RUNS
from study.training.intervention_design import Interventions
from study.training.job import Job
from study.training.model import pick_device

AnyDesign = RunConfig | Design
"""What the jobs of a dataset are planned from: several runs, or one design."""

GPU_PASS_SIZE = 50
"""Attempts of the factorial experiment that share a vmapped pass on a GPU.

In the published design, 100 attempts have the same shape: they differ only in learning rate, order
and replicate. This is half of them. Their states over 2,024 time steps at width 256 take about
30 GB.
"""
ALIGNED_WIDTH = 16
"""On a CPU, vmapped passes need a width that is a multiple of this to be bit-identical.

The rounding of a product depends on the memory alignment of its matrices.
"""


def plan_jobs(designs: Sequence[AnyDesign]) -> list[Job]:
    """Return the jobs of several designs, in order.

    Parameters
    ----------
    designs : sequence
        Runs, or designs.

    Returns
    -------
    list of Job

    Raises
    ------
    ValueError
        See `plan_factorial`.
    """
    jobs: list[Job] = []
    for design in designs:
        plan = _PLANS[type(design)]
        jobs += plan(design)
    return jobs


def design_settings(design: AnyDesign) -> dict[str, Any]:
    """Return all settings of a run or a design, to store them with a dataset.

    Parameters
    ----------
    design : RunConfig or Design

    Returns
    -------
    dict
        JSON values by name. For a run they include its displayed names.
    """
    if isinstance(design, Design):
        return design.flat_settings()
    names = {
        "run": design.run,
        "network": design.network_name,
        "label": design.label,
        "task_label": design.task_label,
    }
    return names | design.flat_settings()


def plan_runs(config: RunConfig) -> Iterator[Job]:
    """Yield one job per replicate of a run.

    Parameters
    ----------
    config : RunConfig

    Yields
    ------
    Job
    """
    cells: tuple[str, ...] = (config.network.cell,)
    if config.recipe.objective == "coadjoint" or "penalty" in config.measurement.measures:
        cells += (f"{config.network.cell}/adjoints",)
    length = config.recipe.epochs or config.recipe.steps
    maker = find_maker(config.task.flat_settings())
    device = pick_device(config.device).type
    for replicate in range(config.replicates):
        yield Job(
            experiment=RUNS,
            config=config,
            replicate=replicate,
            levels={**config.flat_settings(), "replicate": replicate},
            title=f"{config.run}, replicate {replicate}",
            relative_cost=config.network.width * length,
            cells=cells,
            device=device,
            datasets=config.datasets,
            modules=(maker.make.__module__,),
        )


def plan_factorial(design: Factorial) -> Iterator[Job]:
    """Yield one job per attempt of the factorial experiment.

    Parameters
    ----------
    design : Factorial

    Yields
    ------
    Job

    Raises
    ------
    ValueError
        A width is not a multiple of `ALIGNED_WIDTH`, but attempts share passes on a CPU.
    """
    device = pick_device(design.device).type
    pass_size = design.networks_per_pass
    if pass_size == 0:
        pass_size = GPU_PASS_SIZE if device == "cuda" else 1
    for attempt in design.configs():
        if pass_size > 1 and device == "cpu" and attempt.width % ALIGNED_WIDTH:
            raise ValueError(
                f"expected a width that is a multiple of {ALIGNED_WIDTH} with vmapped passes on a "
                f"CPU, got {attempt.width}; choose such a width, or set networks_per_pass to 1"
            )
        levels = attempt.flat_settings()
        relative_cost = attempt.training_length
        if attempt.noise != "none":
            relative_cost *= 3  # noise makes sequences about three times as long
        yield Job(
            experiment=FACTORIAL,
            config=attempt,
            replicate=attempt.replicate,
            levels=levels,
            title=_attempt_title(attempt),
            relative_cost=relative_cost,
            cells=(attempt.architecture,),
            device=device,
            datasets=(attempt.dataset,),
            pass_key=_pass_key(levels),
            pass_size=pass_size,
        )


def plan_latching(design: Latching) -> Iterator[Job]:
    """Yield one job per network of the latching experiment.

    Parameters
    ----------
    design : Latching

    Yields
    ------
    Job
    """
    for config in design.configs():
        yield Job(
            experiment=LATCHING,
            config=config,
            replicate=config.replicate,
            levels=config.flat_settings(),
            title=f"network {config.replicate}",
            cells=("rnn",),
        )


def plan_linear_gaps(design: LinearGaps) -> Iterator[Job]:
    """Yield one job per combination of experiment 2.2; each trains several networks.

    Parameters
    ----------
    design : LinearGaps

    Yields
    ------
    Job
    """
    for config in design.configs():
        yield Job(
            experiment=LINEAR_GAPS,
            config=config,
            replicate=config.replicate,
            levels=config.flat_settings(),
            title=f"t* = {config.place}, orthogonality {config.orthogonality:g}",
            relative_cost=config.steps * config.networks,
        )


def plan_interventions(design: Interventions) -> Iterator[Job]:
    """Yield one job per cell and location; each trains all treatments and replicates.

    Parameters
    ----------
    design : Interventions

    Yields
    ------
    Job
    """
    for config in design.configs():
        yield Job(
            experiment=INTERVENTIONS,
            config=config,
            replicate=config.replicate,
            levels=config.flat_settings(),
            title=f"{config.cell}, rows at the {config.location}",
            relative_cost=float(config.steps * config.networks),
            cells=(config.cell,),
            datasets=design.datasets,
            modules=("study.tasks.located_rows",),
        )


class DesignKind(NamedTuple):
    """A kind of design that has a section of its own in `params.yaml`.

    Attributes
    ----------
    design : type of Design
        The settings of the section.
    plan : callable
        Yields the jobs of such a design.
    """

    design: type[Design]
    plan: Callable[[Any], Iterator[Job]]


DESIGNS = {
    "factorial": DesignKind(Factorial, plan_factorial),
    "interventions": DesignKind(Interventions, plan_interventions),
    "latching": DesignKind(Latching, plan_latching),
    "linear_gaps": DesignKind(LinearGaps, plan_linear_gaps),
}
"""The kinds of designs by their section in `params.yaml`, which is also the name of their dataset.

All other datasets are groups of runs.
"""
_PLANS = {RunConfig: plan_runs, **{kind.design: kind.plan for kind in DESIGNS.values()}}


def _attempt_title(attempt: Factorial) -> str:
    """Return the name of an attempt in lines of progress."""
    return (
        f"{attempt.architecture} {attempt.width} on {attempt.dataset} {attempt.order} "
        f"{attempt.noise}, rate {attempt.learning_rate}, {attempt.training_length} epochs, "
        f"replicate {attempt.replicate + 1}"
    )


def _pass_key(levels: Mapping[str, Any]) -> str:
    """Return the settings that attempts must share to be trained in one vmapped pass."""
    may_differ = ("learning_rate", "training_length", "order", "replicate")
    shared = {name: value for name, value in levels.items() if name not in may_differ}
    # Both kinds of noise give sequences of the same length.
    shared["noise"] = levels["noise"] != "none"
    return json.dumps(shared, sort_keys=True)
