"""Language models: predict the next token at every step.

Sequences start from an empty state. The papers' programs read the stream in order and carry the
state from one piece to the next. Here the first steps of a piece have less context, which matters
more for shorter pieces.
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
    """Return a stream of tokens in pieces of T = `time_steps`.

    The sizes are numbers of pieces to keep, from the start of each stream; 0 keeps all.
    """
    data.check("tokens", "steps")
    sizes = {"train": train_size, "validation": validation_size, "test": test_size}
    splits = {}
    for name, size in sizes.items():
        rows = getattr(data, name)
        stream = np.append(rows.inputs.ravel(), rows.targets.ravel()[-1])
        pieces = Split(*cut(stream, time_steps))
        if not pieces or size > len(pieces):
            raise ValueError(
                f"{data.name} {name}: expected at most {len(pieces)} pieces of {time_steps} "
                f"tokens, got {size or 1}"
            )
        splits[name] = pieces.take(slice(size or None))
    return replace(data, **splits)


def cut(stream: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of a stream, and the token after each token.

    Parameters
    ----------
    stream
        Token ids, (tokens,).
    steps
        Tokens of a row; an incomplete row is left out.

    Returns
    -------
    tuple of numpy.ndarray
        Rows and next tokens, (n, steps) each.

    Examples
    --------
    >>> cut(np.arange(6), 2)[1].tolist()
    [[1, 2], [3, 4]]

    """
    rows = (len(stream) - 1) // steps
    tokens = stream[: rows * steps].reshape(rows, steps)
    next_tokens = stream[1 : 1 + rows * steps].reshape(rows, steps)
    return tokens, next_tokens
