"""Check a run's configuration against its task and its network, before anything is trained."""

import numpy as np
import torch
from longrnn.probes.coadjoint import check_no_kinks
from longrnn.probes.time_steps import count_time_steps

from study.config.run import LAST_STATE_ONLY, RunConfig
from study.tasks import Split, Task, check_task, find_maker, make_task
from study.training.equilibria import equilibrium_eigenvalues
from study.training.model import Model, build_model
from study.training.optimizers import parameter_groups
from study.training.run_data import trains_head_only
from study.training.seeds import torch_seed

CLASSIFIERS_ONLY = frozenset({"coadjoint", "penalty", "trajectories", "adjoint_norms"})
"""Objectives and measures that only apply to classifiers."""
TRAINED_CELLS_ONLY = frozenset({"coadjoint", "orthogonal", "penalty"})
"""Objectives and measures that act on the weights of the cell."""


def check_settings(config: RunConfig) -> None:
    """Check a run against its task, without data and without building the network.

    Parameters
    ----------
    config : RunConfig

    Raises
    ------
    ValueError
        The task or a setting of it is unknown, or does not fit the recipe or the measurement.
    """
    spec = config.task.flat_settings()
    check_task(spec)
    if not find_maker(spec).draws:
        return
    name = config.task.maker
    measurement = config.measurement
    if not measurement.test_draws:
        raise ValueError(
            f"{name} generates its sequences; set test_draws, the number of test sequences"
        )
    if config.recipe.epochs:
        raise ValueError(f"{name} generates its sequences, so it has no epochs; set steps")
    if config.recipe.stop_below and not measurement.validation_draws:
        raise ValueError("stop_below needs the validation loss; set validation_draws")


def check_target(config: RunConfig, task: Task) -> None:
    """Check metric, objective and measures of a run against its task's targets.

    Parameters
    ----------
    config : RunConfig
    task : Task

    Raises
    ------
    ValueError
        One of them does not support this kind of target.
    """
    metric = config.measurement.metric
    if metric and task.classifies:
        raise ValueError(
            f"metric {metric!r} applies to regression, but {task.name} is a classification task"
        )
    if task.target == "class":
        return
    used = _used(config)
    unsupported = used & CLASSIFIERS_ONLY
    if task.target == "steps":
        unsupported |= used & LAST_STATE_ONLY
    if unsupported:
        name = min(unsupported)
        kind = "class" if name in CLASSIFIERS_ONLY else "target"
        if task.target == "steps":
            problem = f"{task.name} has one {'class' if task.classifies else 'value'} per time step"
        else:
            problem = f"{task.name} has one value"
        raise ValueError(f"{name} needs one {kind} per sequence; {problem}")


def check_network(config: RunConfig) -> None:
    """Build the network of a run, to refuse one that can't be built or can't be trained.

    A task that generates its sequences is made. A task with a data set is replaced by a stand-in of
    the same kind, because the data may not be prepared yet. Inputs of the stand-in have one more
    feature than the network has neurons. `study.training.runs.train_run` repeats the checks that
    need the data.

    Parameters
    ----------
    config : RunConfig

    Raises
    ------
    ValueError
        The network can't be built, or its objective or a measure does not support its cell.
    """
    with torch_seed(np.random.SeedSequence(0)):
        model = build_model(_task_or_stand_in(config), config.network)
    _check_objective(config, model)
    _check_measures(config, model)
    trained = model.output if trains_head_only(config.network) else model
    parameter_groups(trained, config.recipe)


def _used(config: RunConfig) -> frozenset[str]:
    """Return the names of the objective and the measures of a run."""
    return frozenset({config.recipe.objective, *config.measurement.measures})


def _task_or_stand_in(config: RunConfig) -> Task:
    """Return the task of a run if it generates its sequences, else a stand-in of its kind."""
    spec = config.task.flat_settings()
    if find_maker(spec).draws:
        task = make_task(spec, None, np.random.default_rng(0))
        check_target(config, task)
        return task
    if config.network.embedding_width:
        kind = "tokens"
        inputs = np.zeros((1, 1), int)
    else:
        kind = "series"
        inputs = np.zeros((1, 1, config.network.width + 1), np.float32)
    split = Split(inputs, np.zeros(1, int))
    return Task(name="a", kind=kind, target="class", outputs=2, vocabulary_size=1, train=split)


def _check_objective(config: RunConfig, model: Model) -> None:
    """Refuse an objective that does not support the cell."""
    objective = config.recipe.objective
    network = config.network
    if objective == "orthogonal":
        shape = getattr(getattr(model.cell, "W", None), "shape", ())
        if shape != (network.width, network.width):
            raise ValueError(f"{network.cell} has no recurrent matrix W (d, d) to keep orthogonal")
    if objective == "coadjoint":
        check_no_kinks(model.cell)


def _check_measures(config: RunConfig, model: Model) -> None:
    """Refuse measures that do not support the cell."""
    used = _used(config)
    no_input = torch.zeros(1, 1, model.cell.input_size)
    if "time_steps" in used:
        count_time_steps(model.cell, no_input)
    if "eigenvalues" in used:
        equilibrium_eigenvalues(model.cell, no_input)
    unsupported = used & TRAINED_CELLS_ONLY
    if "cell.*" in config.network.frozen and unsupported:
        raise ValueError(
            f"{min(unsupported)} needs a trained cell, but cell.* is frozen; remove one of the two"
        )
