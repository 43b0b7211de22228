"""Configuration: the settings of a run, and `params.yaml`, which gives them values.

- `section`: base class, number types, error messages
- `network`, `task`, `recipe`, `measurement`, `run`: the settings of one run
- `design`, `jobs`: full factorial designs, and where jobs run
- `file`, `grammar`, `levels`, `tables`, `vocabulary`, `checks`, `expand`, `names`: from
  `params.yaml` to runs
- `datasets`: which prepared data sets a profile reads
"""
