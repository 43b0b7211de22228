"""Seeds that depend only on the settings of a job, not on where or when it runs."""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import torch


def seeds(levels: Mapping, count: int) -> tuple[np.random.SeedSequence, ...]:
    """Return independent seeds that depend only on the given levels.

    Parameters
    ----------
    levels : mapping
        JSON values by name, in any order.
    count : int
        Number of seeds. The first ones stay the same if more are requested.

    Returns
    -------
    tuple of numpy.random.SeedSequence
    """
    text = json.dumps(levels, sort_keys=True).encode()
    entropy = int.from_bytes(hashlib.sha256(text).digest(), "big")
    return tuple(np.random.SeedSequence(entropy).spawn(count))


def seeds_of(
    config: object, fields: Iterable[str], count: int, **levels
) -> tuple[np.random.SeedSequence, ...]:
    """Return independent seeds that depend only on some fields of a configuration.

    Parameters
    ----------
    config : object
        Such as a job of a `study.config.design.Design`.
    fields : iterable of str
        Names of the fields.
    count : int
        Number of seeds.
    **levels
        Further levels that the seeds depend on.

    Returns
    -------
    tuple of numpy.random.SeedSequence
    """
    return seeds({name: getattr(config, name) for name in fields} | levels, count)


@contextlib.contextmanager
def torch_seed(seed: np.random.SeedSequence) -> Iterator[None]:
    """Seed PyTorch's generators inside the block, and restore their states afterwards.

    Parameters
    ----------
    seed : numpy.random.SeedSequence

    Yields
    ------
    None
    """
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(int(seed.generate_state(1, np.uint64)[0]))
        yield
