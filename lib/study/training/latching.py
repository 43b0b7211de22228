r"""The latching experiment: the dynamics of a small network that remembers one sign.

L. Johnston, *Learning Sequential Patterns with Recurrent Neural Networks*, 2024, sections 3.3.2 and
3.6, Figures 3.6 to 3.8. The paper trains a basic RNN on the shortest long time gap task, freezes
its recurrence, and trains the output layer again for each longer task. Our choices where the paper
gives no details:

================== =============================================================================
optimizer          Adam on new sequences, with cosine annealing of the learning rate; gradients
                   are clipped
initial weights    TensorFlow's for recurrent layers: W orthogonal, R by Glorot and Bengio, b zero
output layers      for longer tasks: logistic regression on the last states, solved to its optimum
number of networks several, all of which are stored; the paper shows one
================== =============================================================================
"""

import copy
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from longrnn.cells import make_cell
from longrnn.probes.adjoint import adjoint_norms
from longrnn.probes.lyapunov import largest_exponent
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from study.config.latching import Latching
from study.config.recipe import Recipe
from study.results.schema import COMPLETED
from study.tasks.long_time_gap import draw_signs
from study.training.batches import GeneratedBatches
from study.training.checkpoint import Checkpoint
from study.training.job import Arrays, Job
from study.training.loop import train
from study.training.measures import head_losses
from study.training.model import Model
from study.training.recorder import Recorder
from study.training.scores import cross_entropy, predicted_classes, tensors
from study.training.seeds import seeds_of, torch_seed
from study.training.state import RunState

_PENALTY = 1e-4
"""Weight of the penalty on squared output weights.

Without a penalty the weights diverge if the classes are linearly separable.
"""


def train_latching(
    jobs: Sequence[Job], prepared: Path | None, checkpoints: Sequence[Checkpoint | None]
) -> list[Arrays]:
    """Train and measure some networks.

    Parameters
    ----------
    jobs, prepared, checkpoints
        See `study.training.job.Experiment.train`.

    Returns
    -------
    list of dict
        As `train_network`.
    """
    return [
        train_network(job.config, checkpoint)
        for job, checkpoint in zip(jobs, checkpoints, strict=True)
    ]


def train_network(config: Latching, checkpoint: Checkpoint | None = None) -> Arrays:
    """Train one network, fit its output layers, and measure it.

    A network is measured even if it did not reach the tolerance. A network with a loss that was not
    finite has diverged and is not measured.

    Parameters
    ----------
    config : Latching
        One replicate of the design.
    checkpoint : Checkpoint, optional
        File for the state of the run.

    Returns
    -------
    dict
        ``error`` (horizon,), ``exponent`` (sequence,), ``states`` and ``adjoints`` (horizon,
        sequence, time), which are ``nan`` after the end of a sequence; ``status`` and
        ``steps_completed``.
    """
    _, *data_seeds = network_seeds(config)
    drawing, checking, measuring = (np.random.default_rng(seed) for seed in data_seeds)
    model = initial_model(config)
    state = _train(config, model, drawing, checking, checkpoint)
    shape = (len(config.horizons), config.probe_size, max(config.horizons))
    arrays = {
        "error": np.full(len(config.horizons), np.nan),
        "exponent": np.full(config.probe_size, np.nan),
        "states": np.full(shape, np.nan, np.float32),
        "adjoints": np.full(shape, np.nan, np.float32),
    }
    if state.status == COMPLETED:
        model.requires_grad_(False)
        for index, horizon in enumerate(config.horizons):
            _measure_horizon(model, config, horizon, measuring, index, arrays)
    return arrays | {"status": state.status, "steps_completed": state.step}


def network_seeds(config: Latching) -> tuple[np.random.SeedSequence, ...]:
    """Return the seeds of a network.

    Parameters
    ----------
    config : Latching
        One replicate of the design.

    Returns
    -------
    tuple of numpy.random.SeedSequence
        Four seeds: for initial weights, training sequences, sequences that check the error during
        training, and measurements.
    """
    return seeds_of(config, ("replicate", "width", "place", "horizon"), 4)


def initial_model(config: Latching) -> Model:
    """Return the network before training, with TensorFlow's initial weights.

    W is orthogonal, R as in Glorot and Bengio, b zero. The output is the logit of a positive sign.

    Parameters
    ----------
    config : Latching
        One replicate of the design.

    Returns
    -------
    Model
    """
    initial, *_ = network_seeds(config)
    with torch_seed(initial):
        model = Model(make_cell("rnn", 1, config.width), 1)
        model.cell.start("author")
    return model


def _train(
    config: Latching,
    model: Model,
    drawing: np.random.Generator,
    checking: np.random.Generator,
    checkpoint: Checkpoint | None,
) -> RunState:
    """Train on new sequences until the error on others is small, or until the last step."""
    draw = partial(draw_signs, config.place, config.horizon)

    @torch.no_grad()
    def measure(model: Model) -> dict[str, float]:
        inputs, labels = tensors(draw(config.check_size, checking))
        return {"error": _error(model(inputs), labels)}

    def objective(model: Model, inputs: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(model(inputs), labels)

    recipe = Recipe(
        learning_rate=config.learning_rate,
        steps=config.training_steps,
        gradient_clip=config.clip,
        cosine=True,
        options={"fused": True},
    )
    recorder = Recorder(
        measure,
        range(config.check_every, config.training_steps + 1, config.check_every),
        # Half the tolerance is a margin: on other sequences the error is then below the tolerance.
        stop=lambda row: row["error"] < config.tolerance / 2,
    )
    batches = GeneratedBatches(lambda: tensors(draw(config.batch_size, drawing)), drawing, checking)
    return train(model, batches, objective, recipe, recorder=recorder, checkpoint=checkpoint)


def fit_output(states: Tensor, labels: Tensor) -> nn.Linear:
    """Fit the output layer of a longer task by logistic regression.

    Parameters
    ----------
    states : Tensor
        Last states x_T, shape (n, d).
    labels : Tensor
        0 or 1, shape (n,).

    Returns
    -------
    nn.Linear
        Float64, with one output: the logit of label 1.
    """
    # scikit-learn adds half the squared weights to C times the summed loss.
    inverse_penalty = 1 / (2 * len(labels) * _PENALTY)
    regression = LogisticRegression(C=inverse_penalty, tol=1e-9, max_iter=1000)
    regression.fit(states.double().numpy(), labels.numpy())
    layer = nn.Linear(states.shape[1], 1).double()
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(regression.coef_))
        layer.bias.copy_(torch.from_numpy(regression.intercept_))
    return layer.requires_grad_(False)


def _measure_horizon(
    model: Model,
    config: Latching,
    horizon: int,
    rng: np.random.Generator,
    index: int,
    arrays: dict[str, np.ndarray],
) -> None:
    """Fill in error, states and adjoints of one horizon; for the longest one also exponents."""
    cell = model.cell
    draw = partial(draw_signs, config.place, horizon)
    if horizon == config.horizon:
        output = copy.deepcopy(model.output).double()
    else:
        inputs, labels = tensors(draw(config.fit_size, rng))
        states, _ = cell(model.cell_inputs(inputs))
        output = fit_output(states[-1], labels)
    inputs, labels = tensors(draw(config.test_size, rng))
    u = model.cell_inputs(inputs)
    states, _ = cell(u)
    arrays["error"][index] = _error(output(states[-1].double()), labels)
    followed = slice(config.probe_size)
    u = u[:, followed]
    norms = adjoint_norms(cell, u, partial(head_losses, output, labels[followed]))
    state_norms = torch.linalg.vector_norm(states[:, followed], dim=2)
    arrays["states"][index, :, :horizon] = state_norms.T
    arrays["adjoints"][index, :, :horizon] = norms.readout.T
    if horizon == max(config.horizons):
        arrays["exponent"][:] = largest_exponent(cell, u, start=config.place)


def _error(logits: Tensor, labels: Tensor) -> float:
    """Return the fraction of wrong signs."""
    return (predicted_classes(logits) != labels).double().mean().item()
