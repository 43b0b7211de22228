"""Language modeling: predict the next token at every step.

Here every piece of the stream starts from the initial state. The papers' programs read the pieces
in order and pass the state from one piece to the next. So the first steps of a piece have less
context here, which matters more if pieces are short.
"""

from dataclasses import replace

import numpy as np

from study.config.section import Positive, Size
from study.tasks._registry import task
from study.tasks.data import Split, Task


@task
def language(
    data: Task,
    *,
    time_steps: Positive,
    train_size: Size = 0,
    validation_size: Size = 0,
    test_size: Size = 0,
) -> Task:
    """Cut each split's stream of tokens into pieces.

    Parameters
    ----------
    data : Task
        Streams of tokens.
    time_steps : int
        Length T of a piece.
    train_size, validation_size, test_size : int
        Number of pieces to keep from the start of each stream; 0 for all.

    Returns
    -------
    Task
        Inputs and targets (n, T) int64: tokens, and the token after each.

    Raises
    ------
    ValueError
        The data set is not a stream, or a stream has fewer pieces.
    """
    data.check("tokens", "steps")
    sizes = {"train": train_size, "validation": validation_size, "test": test_size}
    splits = {}
    for name, size in sizes.items():
        rows = getattr(data, name)
        stream = np.append(rows.inputs.ravel(), rows.targets.ravel()[-1])
        pieces = Split(*cut(stream, time_steps))
        if not pieces:
            raise ValueError(
                f"{data.name} {name}: expected more than {time_steps} tokens, the length of a "
                f"piece, got {len(stream)}; lower time_steps"
            )
        if size > len(pieces):
            raise ValueError(
                f"{data.name} {name}: expected at most {len(pieces)} pieces of {time_steps} "
                f"tokens, got {size}; use 0 for all of them"
            )
        splits[name] = pieces.take(slice(size or None))
    return replace(data, **splits)


def cut(stream: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut a stream into rows.

    Parameters
    ----------
    stream : numpy.ndarray
        Token ids, (tokens,).
    steps : int
        Tokens per row; an incomplete row is left out.

    Returns
    -------
    tokens, next_tokens : numpy.ndarray
        Shape (n, steps) each; the second array has the token after each token of the first.

    Examples
    --------
    >>> cut(np.arange(6), 2)[1].tolist()
    [[1, 2], [3, 4]]
    """
    rows = (len(stream) - 1) // steps
    tokens = stream[: rows * steps].reshape(rows, steps)
    next_tokens = stream[1 : 1 + rows * steps].reshape(rows, steps)
    return tokens, next_tokens
