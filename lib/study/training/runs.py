"""Train and measure one network on one task with one recipe.

`train_run` is the whole run: it builds the model, trains it, measures it, and returns the results.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from longrnn.cells import cell_class
from torch import nn

from study.config.network import Network
from study.config.recipe import PENALTY_WEIGHTS, ParameterGroup, Recipe
from study.config.run import RunConfig
from study.results.schema import COMPLETED, DIVERGED
from study.tasks import Split, Task
from study.training.batches import Batches, EpochBatches, GeneratedBatches
from study.training.checkpoint import Checkpoint
from study.training.graphed_objective import with_graphs
from study.training.job import Arrays, Job
from study.training.loop import train
from study.training.memory import check_memory
from study.training.model import Model, build_model, pick_device
from study.training.objectives import make_objective
from study.training.probe import WITH_RECORDS, Probe
from study.training.recorder import Recorder, Row
from study.training.run_checks import check_target
from study.training.run_data import RunData, TrainingSetup, load_data, reduce_to_head
from study.training.scores import evaluate, sequence_scores, tensors
from study.training.seeds import seeds, torch_seed
from study.training.state import RunState


def train_runs(
    jobs: Sequence[Job], prepared: Path | None, checkpoints: Sequence[Checkpoint | None]
) -> list[Arrays]:
    """Train the runs of some jobs.

    Parameters
    ----------
    jobs, prepared, checkpoints
        See `study.training.job.Experiment.train`.

    Returns
    -------
    list of dict
        As `train_run`.
    """
    results = []
    for job, checkpoint in zip(jobs, checkpoints, strict=True):
        data = load_data(job.config, prepared)
        results.append(train_run(job.config, job.replicate, data, checkpoint))
    return results


def train_run(
    config: RunConfig, replicate: int, data: RunData, checkpoint: Checkpoint | None = None
) -> Arrays:
    """Train and measure one network.

    All networks of one task and replicate see the same sequences in the same order. If they also
    have the same cell and width, they start from the same weights. A run ends as diverged if a loss
    or a measurement is not finite, and with the coadjoint objective also if a gradient is not
    finite. Earlier records are kept.

    Parameters
    ----------
    config : RunConfig
    replicate : int
        Selects the initial weights and the order of the batches.
    data : RunData
        As `load_data` returns it.
    checkpoint : Checkpoint, optional
        File for the state of the run, to resume it after a kill.

    Returns
    -------
    dict
        Variables of `study.results.rows` by name.

    Raises
    ------
    ValueError
        The configuration does not fit the data, or needs more memory than there is.
    """
    task = data.task
    check_target(config, task)
    if config.recipe.stop_below and not data.has_validation:
        raise ValueError(f"stop_below needs a validation split; {task.name} has none")
    levels = {"task": config.task.flat_settings(), "replicate": replicate}
    (order,) = seeds(levels, 1)
    network_levels = {"cell": config.network.cell, "width": config.network.width}
    (initial,) = seeds(levels | network_levels, 1)
    device = pick_device(config.device)
    # Dropout also uses PyTorch's generator, so the whole run is inside this block.
    with torch_seed(initial):
        model = _model_on_device(config, data, device)
        setup = reduce_to_head(config.network, model, data)
        batches = _batches(config, setup.train, task, np.random.default_rng(order), device)
        probe = Probe(config, task, model, data.splits["train"], data.test, device)
        before, _ = probe.compute_before_or_after()
        state = _train(config, setup, batches, task, probe, checkpoint)
        after: Mapping[str, np.ndarray] = {}
        if state.status == COMPLETED:
            after, is_valid = probe.compute_before_or_after()
            if not is_valid:
                state.status = DIVERGED
        best = _measure_best(setup, state, task, probe)
    return {
        "status": state.status,
        "steps": state.step,
        "records": len(state.rows),
        **_recorded(state),
        **_before_and_after(before, after),
        **best,
        "parameters": sum(parameter.numel() for parameter in model.cell.parameters()),
        **_about_task(config, data),
    }


def recipe_with_start(recipe: Recipe, network: Network) -> Recipe:
    """Add the parameter groups that belong to a network's initial weights to a recipe.

    Some published initializations come with a factor of the learning rate for some parameters.

    Parameters
    ----------
    recipe : Recipe
    network : Network
        Its cell and its `start` decide; nothing is added if the cell is frozen.

    Returns
    -------
    Recipe
        The recipe's own groups come first. A parameter belongs to the first group that matches it,
        so they take precedence.
    """
    if "cell.*" in network.frozen:
        return recipe
    factors = cell_class(network.cell).starts[network.start].step_factors
    groups = [
        ParameterGroup(names=f"cell.{name}", factor=factor) for name, factor in factors.items()
    ]
    return recipe.model_copy(update={"groups": (*recipe.groups, *groups)})


def _model_on_device(config: RunConfig, data: RunData, device: torch.device) -> Model:
    """Return a new model on its device; raise `ValueError` if a batch doesn't fit into memory."""
    model = build_model(data.task, config.network)
    width = config.network.width * getattr(model.cell, "layers", 1)
    check_memory(data.task, data.test.time_steps, config.batch_size, width, device)
    return model.to(device)


def _batches(
    config: RunConfig,
    split: Split | None,
    task: Task,
    rng: np.random.Generator,
    device: torch.device,
) -> Batches:
    """Return the source of training batches: epochs over a split, or newly generated sequences."""
    if split is None:
        return GeneratedBatches(lambda: tensors(task.draw(config.batch_size, rng), device), rng)
    return EpochBatches(split, config.batch_size, rng, device)


def _train(
    config: RunConfig,
    setup: TrainingSetup,
    batches: Batches,
    task: Task,
    probe: Probe,
    checkpoint: Checkpoint | None,
) -> RunState:
    """Train the model, or only its head, and record losses, metrics and further measures."""
    recipe = recipe_with_start(config.recipe, config.network)
    weight_name = PENALTY_WEIGHTS[recipe.objective]
    weight = getattr(recipe, weight_name) if weight_name else 0.0

    def measure(model: nn.Module) -> Row:
        scores = _losses_and_metrics(model, task, setup.measured, config.measurement.metric)
        return scores | probe.compute(*WITH_RECORDS)

    objective = make_objective(recipe.objective, task, weight)
    if recipe.objective == "plain":  # the others use submodules of the model
        objective = with_graphs(objective, setup.model)

    def is_good_enough(row: Row) -> bool:
        return row["validation_loss"] < recipe.stop_below

    return train(
        setup.model,
        batches,
        objective,
        recipe,
        recorder=Recorder(
            measure,
            _record_steps(config, recipe.total_steps(batches.steps_per_epoch)),
            score=_score_of_row(config, task, setup.measured),
            stop=is_good_enough if recipe.stop_below else None,
        ),
        checkpoint=checkpoint,
        check="gradients" if recipe.objective == "coadjoint" else "loss",
    )


def _record_steps(config: RunConfig, total_steps: int) -> list[int]:
    """Return the steps to record at: equally spaced, the last one at the end of training."""
    records = config.measurement.records
    steps = [max(1, total_steps * k // records) for k in range(1, records + 1)]
    return [0, *steps] if config.measurement.first_record else steps


def _losses_and_metrics(
    model: nn.Module, task: Task, splits: Mapping[str, Split], metric_name: str
) -> dict[str, float]:
    """Return loss and metric of a model on each split, such as ``test_loss``."""
    scores = {}
    for name in ("test", "validation", "train"):
        if name in splits:
            loss, metric = evaluate(model, task, splits[name])
            scores[f"{name}_loss"] = loss
            # The only other metric is the squared error, which is the loss.
            scores[f"{name}_metric"] = loss if metric_name else metric
    return scores


def _score_of_row(
    config: RunConfig, task: Task, splits: Mapping[str, Split]
) -> Callable[[Row], tuple[float, ...]]:
    """Return the function that scores a row, for `Recorder.score`.

    The score is the validation metric. Of rows with equal metrics the earliest is the best, or the
    latest if trajectories are measured, because the paper's figure shows that one. Without a
    validation split the last row is the best.
    """
    if "validation" not in splits:
        return lambda row: (row["step"],)
    higher_is_better = task.classifies and not config.measurement.metric
    sign = 1 if higher_is_better else -1
    later = 1 if "trajectories" in config.measurement.measures else -1
    return lambda row: (sign * row["validation_metric"], later * row["step"])


def _measure_best(setup: TrainingSetup, state: RunState, task: Task, probe: Probe) -> Arrays:
    """Load the best weights, and measure each test sequence and the trajectories with them."""
    if state.best is None:
        return {}
    _, best_weights = state.best
    setup.model.load_state_dict(best_weights)
    scores = sequence_scores(setup.model, task, setup.measured["test"])
    return {"sequence_score": scores} | probe.compute("trajectories")


def _recorded(state: RunState) -> dict[str, np.ndarray]:
    """Return each measurement recorded during training as an array over records."""
    if not state.rows:
        return {}
    return {name: np.array(state.column(name)) for name in state.rows[0]}


def _before_and_after(
    before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Stack the values before and after training; ``nan`` stands for a missing value."""
    stacked = {}
    for name, value in {**before, **after}.items():
        nothing = np.full_like(value, np.nan, dtype=float)
        stacked[name] = np.stack([before.get(name, nothing), after.get(name, nothing)])
    return stacked


def _about_task(config: RunConfig, data: RunData) -> Arrays:
    """Return facts about the task: sizes, metric, and the scores at chance."""
    task = data.task
    loss, metric = task.guess(data.test)
    metric_name = config.measurement.metric
    return {
        "sequences": 0 if task.train is None else len(task.train),
        "test_sequences": len(data.test),
        "time_steps": data.test.time_steps,
        "substitute": np.array(task.substitute),
        "metric": np.array(metric_name or task.metric),
        "guess_loss": loss,
        "guess_metric": loss if metric_name else metric,
    }
