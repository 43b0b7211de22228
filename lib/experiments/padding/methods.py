r"""The networks of experiment 2.3 and the five methods of Table 2.1, each one step of training.

=============== ======== ===================================================================================
method          network  what a step minimises
=============== ======== ===================================================================================
``adjoint``     RNN      the cross entropy F, by backpropagation
``coadjoint``   RNN      :math:`F + \kappa G`, G the scaled variance of the adjoints' norms (2.20)
``constrained`` RNN      :math:`F + \beta (\|W'W - I\|_2^2 + \|WW' - I\|_2^2)`
``lstm``        LSTM     F
``reservoir``   RNN      F, over the output layer alone
``linear``      linear   F; not in the text, see the notebook of Table 2.2
=============== ======== ===================================================================================
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lib.cells import Cell, make_cell
from lib.probes import Diverged
from lib.probes.coadjoint import coadjoint_loss, soft_orthogonality
from lib.tasks import Part
from lib.training.model import Classifier

CELLS = {
    "adjoint": "rnn",
    "coadjoint": "rnn",
    "constrained": "rnn",
    "lstm": "lstm",
    "reservoir": "rnn",
    "linear": "linear_rnn",
}
"""The cell that each method trains."""

FEATURE_BATCH = 500
"""Sequences that a reservoir, or an evaluation, runs over at once."""

Step = Callable[[Tensor, Tensor], None]


def initial_model(
    method: str, features: int, width: int, classes: int, initialisation: str, input_scale: float
) -> Classifier:
    """Return the network that `method` trains, its weights drawn from torch's generator.

    Parameters
    ----------
    features, width, classes
        Sizes p, d and l.
    initialisation, input_scale
        See `initialise`; an LSTM's input weights are not scaled.
    """
    model = Classifier(make_cell(CELLS[method], features, width), classes)
    initialise(model.cell, initialisation, 1.0 if method == "lstm" else input_scale)
    nn.init.xavier_uniform_(model.output.weight)
    nn.init.zeros_(model.output.bias)
    if method == "reservoir":
        model.cell.requires_grad_(False)
    return model


def initialise(cell: Cell, initialisation: str, input_scale: float) -> None:
    """Draw a cell's weights as TensorFlow does, whose routines the text says it uses (experiment 2.2).

    Parameters
    ----------
    cell
        A cell with the weights W, R and b.
    initialisation
        ``orthogonal`` or ``glorot``: how W is drawn (Figure A2); the gates of an LSTM as one matrix.
    input_scale
        R is Glorot uniform times this. At 1 the noise drives tanh into saturation: whatever the state held of the image
        is gone after a few rows, and with it the gradient.

    Notes
    -----
    Biases are zero, but for an LSTM's forget gate, where they are one.
    """
    draw = {"orthogonal": nn.init.orthogonal_, "glorot": nn.init.xavier_uniform_}[initialisation]
    draw(cell.W)
    nn.init.xavier_uniform_(cell.R)
    nn.init.zeros_(cell.b)
    with torch.no_grad():
        cell.R.mul_(input_scale)
        if cell.name == "lstm":
            cell.b[cell.hidden_size : 2 * cell.hidden_size] = 1  # gates in the order i f g o


def training_step(
    method: str, model: Classifier, *, kappa: float = 0.0, orthogonality: float = 0.0
) -> Step:
    """Return a function that computes the gradients of one mini-batch, from inputs and labels.

    Parameters
    ----------
    method
        A name of the module's table.
    model
        The network; a reservoir's inputs are its features.
    kappa, orthogonality
        Weights of the penalties of ``coadjoint`` and ``constrained``.

    Notes
    -----
    The step raises `lib.probes.coadjoint.Diverged` where its loss, or a gradient of the coadjoint method, is not finite.
    """
    parameters = list(model.parameters())

    def coadjoint(inputs: Tensor, labels: Tensor) -> None:
        def losses(x: Tensor) -> Tensor:
            return F.cross_entropy(model.output(x), labels, reduction="none")

        penalised = coadjoint_loss(model.cell, model.drive(inputs), losses, kappa=kappa)
        penalised.backward(parameters)

    def plain(inputs: Tensor, labels: Tensor) -> None:
        loss = F.cross_entropy(logits(method, model, inputs), labels)
        if method == "constrained":
            loss = loss + orthogonality * soft_orthogonality(model.cell.W)
        if not torch.isfinite(loss):
            raise Diverged(f"the loss of a batch is {loss.item():g}")
        loss.backward()

    return coadjoint if method == "coadjoint" else plain


def logits(method: str, model: Classifier, inputs: Tensor) -> Tensor:
    """Return the predictions before the softmax, (batch, classes).

    Parameters
    ----------
    inputs : (batch, time, feature), or (batch, hidden) features of a reservoir
    """
    if method == "reservoir":
        return model.output(inputs)
    # The final state, not the last of the outputs: its gradient needs no array over all times.
    _, state = model.cell(model.drive(inputs))
    return model.output(state[model.cell.readout])


@torch.no_grad()
def reservoir_features(model: Classifier, part: Part) -> Part:
    """Return the last states that a fixed network reaches, (n, hidden), in place of the inputs."""
    pieces = torch.from_numpy(part.inputs).split(FEATURE_BATCH)
    states = [model.cell(model.drive(piece))[1][model.cell.readout] for piece in pieces]
    return Part(torch.cat(states).numpy(), part.targets)


@torch.no_grad()
def evaluate(method: str, model: Classifier, part: Part, size: int = 0) -> tuple[float, float]:
    """Return mean cross entropy and accuracy on the first `size` sequences, 0 for all of them."""
    inputs, labels = (
        torch.from_numpy(array[: size or None]) for array in (part.inputs, part.targets)
    )
    pieces = inputs.split(FEATURE_BATCH)
    predicted = torch.cat([logits(method, model, piece) for piece in pieces]).double()
    accuracy = (predicted.argmax(1) == labels).double().mean()
    return F.cross_entropy(predicted, labels).item(), accuracy.item()
