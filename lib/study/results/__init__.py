"""Results: their schemas, the published numbers, and the figures and tables made from them.

The datasets that training writes:

- ``schema``: dimensions, variables and attributes of a dataset; ``rows`` (groups of params.yaml),
  ``factorial``, ``latching``, ``linear_gaps``, ``interventions``: the five schemas
- ``factors``: the coordinates of a group, one per factor that varies
- ``joined``: join the results of many jobs; ``netcdf``: write and read sealed files; ``datasets``:
  read a file of any schema

From datasets to tables:

- ``runs``: one row per run and replicate; ``networks``: one row per network, its best setting, its
  curves
- ``learned``, ``data_used``: whether networks learned, and on which data; ``quartiles``: attempts
  by learning quality
- ``published``: the papers' numbers; ``names``: labels and colors
- ``number_format``: how numbers are written in tables and texts

Files for the report:

- ``artifacts``: store the figures and tables of a notebook; ``artifact_files``: their files;
  ``manifest``: the description next to each
- ``reference``: keep results in ``data/reference``, with their provenance
"""
