"""Schemas of results: what a dataset must hold, and its file, written whole or not at all.

A schema names every dimension and every variable with its type, meaning and unit. Attributes carry the profile and
the settings, never a time, host or commit (``dvc.lock`` is the record of those), so equal results are equal bytes.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from study.pipeline.files import write_whole

COMPLETED, DIVERGED, MISSING, NOT_PLANNED = 0, 1, 2, 3
"""Values of a status. A missing attempt was planned and never ran; what no grid of a design has is not planned."""

_MEANINGS = dict(enumerate(("completed", "diverged", "missing", "not_planned")))


class ResultsError(ValueError):
    """A results dataset or file does not follow its schema."""


@dataclass(frozen=True)
class Schema:
    """What the datasets of one experiment hold."""

    name: str
    """Such as ``factorial/1``; the number is raised when the meaning changes."""
    coordinates: Mapping[str, tuple[str, str]]
    """Meaning and unit of each dimension."""
    variables: Mapping[str, tuple[tuple[str, ...], str, str, str]]
    """Dimensions, NumPy type (``str`` of text), meaning and unit of each. A ``status`` holds `COMPLETED`, `DIVERGED` or `MISSING`."""
    check: Callable[[xr.Dataset], None] | None = None
    """Further conditions: raises `ResultsError` where the dataset breaks one."""
    union: bool = False
    """Whether attempts are a union of grids, whose status may also be `NOT_PLANNED`; else every level meets every other."""

    def empty(
        self, levels: Mapping[str, list], *, profile: str, settings: dict | None = None
    ) -> xr.Dataset:
        """Return a dataset of these `levels` of each dimension without results: ``nan`` for floats, 0 for integers, `MISSING` for a status.

        In a union of grids the status is `NOT_PLANNED` until an attempt of the design is filled in. The `profile` is kept as an
        attribute, and so are, as JSON, the `settings`: everything else that the results depend on.
        """
        if missing := [name for name in self.coordinates if name not in levels]:
            raise ResultsError(f"{self.name}: no levels for the dimension {missing[0]!r}")
        ds = xr.Dataset(
            coords={
                name: (name, np.asarray(levels[name]), {"long_name": text, "units": units})
                for name, (text, units) in self.coordinates.items()
            },
            attrs={
                "schema": self.name,
                "profile": profile,
                "settings": json.dumps(settings or {}, sort_keys=True),
            },
        )
        for name, (dims, dtype, text, units) in self.variables.items():
            shape = tuple(ds.sizes[dim] for dim in dims)
            if dtype == "str":
                values = np.full(shape, "", object)
            else:
                values = np.full(shape, np.nan if dtype.startswith("float") else 0, dtype)
            ds[name] = (dims, values, {"long_name": text, "units": units})
        if "status" in self.variables:
            ends = self._ends()
            ds["status"][:] = max(ends)
            ds["status"].attrs.update(flag_values=list(ends), flag_meanings=" ".join(ends.values()))
        return ds

    def _ends(self) -> dict[int, str]:
        """Return the meanings of the values that the status may have."""
        last = NOT_PLANNED if self.union else MISSING
        return {flag: text for flag, text in _MEANINGS.items() if flag <= last}

    def validate(self, ds: xr.Dataset) -> xr.Dataset:
        """Return `ds` unchanged if it follows the schema.

        Raises
        ------
        ResultsError
            The first thing that is wrong, what was found and what was expected.
        """
        if ds.attrs.get("schema") != self.name:
            raise ResultsError(
                f"expected results of schema {self.name!r}, got {ds.attrs.get('schema')!r}; "
                "rebuild them with `make repro`"
            )
        if ds.attrs.get("profile") is None:
            raise ResultsError(
                "the attribute 'profile' is missing; rebuild the results with `make repro`"
            )
        for name, (dims, dtype, _, _) in self.variables.items():
            if name not in ds:
                expected = ", ".join(self.variables)
                raise ResultsError(f"variable {name!r} is missing, expected {expected}")
            fits = ds[name].dtype.kind in "OUT" if dtype == "str" else ds[name].dtype == dtype
            if ds[name].dims != tuple(dims) or not fits:
                raise ResultsError(
                    f"{name}: expected {dtype} over {tuple(dims)}, "
                    f"got {ds[name].dtype} over {ds[name].dims}"
                )
        for name in self.coordinates:
            if name not in ds.coords:
                raise ResultsError(f"the dimension {name!r} has no levels")
            if len(np.unique(ds[name])) != ds.sizes[name] or ds.sizes[name] == 0:
                levels = ds[name].values.tolist()
                raise ResultsError(f"{name}: expected distinct levels, got {levels}")
        for name in (*self.coordinates, *self.variables):
            if not {"long_name", "units"} <= set(ds[name].attrs):
                raise ResultsError(f"{name}: expected the attributes 'long_name' and 'units'")
        if "status" in self.variables and not ds["status"].isin(list(self._ends())).all():
            known = ", ".join(f"{flag} ({text})" for flag, text in self._ends().items())
            raise ResultsError(f"status: expected one of {known}")
        if self.check is not None:
            self.check(ds)
        return ds

    def save(self, ds: xr.Dataset, path: str | Path) -> Path:
        """Validate `ds` and write it to `path` as netCDF, whole or not at all; a full disk is an `OSError` that says so."""
        self.validate(ds)
        floats = [name for name, (_, dtype, *_) in self.variables.items() if dtype[:5] == "float"]
        encoding = {name: {"zlib": True, "complevel": 4} for name in floats}
        return write_netcdf(ds, path, encoding)


def load(path: str | Path) -> xr.Dataset:
    """Read the results of any experiment, as its own schema wrote them.

    The file says itself what it holds: the schema's name, meaning and unit of every variable. That it was written whole
    and validated is the writer's promise (`Schema.save`), so that statistics need no code that trains.

    Raises
    ------
    ResultsError
        The file is missing, unreadable, or no dataset of results.
    """
    ds = read_netcdf(path, "results")
    if lacking := [name for name in ("schema", "profile", "settings") if name not in ds.attrs]:
        raise ResultsError(
            f"{path} is no dataset of results: the attribute {lacking[0]!r} is missing; rebuild it with `make repro`"
        )
    return ds


def write_netcdf(ds: xr.Dataset, path: str | Path, encoding: Mapping[str, Mapping]) -> Path:
    """Write `ds` as netCDF, whole or not at all; a full disk is an `OSError` that says so."""

    def write(partial: Path) -> None:
        try:
            ds.to_netcdf(partial, engine="netcdf4", encoding=encoding)
        except (OSError, RuntimeError) as error:  # the library reports a full disk as either
            raise OSError(
                f"{path} could not be written ({error}); make room and run again"
            ) from None

    return write_whole(path, write)


def read_netcdf(path: str | Path, what: str, **how: bool) -> xr.Dataset:
    """Return all of a netCDF file, `what` for people; raises `ResultsError` where it is missing or unreadable."""
    path = Path(path)
    if not path.exists():
        there = ", ".join(sorted(file.name for file in path.parent.glob("*.nc"))) or "nothing"
        raise ResultsError(
            f"no {what} at {path}, whose folder holds {there}; build them with `make repro`"
        )
    try:
        with xr.open_dataset(path, engine="netcdf4", **how) as ds:
            return ds.load()
    except (OSError, ValueError, RuntimeError) as error:
        raise ResultsError(f"{path} is not a readable netCDF file ({error}); rebuild it") from None


def settings_of(ds: xr.Dataset) -> dict:
    """Return the settings that the results depend on, as `Schema.empty` stored them."""
    return json.loads(ds.attrs["settings"])


def count_ends(status: xr.DataArray) -> dict[str, int]:
    """Return how many attempts ended in each of the ways that a status may tell, by its meaning."""
    meanings = zip(status.flag_values, status.flag_meanings.split(), strict=True)
    return {meaning: int((status == flag).sum()) for flag, meaning in meanings}
