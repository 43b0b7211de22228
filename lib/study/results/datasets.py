"""Read the results of any experiment, and check them against their schema."""

from pathlib import Path

import xarray as xr

from study.results import rows
from study.results.factorial import FACTORIAL, SIMULATED
from study.results.factors import describe_factors
from study.results.interventions import INTERVENTIONS
from study.results.latching import LATCHING
from study.results.linear_gaps import LINEAR_GAPS
from study.results.netcdf import ResultsError, read_netcdf
from study.results.schema import Schema

_KINDS = (FACTORIAL, SIMULATED, INTERVENTIONS, LATCHING, LINEAR_GAPS)
_FIXED = {schema.name: schema for schema in _KINDS}


def load(path: str | Path) -> xr.Dataset:
    """Read the results of an experiment.

    Parameters
    ----------
    path
        A file that `Schema.save` wrote.

    Returns
    -------
    xarray.Dataset
        The results, in memory; `schema_of` returns their schema.

    Raises
    ------
    ResultsError
        The file is missing, damaged, renamed, or not a dataset of results.
    """
    ds = read_netcdf(path, "results")
    try:
        schema = schema_of(ds)
        schema.validate(ds)
    except ResultsError as error:
        raise ResultsError(f"{path} does not hold the results of an experiment: {error}") from None
    # A stored file may have older descriptions. They are updated; the values are not changed.
    return describe_factors(schema.describe(ds))


def schema_of(ds: xr.Dataset) -> Schema:
    """Return the schema that results name.

    Parameters
    ----------
    ds
        Results, whose attribute ``schema`` is the name of their schema.

    Returns
    -------
    Schema
        The schema. That of a group of rows has the measures whose variables are in `ds`.

    Raises
    ------
    ResultsError
        The dataset names no schema, or an unknown one.
    """
    name = ds.attrs.get("schema")
    if name == rows.NAME:
        measures = [
            measure for measure, variables in rows.MEASURED.items() if set(variables) & set(ds)
        ]
        return rows.schema(measures, scores="sequence_score" in ds)
    if name not in _FIXED:
        known = ", ".join([*_FIXED, rows.NAME])
        raise ResultsError(
            f"expected a schema out of {known}, got {name!r}; rebuild the file with `make repro`"
        )
    return _FIXED[name]
