"""Random numbers that follow from an attempt's own levels, not from where or beside which others it runs."""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import torch


def seeds(levels: Mapping, count: int) -> tuple[np.random.SeedSequence, ...]:
    """Return independent seeds that depend on the levels alone.

    Levels are JSON values by name, in any order; the first seeds stay the same when more are asked for.
    """
    text = json.dumps(levels, sort_keys=True).encode()
    entropy = int.from_bytes(hashlib.sha256(text).digest(), "big")
    return tuple(np.random.SeedSequence(entropy).spawn(count))


def seeds_of(
    job: object, fields: Iterable[str], count: int, **levels
) -> tuple[np.random.SeedSequence, ...]:
    """Return `seeds` that depend on these fields of a job, and on further levels, alone."""
    return seeds({name: getattr(job, name) for name in fields} | levels, count)


@contextlib.contextmanager
def torch_seed(seed: np.random.SeedSequence) -> Iterator[None]:
    """Let PyTorch's generators draw from `seed` inside the block, and go on as before after it."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(int(seed.generate_state(1, np.uint64)[0]))
        yield
