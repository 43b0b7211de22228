r"""Does the decay of adjoint states cause the failure to learn? An experiment on backpropagation.

The dissertation's tenet is that networks fail to learn long-term dependencies because their adjoint
states vanish (L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024,
chapter 3). Its factorial experiment can only show a correlation. Here only the backward pass is
changed (`study.training.adjoint_treatments`), in networks whose adjoints keep their norms and in
networks whose adjoints vanish. The informative time steps are at the beginning, everywhere or at
the end of the sequences. All runs of one cell and replicate start from the same weights and see the
same batches, so that treatments can be compared in pairs.

If the tenet is causal, two effects appear when the information is at the beginning. Accuracy falls
with the dose in cells that keep gradients, and renormalized adjoints let the other cells learn. If
the information is at the end, neither treatment matters. Two null controls separate norms from
information. One has adjoints of the right norm with random signs. The other has ordinary gradients,
rescaled for each parameter to the norm of the treated gradient, so that the effective learning rate
is the same.

These predictions were written down before the runs, after a pilot with one replicate and fewer
steps (LSTM, GRU, basic RNN, UnICORNN):

1. Beginning: test accuracy falls with the dose in Lipschitz RNN, antisymmetric RNN and UnICORNN, by
   at least .05 at -10.
2. End: no dose changes test accuracy by more than .03 on average over these three cells; the effect
   of -10 at the beginning is larger than at the end.
3. Beginning: renormalized adjoints raise the accuracy of LSTM, GRU and basic RNN by at least .2 on
   average.
4. Both null controls fail to do the same: random signs do not help the LSTM, GRU and basic RNN
   (below half of the gain of 3), and the norms of dose -10 alone cost less than half of what the
   dose costs.

The runs of one cell and location are computed together, along a leading run axis. The number of
runs is part of the design, so a result depends only on its settings.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from study.results.schema import COMPLETED, DIVERGED
from study.tasks import Task, make_task
from study.training.checkpoint import Checkpoint
from study.training.intervention_design import TREATMENTS, Interventions
from study.training.job import Arrays, Job
from study.training.seeds import seeds
from study.training.treated_networks import TreatedNetworks


def train_interventions(
    jobs: Sequence[Job], prepared: Path | None, checkpoints: Sequence[Checkpoint | None]
) -> list[Arrays]:
    """Train and measure the networks of some jobs.

    Parameters
    ----------
    jobs, prepared, checkpoints
        See `study.training.job.Experiment.train`. These runs have no checkpoints.

    Returns
    -------
    list of dict
        As `train_networks`.
    """
    return [train_networks(job.config, prepared) for job in jobs]


def train_networks(config: Interventions, prepared: Path) -> Arrays:
    """Train all networks of one cell and location.

    Parameters
    ----------
    config : Interventions
        A job of the design, with one level per factor.
    prepared : Path
        Folder of the prepared data sets.

    Returns
    -------
    dict
        Variables of `study.results.interventions`, each (treatment, replicate) or (treatment,
        replicate, stage). A run has diverged if a loss or, at the end, a weight is not finite. What
        is measured after training is ``nan`` for such a run, because the predictions of a network
        without finite weights are meaningless.
    """
    task = _make_task(config, prepared)
    runs = TreatedNetworks(config, task)
    before = runs.metrics(task.test)
    losses = runs.train(task.train)
    after = runs.metrics(task.test)
    diverged = ~(np.isfinite(losses).all(axis=0) & runs.are_finite())

    def trained(values: np.ndarray) -> np.ndarray:
        return np.where(diverged, np.nan, values)

    shape = (len(TREATMENTS), config.networks)
    last_tenth = losses[-max(1, len(losses) // 10) :]
    ordinary = np.stack([before.ordinary, trained(after.ordinary)], axis=-1)
    treated = np.stack([before.treated, trained(after.treated)], axis=-1)
    chance = np.bincount(task.test.targets).max() / len(task.test)
    return {
        "status": np.where(diverged, DIVERGED, COMPLETED).reshape(shape),
        "test_accuracy": trained(runs.accuracies(task.test)).reshape(shape),
        "validation_accuracy": trained(runs.accuracies(task.validation)).reshape(shape),
        "train_loss": trained(last_tenth.mean(axis=0)).reshape(shape),
        "own_metric": ordinary.reshape(*shape, 2),
        "treated_metric": treated.reshape(*shape, 2),
        "chance": np.full(shape, chance),
        "test_sequences": np.full(shape, len(task.test)),
    }


def _make_task(config: Interventions, prepared: Path) -> Task:
    """Return the task, the same for all cells, treatments and replicates of one location."""
    settings = {
        "task": "located_rows",
        "dataset": config.dataset,
        "time_steps": config.time_steps,
        "location": config.location,
        "noise": config.noise,
        "train_size": config.train_size,
        "validation_size": config.validation_size,
        "test_size": config.test_size,
    }
    (seed,) = seeds({"task": settings}, 1)
    return make_task(settings, prepared, np.random.default_rng(seed))
