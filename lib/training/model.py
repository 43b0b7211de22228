"""Cells that answer after the last input, by a class or by a number."""

from torch import Tensor, nn

from lib.cells import Cell


class Classifier(nn.Module):
    """Read the last state out linearly, as in the dissertation's (2.1) with a softmax as phi.

    Parameters
    ----------
    cell
        Any cell; its input size is the number of features, or the width of the embedding.
    classes
        Number of labels K.
    vocabulary_size
        Number of tokens; 0 where the inputs are numbers and need no embedding.
    """

    def __init__(self, cell: Cell, classes: int, *, vocabulary_size: int = 0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, cell.input_size) if vocabulary_size else None
        self.cell = cell
        self.output = nn.Linear(cell.hidden_size, classes)

    def drive(self, inputs: Tensor) -> Tensor:
        """Return what the cell reads, (time, batch, input).

        Parameters
        ----------
        inputs : (batch, time, feature) or (batch, time)
            Numbers, or int64 tokens where there is an embedding.
        """
        if self.embedding is not None:
            inputs = self.embedding(inputs)
        return inputs.transpose(0, 1).contiguous()

    def forward(self, inputs: Tensor, *, engine: str = "auto") -> Tensor:
        """Return the logits, (batch, classes), after the last input."""
        outputs, _ = self.cell(self.drive(inputs), engine=engine)
        return self.output(outputs[-1])


class Predictor(nn.Module):
    """Read one number out of the last state linearly."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = cell
        self.output = nn.Linear(cell.hidden_size, 1)

    def forward(self, u: Tensor) -> Tensor:
        """Return a number for each sequence, (batch,), for u of (time, batch, input)."""
        return self.output(self.cell(u)[0][-1])[:, 0]
