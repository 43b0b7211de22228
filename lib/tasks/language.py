"""Language models: predict the next token at every step.

Sequences start from an empty state. The texts' programs read the stream in order and carry the state from one piece to the
next; the first steps of a piece know less here, the more the shorter the pieces.
"""

from pathlib import Path

import numpy as np

from lib.tasks._registry import task
from lib.tasks.data import Part, Task
from lib.tasks.prepared import SPLITS, load_file


@task
def language(
    prepared: Path,
    rng: np.random.Generator,
    *,
    dataset: str,
    time_steps: int,
    train_size: int = 0,
    validation_size: int = 0,
    test_size: int = 0,
) -> Task:
    """Return a stream of tokens in pieces.

    Parameters
    ----------
    dataset
        A data set of tokens with the next token as the target.
    time_steps
        Length T of a piece.
    train_size, validation_size, test_size
        Pieces to keep, from the start of each stream; 0 keeps all.

    Raises
    ------
    ValueError
        The data set is no stream, or there are fewer pieces than are to be kept.
    """
    ds = load_file(prepared / f"{dataset}.nc")
    if (ds.attrs["kind"], ds.attrs["target"]) != ("tokens", "steps"):
        raise ValueError(
            f"{dataset}: expected tokens with a target at every step, got {ds.attrs['kind']} with a {ds.attrs['target']}"
        )

    def part(name: str, size: int) -> Part:
        rows = ds["split"].values == SPLITS.index(name)
        inputs, targets = ds["inputs"].values[rows].ravel(), ds["target"].values[rows].ravel()
        pieces = cut(np.append(inputs, targets[-1]).astype(np.int64), time_steps)
        if not len(pieces[0]) or size > len(pieces[0]):
            raise ValueError(
                f"{dataset} {name}: {size or 1} pieces of {time_steps} tokens asked for, there are {len(pieces[0])}"
            )
        return Part(*(piece[: size or None] for piece in pieces))

    return Task(
        name=dataset,
        kind="tokens",
        target="steps",
        outputs=int(ds.attrs["outputs"]),
        vocabulary_size=int(ds.attrs["vocabulary_size"]),
        substitute=ds.attrs["substitute"],
        train=part("train", train_size),
        validation=part("validation", validation_size),
        test=part("test", test_size),
    )


def cut(stream: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of a stream and, for each token, the one after it, (n, steps) each; an incomplete row is left out.

    >>> cut(np.arange(6), 2)[1].tolist()
    [[1, 2], [3, 4]]
    """
    rows = (len(stream) - 1) // steps
    return tuple(stream[k : k + rows * steps].reshape(rows, steps) for k in (0, 1))
