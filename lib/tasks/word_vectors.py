"""Vectors that an embedding starts from, kept with the data set whose words they are of."""

from pathlib import Path

import numpy as np
import xarray as xr

from lib.tasks.prepared import load_file


def with_vectors(ds: xr.Dataset, vectors: dict[str, np.ndarray]) -> xr.Dataset:
    """Return a prepared data set with vectors of its tokens, (vocabulary, size) each, by their names."""
    about = {"long_name": "vector of a token", "units": "1"}
    stacked = np.stack([*vectors.values()]).astype(np.float32)
    return ds.assign(
        {
            f"vectors_{name}": (("token", "component"), one, about)
            for name, one in zip(vectors, stacked, strict=True)
        }
    )


def load_vectors(prepared: Path, dataset: str, name: str) -> np.ndarray:
    """Return the vectors `name` of a prepared data set's tokens, (vocabulary, size) float32.

    Raises
    ------
    ValueError
        The data set has no vectors of this name.
    """
    ds = load_file(prepared / f"{dataset}.nc")
    if f"vectors_{name}" not in ds:
        known = sorted(str(v).removeprefix("vectors_") for v in ds if str(v).startswith("vectors_"))
        raise ValueError(f"{dataset} has no vectors {name!r}; it has {', '.join(known) or 'none'}")
    return ds[f"vectors_{name}"].values
