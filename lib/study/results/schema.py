"""Schemas of results: the dimensions and variables of a dataset.

A schema gives the name, meaning and unit of every dimension and variable, and the type of every
variable. The attributes of a dataset have the profile and the settings, but no time, host or
commit, so that equal results have equal bytes; ``dvc.lock`` records how they were made.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

from study.results.netcdf import ResultsError, write_netcdf

COMPLETED = 0
DIVERGED = 1
MISSING = 2
"""Status of an attempt that was planned but did not run."""
NOT_PLANNED = 3
"""Status of a combination of levels that is not in the design."""

_MEANINGS = {
    COMPLETED: "completed",
    DIVERGED: "diverged",
    MISSING: "missing",
    NOT_PLANNED: "not_planned",
}


class Dimension(NamedTuple):
    """Meaning of the levels along a dimension."""

    meaning: str
    units: str
    comment: str = ""
    """Further explanation, such as the meaning of each level."""


class Variable(NamedTuple):
    """Dimensions, type and meaning of a variable."""

    dims: tuple[str, ...]
    dtype: str
    """A NumPy type, or ``str`` for text."""
    meaning: str
    units: str
    comment: str = ""


@dataclass(frozen=True)
class Schema:
    """The schema of the datasets of one kind of experiment."""

    name: str
    """Such as ``factorial/1``; the number is raised when the meaning changes."""
    coordinates: Mapping[str, Dimension]
    variables: Mapping[str, Variable]
    """A variable ``status`` has the values `COMPLETED`, `DIVERGED` and `MISSING`."""
    check: Callable[[xr.Dataset], None] | None = None
    """Further conditions: raises `ResultsError` if the dataset breaks one."""
    union: bool = False
    """Whether the attempts are a union of grids, so that a status may also be `NOT_PLANNED`.
    Otherwise every level is combined with every other."""
    title: str = ""
    """What the results are, in one sentence; an attribute of the dataset, as `references` is."""
    references: str = ""

    def empty(
        self, levels: Mapping[str, list], *, profile: str, settings: dict | None = None
    ) -> xr.Dataset:
        """Return a dataset without results.

        Parameters
        ----------
        levels
            The levels of each dimension.
        profile
            Profile of ``params.yaml``, kept as an attribute.
        settings
            All other settings that the results depend on, kept as JSON in an attribute.

        Returns
        -------
        xarray.Dataset
            Floats are ``nan``, integers 0, texts empty. A status is `MISSING`, or `NOT_PLANNED` in
            a union of grids, until an attempt of the design is filled in.

        Raises
        ------
        ResultsError
            A dimension has no levels.
        """
        if missing := [name for name in self.coordinates if name not in levels]:
            raise ResultsError(f"{self.name}: no levels for the dimension {missing[0]!r}")
        coordinates = {name: (name, np.asarray(levels[name])) for name in self.coordinates}
        attributes = {
            "schema": self.name,
            "profile": profile,
            "settings": json.dumps(settings or {}, sort_keys=True),
        }
        ds = xr.Dataset(coords=coordinates, attrs=attributes)
        for name, variable in self.variables.items():
            shape = tuple(ds.sizes[dim] for dim in variable.dims)
            ds[name] = (variable.dims, _empty_values(shape, variable.dtype))
        if "status" in self.variables:
            meanings = self._meanings()
            ds["status"][:] = max(meanings)
            ds["status"].attrs.update(
                flag_values=list(meanings), flag_meanings=" ".join(meanings.values())
            )
        return self.describe(ds)

    def describe(self, ds: xr.Dataset) -> xr.Dataset:
        """Write the schema's meanings into the attributes of a dataset.

        Parameters
        ----------
        ds
            Results in this schema; changed in place.

        Returns
        -------
        xarray.Dataset
            The same dataset. Values are as before.
        """
        for name in ("title", "references"):
            if text := getattr(self, name):
                ds.attrs[name] = text
        for name, about in (*self.coordinates.items(), *self.variables.items()):
            attributes = ds[name].attrs
            attributes.update(long_name=about.meaning, units=about.units)
            if about.comment:
                attributes["comment"] = about.comment
        return ds

    def validate(self, ds: xr.Dataset) -> xr.Dataset:
        """Check that a dataset follows the schema.

        Parameters
        ----------
        ds
            The dataset.

        Returns
        -------
        xarray.Dataset
            The same dataset, unchanged.

        Raises
        ------
        ResultsError
            The message describes the first problem: what was given and what was expected.
        """
        if ds.attrs.get("schema") != self.name:
            raise ResultsError(
                f"expected results of schema {self.name!r}, got {ds.attrs.get('schema')!r}; "
                "rebuild them with `make repro`"
            )
        for name in ("profile", "settings"):
            if ds.attrs.get(name) is None:
                raise ResultsError(
                    f"the attribute {name!r} is missing; rebuild the results with `make repro`"
                )
        for name, variable in self.variables.items():
            self._check_variable(ds, name, variable)
        for name in self.coordinates:
            _check_levels(ds, name)
        for name in (*self.coordinates, *self.variables):
            if not {"long_name", "units"} <= set(ds[name].attrs):
                raise ResultsError(f"{name}: expected the attributes 'long_name' and 'units'")
        self._check_status(ds)
        if self.check is not None:
            self.check(ds)
        return ds

    def save(self, ds: xr.Dataset, path: str | Path) -> Path:
        """Validate a dataset and write it as a sealed netCDF file, whole or not at all.

        Parameters
        ----------
        ds
            Results in this schema.
        path
            The file.

        Returns
        -------
        Path
            The file that was written.

        Raises
        ------
        ResultsError
            The dataset does not follow the schema.
        OSError
            The file cannot be written.
        """
        self.validate(ds)
        floats = [name for name, about in self.variables.items() if about.dtype[:5] == "float"]
        encoding = {name: {"zlib": True, "complevel": 4} for name in floats}
        return write_netcdf(ds, path, encoding)

    def _meanings(self) -> dict[int, str]:
        """Return the meanings of the values that a status may have."""
        if self.union:
            return dict(_MEANINGS)
        return {flag: text for flag, text in _MEANINGS.items() if flag != NOT_PLANNED}

    def _check_variable(self, ds: xr.Dataset, name: str, variable: Variable) -> None:
        if name not in ds:
            expected = ", ".join(self.variables)
            raise ResultsError(f"variable {name!r} is missing, expected {expected}")
        if variable.dtype == "str":
            right_type = ds[name].dtype.kind in "OUT"
        else:
            right_type = ds[name].dtype == variable.dtype
        if ds[name].dims != tuple(variable.dims) or not right_type:
            raise ResultsError(
                f"{name}: expected {variable.dtype} over {tuple(variable.dims)}, "
                f"got {ds[name].dtype} over {ds[name].dims}"
            )

    def _check_status(self, ds: xr.Dataset) -> None:
        meanings = self._meanings()
        if "status" in self.variables and not ds["status"].isin(list(meanings)).all():
            known = ", ".join(f"{flag} ({text})" for flag, text in meanings.items())
            raise ResultsError(f"status: expected one of {known}")


def settings_of(ds: xr.Dataset) -> dict:
    """Return the settings that the results depend on.

    Parameters
    ----------
    ds
        Results, as `Schema.empty` made them.

    Returns
    -------
    dict
        The settings by name.
    """
    return json.loads(ds.attrs["settings"])


def count_ends(status: xr.DataArray) -> dict[str, int]:
    """Count how many attempts completed, diverged, are missing or were not planned.

    Parameters
    ----------
    status
        The variable ``status`` of results, of any shape.

    Returns
    -------
    dict
        The number of attempts by the meaning of their status.
    """
    meanings = zip(status.flag_values, status.flag_meanings.split(), strict=True)
    return {meaning: int((status == flag).sum()) for flag, meaning in meanings}


def _empty_values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "str":
        return np.full(shape, "", object)
    if dtype.startswith("float"):
        return np.full(shape, np.nan, dtype)
    return np.zeros(shape, dtype)


def _check_levels(ds: xr.Dataset, name: str) -> None:
    if name not in ds.coords:
        raise ResultsError(f"the dimension {name!r} has no levels")
    if len(np.unique(ds[name])) != ds.sizes[name] or ds.sizes[name] == 0:
        raise ResultsError(f"{name}: expected distinct levels, got {ds[name].values.tolist()}")
